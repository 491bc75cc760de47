package event

import "time"

// Config is the leader's identity and its limits.
type Config struct {
	Leader string // coordinator id
	Term   uint64
	// Heartbeat is the interval asked of workers, LossTimeout the silence after which one is lost.
	Heartbeat, LossTimeout time.Duration
	// BuildLimit bounds the user's build function, PlanTimeout one try of planning with everything around it.
	BuildLimit, PlanTimeout time.Duration
	// StopTimeout bounds the orderly end of cancelled attempts. Then their process is released; after another such time
	// a restarting job no longer waits for them.
	StopTimeout time.Duration
	// Resend is the pause after which an unanswered message is sent again; it doubles with each try.
	Resend time.Duration
	// HoldTimeout is how long a restarting job keeps slots while it lacks others.
	HoldTimeout time.Duration
	// Ageing is how long a job waits for slots before smaller, younger ones may no longer overtake it.
	Ageing time.Duration
	// AbortTimeout bounds the removal of prepared output of a failed or cancelled job, and the commit of one that was
	// cancelled meanwhile.
	AbortTimeout time.Duration
	// Settle is how long a broken link waits for the failure that explains it.
	Settle time.Duration
	// KeepJobs is the number of terminal jobs that are remembered.
	KeepJobs int
	// DefaultRestart is the restart strategy of jobs that say none; empty: that of package setting.
	DefaultRestart string
	// DefaultParallelism of jobs that say none; 0: the free slots.
	DefaultParallelism int
	// Fits reports why state of schema old cannot be read as schema now; nil: it can. Without it schemas have to be equal. What a schema
	// is, is the business of flow/codec, which no coordinator links.
	Fits func(old, now string) error
}

// DefaultConfig has every limit set.
func DefaultConfig() Config {
	return Config{
		Term: 1, Heartbeat: 500 * time.Millisecond, LossTimeout: 3 * time.Second, BuildLimit: 30 * time.Second,
		PlanTimeout: 2 * time.Minute, StopTimeout: 20 * time.Second, Resend: 3 * time.Second, HoldTimeout: 30 * time.Second,
		Ageing: time.Minute, AbortTimeout: time.Minute, Settle: 200 * time.Millisecond, KeepJobs: 1000,
	}
}
