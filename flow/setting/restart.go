package setting

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DefaultRestart is the strategy of a cluster for jobs that say none. It gives up after 20 failures without a quiet
// period of 10 minutes between them, some 16 minutes of trying: nothing is repeated without a bound.
const DefaultRestart = "exponential(1s,1m,2,0.1,10m,20)"

// RestartKind names a strategy.
type RestartKind uint8

// The strategies.
const (
	RestartNone        RestartKind = iota // the first failure fails the job
	RestartFixed                          // N restarts, each after Delay
	RestartRate                           // N restarts within any Window, each after Delay
	RestartExponential                    // delays grow from Delay to Max; N in a row; a quiet Reset forgets
)

// Restart says how often and after which pause failures of user code restart a job.
type Restart struct {
	Kind   RestartKind
	N      int           // restarts that are allowed; 0 for exponential: no limit
	Delay  time.Duration // pause; the first one if exponential
	Window time.Duration // rate
	Max    time.Duration // exponential: longest pause
	Factor float64       // exponential: growth of the pause
	Jitter float64       // exponential: share by which a pause may be longer or shorter, so that jobs do not restart in step
	Reset  time.Duration // exponential: a run this long without failure makes it forget
}

// String is the strategy as it is written in settings.
func (r Restart) String() string {
	switch r.Kind {
	case RestartFixed:
		return fmt.Sprintf("fixed(%d,%s)", r.N, r.Delay)
	case RestartRate:
		return fmt.Sprintf("rate(%d,%s,%s)", r.N, r.Window, r.Delay)
	case RestartExponential:
		return fmt.Sprintf("exponential(%s,%s,%g,%g,%s,%d)", r.Delay, r.Max, r.Factor, r.Jitter, r.Reset, r.N)
	}
	return "none"
}

// maxRestarts is what the bounded history of a job can count.
const maxRestarts = 100

// ParseRestart reads none, fixed(n,delay), rate(n,window,delay) or exponential(initial,max,factor,jitter,reset,n).
// Arguments may be left out from the end; defaults then stand for them.
func ParseRestart(text string) (Restart, error) {
	name, rest, call := strings.Cut(strings.TrimSpace(text), "(")
	var args []string
	if call {
		inside, closed := strings.CutSuffix(rest, ")")
		if !closed {
			return Restart{}, fmt.Errorf("%q has no closing parenthesis", text)
		}
		if strings.TrimSpace(inside) != "" {
			args = strings.Split(inside, ",")
		}
	}
	p := &arguments{args: args}
	var r Restart
	switch strings.TrimSpace(name) {
	case "none":
		r.Kind = RestartNone
	case "fixed":
		r = Restart{Kind: RestartFixed, N: p.count(3, 1), Delay: p.duration(time.Second)}
	case "rate":
		r = Restart{Kind: RestartRate, N: p.count(3, 1), Window: p.duration(5 * time.Minute), Delay: p.duration(time.Second)}
	case "exponential":
		r = Restart{Kind: RestartExponential, Delay: p.duration(time.Second), Max: p.duration(time.Minute), Factor: p.number(2),
			Jitter: p.number(0.1), Reset: p.duration(10 * time.Minute), N: p.count(20, 0)}
	default:
		return Restart{}, fmt.Errorf("%q is none of none, fixed(n,delay), rate(n,window,delay), exponential(initial,max,factor,jitter,reset,n)", text)
	}
	if p.err == nil && len(p.args) > 0 {
		p.err = fmt.Errorf("%q has %d arguments too many", text, len(p.args))
	}
	if p.err == nil {
		p.err = r.check()
	}
	if p.err != nil {
		return Restart{}, p.err
	}
	return r, nil
}

func (r Restart) check() error {
	switch {
	case r.Kind != RestartExponential:
		return nil
	case r.Delay <= 0 || r.Max < r.Delay:
		return fmt.Errorf("the pauses %s to %s must be positive and rise", r.Delay, r.Max)
	case !(r.Factor >= 1 && r.Factor <= 100):
		return fmt.Errorf("the factor %g is not in 1…100", r.Factor)
	case !(r.Jitter >= 0 && r.Jitter < 1):
		return fmt.Errorf("the jitter %g is not in 0…1", r.Jitter)
	case r.Reset <= 0:
		return fmt.Errorf("the quiet time %s must be positive", r.Reset)
	}
	return nil
}

// arguments hands out one argument after the other and keeps the first error.
type arguments struct {
	args []string
	err  error
}

func (a *arguments) next() (string, bool) {
	if len(a.args) == 0 || a.err != nil {
		return "", false
	}
	s := strings.TrimSpace(a.args[0])
	a.args = a.args[1:]
	return s, true
}

func (a *arguments) count(otherwise, least int) int {
	s, ok := a.next()
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > maxRestarts {
		a.err = fmt.Errorf("%q is no number in %d…%d", s, least, maxRestarts)
	}
	return n
}

func (a *arguments) duration(otherwise time.Duration) time.Duration {
	s, ok := a.next()
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 24*time.Hour {
		a.err = fmt.Errorf("%q is no duration up to 24h, such as 500ms or 2s", s)
	}
	return d
}

func (a *arguments) number(otherwise float64) float64 {
	s, ok := a.next()
	if !ok {
		return otherwise
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		a.err = fmt.Errorf("%q is no number", s)
	}
	return f
}
