package checkpoint

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/proto/jobpb"
)

func object(name string, stores ...string) *jobpb.StoredObject {
	return &jobpb.StoredObject{Object: &jobpb.Object{Name: name, Size: 1}, Stores: stores}
}

// TestObjectsGoByPlan plays the life of an object that nobody needs: planned, asked for, asked for again, answered, forgotten; what a
// kept checkpoint needs is never in a plan, and a leader that knows nothing asks anew.
func TestObjectsGoByPlan(t *testing.T) {
	c := &jobpb.Checkpoints{
		Next: 4, Completed: []*jobpb.CheckpointDone{{Id: 3, Objects: []string{"j/1/3-1.manifest"}}},
		Objects: []*jobpb.StoredObject{object("j/1/1/1-0.segment", "a", "b", "old"), object("j/1/3-1.manifest", "a")},
	}
	reach := func(store string) (bool, bool) { return store != "b", store != "old" }
	b, now := &Broom{}, time.Unix(100, 0)
	s := b.Step(c, now, reach)
	if fmt.Sprint(s.Plan) != "[j/1/1/1-0.segment]" || len(s.Ask) != 0 || len(s.Forget) != 0 {
		t.Fatalf("%+v", s)
	}
	c, _, err := ledger.PlanDeletion(c, s.Plan, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	for leader := range 2 { // the second one begins from nothing
		b = &Broom{}
		if s = b.Step(c, now, reach); fmt.Sprint(s.Ask) != "map[a:[j/1/1/1-0.segment]]" || len(s.Plan) != 0 || len(s.Forget) != 0 || !s.Again.Equal(now.Add(askAgain)) {
			t.Fatalf("leader %d: %+v", leader, s)
		}
		if s = b.Step(c, now.Add(time.Second), reach); len(s.Ask) != 0 || !s.Again.Equal(now.Add(askAgain)) {
			t.Fatalf("asked twice at once: %+v", s)
		}
		if s = b.Step(c, now.Add(askAgain), reach); len(s.Ask) != 1 {
			t.Fatalf("not asked again: %+v", s)
		}
	}
	b.Gone("a", c.Deleting)
	if s = b.Step(c, now, reach); len(s.Forget) != 0 || len(s.Ask) != 0 {
		t.Fatalf("a store that cannot be reached still has it: %+v", s)
	}
	b.Gone("b", c.Deleting)
	if s = b.Step(c, now, reach); !slices.Equal(s.Forget, c.Deleting) {
		t.Fatalf("%+v", s)
	}
	if c, _, err = ledger.Forget(c, s.Forget); err != nil {
		t.Fatal(err)
	}
	if s = b.Step(c, now, reach); len(s.Plan)+len(s.Ask)+len(s.Forget) != 0 || !s.Again.IsZero() || len(b.gone) != 0 {
		t.Fatalf("%+v", s)
	}
}
