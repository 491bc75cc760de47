package task

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/shuffle"
)

// witness notes what it is told, as an operator and as an outlet.
type witness struct {
	Base
	name string
	log  *[]string
}

func (w *witness) OnWatermark(t element.Time) error {
	*w.log = append(*w.log, fmt.Sprintf("%s %v", w.name, t))
	return nil
}

func (w *witness) Finish() error {
	*w.log = append(*w.log, w.name+" finish")
	return nil
}

func (w *witness) broadcast(ev element.Event) error {
	*w.log = append(*w.log, fmt.Sprintf("%s event %d", w.name, ev.Kind))
	return nil
}

func (w *witness) flush() error               { return nil }
func (w *witness) pending() bool              { return false }
func (w *witness) stats() shuffle.WriterStats { return shuffle.WriterStats{} }
func (w *witness) close(error) error          { return nil }

// holding is an operator that emits at the end, with times of before.
type holding struct{ witness }

func (holding) HoldsWatermarks() {}

func TestNobodyBehindAHolderSeesAWatermarkBeforeTheEnd(t *testing.T) {
	var log []string
	w := func(name string) *witness { return &witness{name: name, log: &log} }
	rt := func() *Runtime { return NewRuntime(t.Context(), "op") }
	// source → (sort → window → edge 1), edge 2
	c := newChain(t.Context(), newCursor(), []node{
		{id: "head", rt: rt(), op: w("head"), size: 5},
		{id: "sort", rt: rt(), op: &holding{*w("sort")}, size: 3},
		{id: "window", rt: rt(), op: w("window"), size: 2},
		{id: "edge 1", out: w("edge 1"), size: 1},
		{id: "edge 2", out: w("edge 2"), size: 1},
	}, -1)
	for _, ev := range []element.Event{
		{Kind: element.Watermark, Time: 7}, {Kind: element.Idle}, {Kind: element.End, Time: element.MaxTime},
	} {
		if err := c.control(ev); err != nil {
			t.Fatal(err)
		}
	}
	at, end := element.Time(7).String(), element.MaxTime.String()
	want := []string{
		"head " + at, "sort " + at, fmt.Sprintf("edge 2 event %d", element.Watermark),
		fmt.Sprintf("edge 2 event %d", element.Idle),
		"head " + end, "head finish", "sort " + end, "sort finish", "window " + end, "window finish",
		fmt.Sprintf("edge 1 event %d", element.End), fmt.Sprintf("edge 2 event %d", element.End),
	}
	if !slices.Equal(log, want) {
		t.Errorf("got\n%q, want\n%q", log, want)
	}
}
