package operatortest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/overflow"
	"github.com/sluiceio/sluice/worker/task"
)

// Stored is the state of an operator as its checkpoints have it: a chain of chunks, the oldest first.
type Stored struct {
	Checkpoint element.CheckpointID
	Chunks     [][]byte
}

// Snapshot is a barrier, and the completion of its checkpoint. Runtime.State.Checkpoints must be set before Build.
func (h *Harness[In, Out]) Snapshot(t testing.TB) Stored {
	t.Helper()
	h.id++
	if err := h.Operator.OnBarrier(h.id); err != nil {
		t.Fatalf("barrier %d: %v", h.id, err)
	}
	h.store.Checkpoint = h.id
	for _, table := range h.Runtime.Tables() {
		chunks, err := write(table, h.id)
		if err != nil {
			t.Fatalf("snapshot %d: %v", h.id, err)
		}
		h.store.Chunks = append(h.store.Chunks, chunks...)
		table.Completed(h.id)
	}
	if err := h.Runtime.TableErr(); err != nil {
		t.Fatalf("snapshot %d: %v", h.id, err)
	}
	return Stored{h.id, slices.Clone(h.store.Chunks)}
}

// Delta is Snapshot, and what it alone has written, without what it was restored from and wrote before.
func (h *Harness[In, Out]) Delta(t testing.TB) Stored {
	t.Helper()
	h.store = Stored{}
	return h.Snapshot(t)
}

// Changed tells of a record that was changed after it had been emitted; empty: none was.
func (h *Harness[In, Out]) Changed() string { return h.changed }

// stepUnits is how much a snapshot writes at a time: little, so that it takes several steps.
const stepUnits = 16

func write(table state.Table, id element.CheckpointID) (chunks [][]byte, err error) {
	s, err := table.Freeze(id, state.Delta)
	if err != nil {
		return nil, err
	}
	for done := false; !done; {
		if done, err = s.Step(stepUnits); err != nil {
			return nil, err
		}
		for p, ok := s.Take(); ok; p, ok = s.Take() {
			var b bytes.Buffer
			if _, err := p.WriteTo(&b); err != nil {
				return nil, err
			}
			chunks = append(chunks, b.Bytes())
			if err := p.Release(); err != nil {
				return nil, err
			}
		}
	}
	return chunks, s.Close()
}

// Restore takes over the state that snapshots of one or more subtasks hold, of which it reads its own key groups. Only
// before the first record.
func (h *Harness[In, Out]) Restore(t testing.TB, from ...Stored) {
	t.Helper()
	if err := h.TryRestore(t, from...); err != nil {
		t.Fatalf("restore: %v", err)
	}
}

// TryRestore is Restore for state that may not fit.
func (h *Harness[In, Out]) TryRestore(t testing.TB, from ...Stored) error {
	t.Helper()
	h.store = Stored{}
	for _, s := range from {
		h.id = max(h.id, s.Checkpoint)
		h.store.Chunks = append(h.store.Chunks, s.Chunks...)
	}
	h.store.Checkpoint = h.id
	if err := Load(t, h.Runtime, h.store); err != nil {
		return err
	}
	return h.again()
}

// Load gives the tables of a fresh operator what a chain of chunks has of its key groups.
func Load(t testing.TB, rt *task.Runtime, from Stored) error {
	var chain []*chunk.Reader
	for i, b := range from.Chunks {
		r, err := chunk.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
		chain = append(chain, r)
	}
	for _, table := range rt.Tables() {
		if err := table.Import(t.Context(), chain, rt.KeyGroups.First, rt.KeyGroups.End); err != nil {
			return err
		}
		table.Restored(from.Checkpoint)
	}
	return nil
}

// Rewind puts the state back to the last snapshot, in place. The watermark begins anew, as after a restore.
func (h *Harness[In, Out]) Rewind(t testing.TB) {
	t.Helper()
	for _, table := range h.Runtime.Tables() {
		if err := table.Rewind(table.Base()); err != nil {
			t.Fatalf("rewind: %v", err)
		}
	}
	h.Runtime.Watermark = element.MinTime
	if err := h.again(); err != nil {
		t.Fatalf("rewind: %v", err)
	}
}

func (h *Harness[In, Out]) again() error {
	if r, ok := h.Operator.(task.Restorer); ok {
		if err := r.OnRestored(); err != nil {
			return err
		}
	}
	return h.Runtime.TableErr()
}

// Memory is what the state of an operator is made with: bytes of it, and an overflow without a disk. 0: no limit.
func Memory(t testing.TB, bytes int64) task.StateMemory {
	t.Helper()
	m := task.StateMemory{Checkpoints: true}
	if bytes == 0 {
		return m
	}
	m.Budget = budget.New(bytes)
	store, err := overflow.New(overflow.Config{Budget: m.Budget})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	m.Overflow = store
	return m
}

// keyGroups of a fleet: few, because every one has an entry in every index.
const keyGroups = 16

// Subtask is the surroundings of one of several subtasks of an operator.
func Subtask(t testing.TB, index, parallelism int, m task.StateMemory) *task.Runtime {
	rt := task.NewRuntime(t.Context(), Name)
	rt.State, rt.MaxParallelism = m, keyGroups
	rt.Task.Subtask, rt.Task.Parallelism = index, parallelism
	of := func(i int) int { return (i*rt.MaxParallelism + parallelism - 1) / parallelism }
	rt.KeyGroups = task.KeyGroups{First: of(index), End: of(index + 1)}
	return rt
}

// SetClock sets what the clock shows.
func (h *Harness[In, Out]) SetClock(now time.Time) { h.now = now }
