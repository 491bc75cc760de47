package jobpb

import "fmt"

// MaxUserCounters is how many counts of the job's own the counters of a subtask may have: they are stored with the job.
const MaxUserCounters = 256

// Validate checks the counts of the job's own.
func (c *Counters) Validate() error {
	if len(c.GetUser()) > MaxUserCounters {
		return fmt.Errorf("%d user counters, at most %d", len(c.User), MaxUserCounters)
	}
	for i, u := range c.GetUser() {
		if u == nil || len(u.Operator) > MaxName || u.Name == "" || len(u.Name) > MaxName {
			return fmt.Errorf("user[%d]: operator of %d bytes, name of %d, want at most %d", i, len(u.GetOperator()), len(u.GetName()), MaxName)
		}
	}
	return nil
}
