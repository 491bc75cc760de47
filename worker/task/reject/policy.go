package reject

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// Action is what becomes of a record that has failed for good.
type Action uint8

const (
	// Fail ends the attempt.
	Fail Action = iota
	// Skip drops the record and counts it.
	Skip
	// Letter drops the record, counts it, and emits a DeadLetter through Port.
	Letter
)

// actions are the texts of the actions in a graph.
var actions = [...]string{Fail: "fail", Skip: "skip", Letter: "dead-letters"}

// Policy is what an operator does with records that fail.
type Policy struct {
	Action Action
	// Retries is how often a record is tried again before that; Backoff how long it rests before the first time, and twice as
	// long before each further one.
	Retries int
	Backoff time.Duration
	// Registry has the codecs of the pipeline, for letters; nil: none.
	Registry *codec.Registry
}

// MaxRetries bounds Policy.Retries.
const MaxRetries = 1000

// retry begins the text of a policy that tries again: "retry 3 1s skip".
const retry = "retry "

// Retry is the text of a policy that tries a record so often again before then decides.
func Retry(times int, backoff time.Duration, then string) string {
	return fmt.Sprintf("%s%d %v %s", retry, times, backoff, then)
}

// Parse reads the text of a policy as it stands in a graph; the empty one is Fail.
func Parse(text string) (p Policy, err error) {
	if rest, ok := strings.CutPrefix(text, retry); ok {
		times, rest, _ := strings.Cut(rest, " ")
		backoff, then, _ := strings.Cut(rest, " ")
		if p.Retries, err = strconv.Atoi(times); err != nil {
			return p, fmt.Errorf("retries: %w", err)
		}
		if p.Backoff, err = time.ParseDuration(backoff); err != nil {
			return p, fmt.Errorf("rest between tries: %w", err)
		}
		if p.Retries < 1 || p.Retries > MaxRetries || p.Backoff < 0 {
			return p, fmt.Errorf("%d more tries, with a rest of %v; there may be 1 to %d, and no negative rest", p.Retries, p.Backoff, MaxRetries)
		}
		text = then
	}
	if text == "" {
		return p, nil
	}
	for a, name := range actions {
		if name == text {
			p.Action = Action(a)
			return p, nil
		}
	}
	return p, fmt.Errorf("unknown error policy %q", text)
}

// maxDoublings bounds the growth of the rest between tries.
const maxDoublings = 10

// Rest is how long a record rests after its try number n, counted from 1.
func (p *Policy) Rest(n int) time.Duration { return p.Backoff << min(n-1, maxDoublings) }

// Again calls try, which has failed with err, until it returns no error or has failed for good; it returns the last error. It
// blocks the subtask while it rests, until the attempt has to stop.
func (p *Policy) Again(rt *chain.Runtime, err error, try func() error) error {
	if p.Retries == 0 || Final(err) {
		return err
	}
	for n := 1; n <= p.Retries; n++ {
		if rest(rt, p.Rest(n)) != nil {
			return err
		}
		if err = try(); err == nil || Final(err) {
			return err
		}
	}
	return fmt.Errorf("%w (try %d of %d)", err, 1+p.Retries, 1+p.Retries)
}

func rest(rt *chain.Runtime, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return rt.Ctx.Err()
	case <-rt.Ctx.Done():
		return rt.Ctx.Err()
	}
}

// Final reports whether trying again is in vain, and no policy counts.
func Final(err error) bool {
	f, ok := errors.AsType[*fault.Fault](err)
	return connector.IsFatal(err) || ok && (f.Code == fault.CodePanic || f.Kind == jobpb.FailureKind_FAILURE_FATAL)
}
