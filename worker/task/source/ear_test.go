package source

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/align"
	"github.com/sluiceio/sluice/worker/task/chain"
)

func TestTheEarHearsNoTimeWhileNobodyListens(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var e ear
	for _, c := range []struct {
		do   func()
		when int
		want int
	}{
		{func() {}, 10, 10},
		{func() { e.close(at(20)) }, 50, 20},
		{func() { e.close(at(60)) }, 60, 20}, // again
		{func() { e.open(at(70)) }, 71, 21},
		{func() { e.open(at(80)) }, 80, 30},  // again
		{func() { e.close(at(90)) }, 85, 35}, // a look back
	} {
		c.do()
		if got := e.now(at(c.when)); !got.Equal(at(c.want)) {
			t.Errorf("at %d it is %v, want %v", c.when, got.Unix(), c.want)
		}
	}
}

// A source that its consumers have kept waiting has not looked whether there is something: its splits are not idle. If they were,
// the clock would pass by what lies there.
func TestASplitThatNobodyListensToIsNotIdle(t *testing.T) {
	now := time.Unix(1000, 0)
	o := &heardOutlet{}
	h, _ := driven(t, &lanes{endless: true, times: [][]element.Time{{10, 20}}, silent: make([]bool, 1)},
		Options[int]{Watermarks: WatermarksBounded, IdleAfter: time.Minute}, func(c *Config) {
			c.Runtime.Now = func() time.Time { return now }
			c.Chain = chain.New(c.Runtime.Ctx, c.Runtime.Cursor, []chain.Node{{ID: "out", Outlet: o, Size: 1}}, -1)
		})
	h.push = func(int) { now = now.Add(2 * time.Minute) } // it is full
	look := func() {
		t.Helper()
		if _, err := h.OnTime(now); err != nil {
			t.Fatal(err)
		}
	}
	step := func() {
		t.Helper()
		if _, err := h.Step(1); err != nil {
			t.Fatal(err)
		}
		look()
	}
	if err := h.Assigned(&taskpb.AssignSplits{Splits: []*jobpb.Split{{Id: "0"}}}); err != nil {
		t.Fatal(err)
	}
	look()
	step()
	step()
	idle := fmt.Sprintf("event %d", element.Idle)
	if slices.Contains(o.heard, idle) {
		t.Errorf("it was idle while nobody listened: %v", o.heard)
	}
	step() // there is nothing any more
	now = now.Add(time.Minute)
	look()
	if !slices.Contains(o.heard, idle) {
		t.Errorf("it is not idle: %v", o.heard)
	}
}

// What a reader has read counts before its consumers take it: they may take their time.
func TestAGroupKnowsOfAReaderThatItsConsumersKeepWaiting(t *testing.T) {
	groups := align.New(time.Now)
	other := groups.Join("g", func() {})
	h, _ := driven(t, &lanes{endless: true, times: [][]element.Time{{10}}, silent: make([]bool, 1)},
		Options[int]{Watermarks: WatermarksBounded, Group: "g", MaxDrift: time.Second}, func(c *Config) { c.Groups = groups })
	stood := element.MinTime
	h.push = func(int) { stood = other.Stand(element.MaxTime) }
	if err := h.Assigned(&taskpb.AssignSplits{Splits: []*jobpb.Split{{Id: "0"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Step(1); err != nil {
		t.Fatal(err)
	}
	if stood != 9 {
		t.Errorf("the group stood at %d", stood)
	}
	if err := h.Close(nil); err != nil {
		t.Fatal(err)
	}
	if at := other.Stand(element.MaxTime); at != element.MaxTime {
		t.Errorf("a reader that is closed holds its group at %d", at)
	}
}
