package recovery

import (
	"fmt"
	"math"
	"time"

	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Lost workers, processes and links restart a job at once and do not count as failures of user code. They have a cap of
// their own, because something that is lost a hundred times in ten minutes does not get better by trying.
const (
	MaxLosses  = 100
	LossWindow = 10 * time.Minute
	// The first losses within a minute restart at once; from then on there is a pause, so that a link that is cut for good
	// does not become a busy loop.
	promptLosses = 3
	promptWindow = time.Minute
	lossPause    = time.Second
)

// Decision says what follows a failure.
type Decision struct {
	Restart bool
	Delay   time.Duration // before the regions are scheduled again
	Reason  string        // why not, if not
}

// Failed is the occasion of a decision.
type Failed struct {
	Kind jobpb.FailureKind
	// At is the time of the decision, in microseconds since the Unix epoch.
	At int64
	// Job and Restarts, those after failures of user code so far, make the jitter.
	Job      string
	Restarts int32
}

// Decide judges a failure by a strategy and the restarts before it, oldest first.
func Decide(s setting.Restart, history []*jobpb.Restart, f Failed) Decision {
	switch f.Kind {
	case jobpb.FailureKind_FAILURE_FATAL:
		return Decision{Reason: "a restart cannot help"}
	case jobpb.FailureKind_FAILURE_LOSS:
		return decideLoss(history, f.At)
	}
	switch s.Kind {
	case setting.RestartFixed:
		// Over the whole life of the job, which the history need not reach back to.
		if int(f.Restarts) >= s.N {
			return Decision{Reason: fmt.Sprintf("all %d restarts of %s are used up", s.N, s)}
		}
		return Decision{Restart: true, Delay: s.Delay}
	case setting.RestartRate:
		if n := count(history, jobpb.FailureKind_FAILURE_USER, f.At-s.Window.Microseconds()); n >= s.N {
			return Decision{Reason: fmt.Sprintf("%d restarts within %s, which is the limit of %s", n, s.Window, s)}
		}
		return Decision{Restart: true, Delay: s.Delay}
	case setting.RestartExponential:
		return decideExponential(s, history, f)
	}
	return Decision{Reason: "the restart strategy is none"}
}

// count counts the restarts of a kind since a time. Failures of no stated kind count as the user's.
func count(history []*jobpb.Restart, kind jobpb.FailureKind, since int64) int {
	n := 0
	for _, r := range history {
		if (r.Kind == jobpb.FailureKind_FAILURE_LOSS) == (kind == jobpb.FailureKind_FAILURE_LOSS) && r.TimeUs >= since {
			n++
		}
	}
	return n
}

func decideLoss(history []*jobpb.Restart, at int64) Decision {
	if n := count(history, jobpb.FailureKind_FAILURE_LOSS, at-LossWindow.Microseconds()); n >= MaxLosses {
		return Decision{Reason: fmt.Sprintf("workers, processes or links were lost %d times within %s", n, LossWindow)}
	}
	d := Decision{Restart: true}
	if count(history, jobpb.FailureKind_FAILURE_LOSS, at-promptWindow.Microseconds()) >= promptLosses {
		d.Delay = lossPause
	}
	return d
}

// decideExponential: the pause grows with every failure that follows the last one before a quiet time has passed.
func decideExponential(s setting.Restart, history []*jobpb.Restart, f Failed) Decision {
	streak, next := 0, f.At
	for i := len(history) - 1; i >= 0; i-- {
		r := history[i]
		if r.Kind == jobpb.FailureKind_FAILURE_LOSS {
			continue
		}
		if next-(r.TimeUs+r.DelayUs) > s.Reset.Microseconds() {
			break
		}
		streak++
		next = r.TimeUs
	}
	if s.N > 0 && streak >= s.N {
		return Decision{Reason: fmt.Sprintf("%d failures without %s of quiet between them, which is the limit of %s", streak+1, s.Reset, s)}
	}
	delay := min(float64(s.Delay)*math.Pow(s.Factor, float64(streak)), float64(s.Max))
	delay *= 1 + s.Jitter*(2*draw(f.Job, f.Restarts)-1)
	return Decision{Restart: true, Delay: time.Duration(delay).Truncate(time.Microsecond)}
}

// draw is a number in [0, 1) that depends on the job and its restarts only: FNV-1a, finished by the mixer of MurmurHash3.
func draw(job string, restarts int32) float64 {
	h := uint64(14695981039346656037)
	for i := range len(job) {
		h = (h ^ uint64(job[i])) * 1099511628211
	}
	h ^= uint64(uint32(restarts)) * 0x9e3779b97f4a7c15
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return float64(h>>11) / (1 << 53)
}
