package chain

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
)

var errTest = errors.New("test failure")

// tally counts records by value, and keeps the checkpoint part of the contract the simple way: a barrier swaps the map.
// A real operator freezes in place; what its caller sees is the same.
type tally struct {
	Base
	counts map[int]int
	frozen map[element.CheckpointID]map[int]int
}

func newTally() *tally {
	return &tally{counts: map[int]int{}, frozen: map[element.CheckpointID]map[int]int{}}
}

func (c *tally) OnBarrier(id element.CheckpointID) error {
	c.frozen[id], c.counts = c.counts, maps.Clone(c.counts)
	return nil
}

func (c *tally) Snapshot(id element.CheckpointID, put func(Entry) error) error {
	for _, k := range slices.Sorted(maps.Keys(c.frozen[id])) {
		e := Entry{State: "n", KeyGroup: k % 8, Key: fmt.Append(nil, k), Value: fmt.Append(nil, c.frozen[id][k])}
		if err := put(e); err != nil {
			return err
		}
	}
	return nil
}

func (c *tally) Restore(entries iter.Seq2[Entry, error]) error {
	clear(c.counts)
	for e, err := range entries {
		if err != nil {
			return err
		}
		if e.State != "n" {
			return &StateError{State: e.State}
		}
		k, _ := strconv.Atoi(string(e.Key))
		c.counts[k], _ = strconv.Atoi(string(e.Value))
	}
	return nil
}

// The order that a checkpoint driver keeps: records, barrier, records and snapshot at once, failure, restore.
func TestAnOperatorGoesBackToItsSnapshot(t *testing.T) {
	c := newTally()
	in, op, err := StageOf[int, int](func(*Runtime, Push[int]) (Push[int], Operator, error) {
		return func(v int) { c.counts[v]++ }, c, nil
	}).Build(NewRuntime(t.Context(), "tally"), nil)
	if err != nil {
		t.Fatal(err)
	}
	push := in.(Push[int])
	for v := range 100 {
		push(v % 10)
	}
	if err := op.OnBarrier(1); err != nil {
		t.Fatal(err)
	}
	push(3)
	push(77)
	var chunk []Entry
	if err := op.Snapshot(1, func(e Entry) error { chunk = append(chunk, e); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(chunk) != 10 || string(chunk[3].Value) != "10" {
		t.Fatalf("the snapshot holds %d entries, %s for key 3: records after the barrier are in it", len(chunk), chunk[3].Value)
	}
	if err := op.Snapshot(1, func(Entry) error { return errTest }); err != errTest {
		t.Errorf("an error of the store came back as %v", err)
	}

	fresh := newTally()
	entries := func(yield func(Entry, error) bool) {
		for _, e := range chunk {
			if !yield(e, nil) {
				return
			}
		}
	}
	if err := fresh.Restore(entries); err != nil {
		t.Fatal(err)
	}
	if fresh.counts[3] != 10 || fresh.counts[77] != 0 {
		t.Errorf("restored %v", fresh.counts)
	}
	// An operator without this state must not lose it silently.
	if err := (Base{}).Restore(entries); err == nil {
		t.Error("state without a reader was dropped")
	}
}
