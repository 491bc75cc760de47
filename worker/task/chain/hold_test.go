package chain

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// witness notes what it is told, as an operator.
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

// exit is an outlet that notes what it is told.
type exit struct {
	name string
	log  *[]string
}

func (x *exit) Broadcast(ev element.Event) error {
	*x.log = append(*x.log, fmt.Sprintf("%s event %d", x.name, ev.Kind))
	return nil
}

func (x *exit) Flush() error                { return nil }
func (x *exit) Pending() bool               { return false }
func (x *exit) Stats() OutletStats          { return OutletStats{} }
func (x *exit) Close(error) error           { return nil }
func (x *exit) Partition() *jobpb.Partition { return nil }

// holding is an operator that emits at the end, with times of before.
type holding struct{ witness }

func (holding) HoldsWatermarks() {}

func TestNobodyBehindAHolderSeesAWatermarkBeforeTheEnd(t *testing.T) {
	var log []string
	w := func(name string) *witness { return &witness{name: name, log: &log} }
	rt := func() *Runtime { return NewRuntime(t.Context(), "op") }
	// source → (sort → window → edge 1), edge 2
	c := New(t.Context(), NewCursor(), []Node{
		{ID: "head", Runtime: rt(), Operator: w("head"), Size: 5},
		{ID: "sort", Runtime: rt(), Operator: &holding{*w("sort")}, Size: 3},
		{ID: "window", Runtime: rt(), Operator: w("window"), Size: 2},
		{ID: "edge 1", Outlet: &exit{"edge 1", &log}, Size: 1},
		{ID: "edge 2", Outlet: &exit{"edge 2", &log}, Size: 1},
	}, -1)
	for _, ev := range []element.Event{
		{Kind: element.Watermark, Time: 7}, {Kind: element.Idle}, {Kind: element.End, Time: element.MaxTime},
	} {
		if err := c.Control(ev); err != nil {
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
