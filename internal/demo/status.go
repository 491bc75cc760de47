package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// jobStatus is the part of `sluice status -o json` that the demo looks at.
type jobStatus struct {
	ID       string
	Status   string
	Subtasks []subtask
}

type subtask struct {
	Operator string
	Index    int
	Attempt  int
	Worker   string
	State    string
	Counters *struct {
		RecordsIn  int64 `json:"recordsIn,string"`
		RecordsOut int64 `json:"recordsOut,string"`
	}
}

func (d *shell) status(ctx context.Context, job string) (*jobStatus, error) {
	raw, err := d.output(ctx, "status", job, "-o", "json")
	if err != nil {
		return nil, err
	}
	var st jobStatus
	if err := json.Unmarshal([]byte(raw), &st); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return &st, nil
}

// awaitRecords waits until a subtask has emitted n records.
func (d *shell) awaitRecords(ctx context.Context, job string, n int64) (*jobStatus, error) {
	for {
		st, err := d.status(ctx, job)
		if err != nil {
			return nil, err
		}
		if st.most() >= n {
			return st, nil
		}
		switch st.Status {
		case "JOB_FINISHED", "JOB_FAILED", "JOB_CANCELLED":
			return nil, fmt.Errorf("%s is %s before its middle", job, st.Status)
		}
		t := time.NewTimer(100 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}

// most is what the busiest subtask has emitted, as far as the leader has heard.
func (s *jobStatus) most() (n int64) {
	for _, t := range s.Subtasks {
		if t.Counters != nil {
			n = max(n, t.Counters.RecordsOut)
		}
	}
	return n
}

func (s *jobStatus) print() {
	fmt.Printf("   %-34s %-8s %-10s %-18s %s\n", s.ID+" "+s.Status, "attempt", "worker", "state", "records out")
	for _, t := range s.Subtasks {
		out := "-" // the leader has not heard yet
		if t.Counters != nil {
			out = fmt.Sprint(t.Counters.RecordsOut)
		}
		fmt.Printf("   %-34s %-8d %-10.10s %-18s %s\n", fmt.Sprintf("%.28s[%d]", t.Operator, t.Index), t.Attempt, t.Worker, t.State, out)
	}
}

// sameAttempts fails if something was started again. What had no attempt before, because its region waited for the
// results of another one, may have got its first since.
func sameAttempts(before, after *jobStatus) error {
	if len(before.Subtasks) != len(after.Subtasks) {
		return fmt.Errorf("%d subtasks before, %d after", len(before.Subtasks), len(after.Subtasks))
	}
	for i, b := range before.Subtasks {
		a := after.Subtasks[i]
		if a.Attempt == b.Attempt && a.Worker == b.Worker || b.Attempt == 0 && a.Attempt == 1 {
			continue
		}
		return fmt.Errorf("%s[%d]: attempt %d on %q before, attempt %d on %q after", b.Operator, b.Index, b.Attempt, b.Worker, a.Attempt, a.Worker)
	}
	return nil
}
