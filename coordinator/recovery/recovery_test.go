package recovery

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/jobpb"
)

const (
	user = jobpb.FailureKind_FAILURE_USER
	loss = jobpb.FailureKind_FAILURE_LOSS
)

func strategy(t *testing.T, text string) setting.Restart {
	t.Helper()
	s, err := setting.ParseRestart(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// play lets a job fail again and again after a run of the given length and returns the pauses until it is given up.
func play(s setting.Restart, kind jobpb.FailureKind, running time.Duration, most int) (pauses []time.Duration, reason string) {
	var history []*jobpb.Restart
	at := int64(1_000_000_000)
	for range most {
		at += running.Microseconds()
		d := Decide(s, history, Failed{Kind: kind, At: at, Job: "job-1", Restarts: int32(len(history))})
		if !d.Restart {
			return pauses, d.Reason
		}
		pauses = append(pauses, d.Delay)
		history = append(history, &jobpb.Restart{TimeUs: at, Kind: kind, DelayUs: d.Delay.Microseconds()})
		at += d.Delay.Microseconds()
	}
	return pauses, ""
}

func TestStrategies(t *testing.T) {
	seconds := func(ds []time.Duration) (s []float64) {
		for _, d := range ds {
			s = append(s, d.Seconds())
		}
		return s
	}
	for _, c := range []struct {
		strategy string
		kind     jobpb.FailureKind
		running  time.Duration
		want     []float64 // the first pauses
		n        int       // restarts in all; -1: no end within 60
	}{
		{"none", user, time.Second, nil, 0},
		{"fixed(2,3s)", user, time.Hour, []float64{3, 3}, 2},
		{"rate(2,1m,1s)", user, time.Second, []float64{1, 1}, 2},
		{"rate(2,1m,1s)", user, time.Minute, []float64{1, 1, 1}, -1},
		{"exponential(1s,5s,2,0,10m,4)", user, time.Second, []float64{1, 2, 4, 5}, 4},
		{"exponential(1s,5s,2,0,10m,4)", user, 11 * time.Minute, []float64{1, 1, 1, 1, 1, 1}, -1},
		{"exponential(1s,5s,2,0,10m,0)", user, time.Second, []float64{1, 2, 4, 5, 5}, -1},
		{"none", loss, 30 * time.Second, []float64{0, 0, 0, 0}, -1},
		{"none", loss, 0, []float64{0, 0, 0, 1, 1}, -1},
		{"fixed(9,1s)", jobpb.FailureKind_FAILURE_FATAL, time.Second, nil, 0},
	} {
		pauses, reason := play(strategy(t, c.strategy), c.kind, c.running, 60)
		if got := seconds(pauses); len(got) < len(c.want) || !slices.Equal(got[:len(c.want)], c.want) {
			t.Errorf("%s, %s after %s: pauses %v, want %v", c.strategy, c.kind, c.running, got, c.want)
		}
		if n := len(pauses); c.n >= 0 && n != c.n || c.n < 0 && reason != "" {
			t.Errorf("%s, %s after %s: %d restarts, then %q", c.strategy, c.kind, c.running, n, reason)
		}
	}
}

func TestLossesHaveACapOfTheirOwn(t *testing.T) {
	pauses, reason := play(strategy(t, "none"), loss, time.Second, 1000)
	if len(pauses) != MaxLosses || !strings.Contains(reason, "100 times") {
		t.Fatalf("%d restarts, then %q", len(pauses), reason)
	}
	if pauses, reason := play(strategy(t, "none"), loss, 10*time.Second, 1000); reason != "" {
		t.Fatalf("%d restarts at a bearable rate, then %q", len(pauses), reason)
	}
}

func TestLossesDoNotCountAsFailuresOfUserCode(t *testing.T) {
	var history []*jobpb.Restart
	for i := range 50 {
		history = append(history, &jobpb.Restart{TimeUs: int64(i), Kind: loss})
	}
	for _, s := range []string{"fixed(1,1s)", "rate(1,1h,1s)", "exponential(1s,1m,2,0,1h,1)"} {
		if d := Decide(strategy(t, s), history, Failed{Kind: user, At: 100}); !d.Restart || d.Delay != time.Second {
			t.Errorf("%s after losses only: %+v", s, d)
		}
	}
}

// The history is bounded, and the settings allow no strategy to count further than it reaches.
func TestNoStrategyCountsFurtherThanTheHistoryReaches(t *testing.T) {
	for _, s := range []string{"rate(%d,10000h,1s)", "exponential(1s,1s,1,0,1h,%d)"} {
		if _, err := setting.ParseRestart(fmt.Sprintf(s, state.MaxHistory)); err == nil {
			t.Errorf(s+" is possible", state.MaxHistory)
		}
	}
	if MaxLosses > state.MaxHistory {
		t.Errorf("%d losses are counted, %d are remembered", MaxLosses, state.MaxHistory)
	}
	// A fixed number counts over the whole life, also when the history has forgotten the beginning.
	if d := Decide(strategy(t, "fixed(100,1s)"), nil, Failed{Kind: user, At: 1, Restarts: 100}); d.Restart {
		t.Error("the hundredth restart is not the last")
	}
	if d := Decide(strategy(t, "fixed(100,1s)"), nil, Failed{Kind: user, At: 1, Restarts: 99}); !d.Restart {
		t.Error(d.Reason)
	}
}

func TestJitterIsBoundedAndTheSameForEveryLeader(t *testing.T) {
	s := strategy(t, "exponential(1s,1m,2,0.25,10m,0)")
	lowest, highest := math.Inf(1), math.Inf(-1)
	for i := range int32(1000) {
		f := Failed{Kind: user, At: 1, Job: "job-7", Restarts: i}
		d := Decide(s, nil, f)
		if d != Decide(s, nil, f) {
			t.Fatal("two leaders decide differently")
		}
		lowest, highest = min(lowest, d.Delay.Seconds()), max(highest, d.Delay.Seconds())
	}
	if lowest < 0.75 || lowest > 0.77 || highest > 1.25 || highest < 1.23 {
		t.Fatalf("pauses from %gs to %gs", lowest, highest)
	}
}
