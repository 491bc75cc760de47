package checkpoint

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// cluster is a world of stores: those that are there can be spoken to.
func cluster(there ...string) Stores {
	in := func(s string) bool { return slices.Contains(there, s) }
	w := Stores{Reaches: in, Holds: in, Known: func(string) bool { return true }, Addresses: func(...*jobpb.StoredObject) []*taskpb.StoreAddress { return nil }}
	for _, s := range there {
		w.Targets = append(w.Targets, &taskpb.StoreAddress{Store: s})
	}
	return w
}

// TestWhatLosesItsCopiesGetsThemAgain plays the loss of stores one after the other: each time the needed objects get copies on those that are
// there, the facts hear of it, and nothing is asked for twice while a copy is on its way.
func TestWhatLosesItsCopiesGetsThemAgain(t *testing.T) {
	needed, garbage := "j-1/1/3-1.manifest", "j-1/1/1/1-0.segment"
	c := &jobpb.Checkpoints{
		Next: 4, Completed: []*jobpb.CheckpointDone{{Id: 3, Objects: []string{needed}}},
		Objects: []*jobpb.StoredObject{object(garbage, "a"), object(needed, "a", "b")},
	}
	s, now := &Shelf{}, time.Unix(100, 0)
	there := []string{"a", "b", "c", "d"}
	for round, gone := range []string{"a", "b"} {
		now = now.Add(time.Minute)
		there = slices.DeleteFunc(there, func(x string) bool { return x == gone })
		u := s.Step("j-1", c, 2, now, cluster(there...))
		if len(u.Orders) != 1 || u.Orders[0].Message.GetCopyObjects().GetObjects()[0].Object.Name != needed {
			t.Fatalf("round %d: %+v", round, u)
		}
		target := u.Orders[0].Store
		if slices.Contains(ledger.Object(c, needed).Stores, target) || !slices.Contains(there, target) {
			t.Fatalf("round %d: a copy for %s", round, target)
		}
		if u = s.Step("j-1", c, 2, now.Add(copyAgain/2), cluster(there...)); len(u.Orders) != 0 {
			t.Fatalf("round %d: asked twice: %+v", round, u.Orders)
		}
		s.Heard(target, &controlpb.ObjectsReport{Job: "j-1", Stored: []*jobpb.Object{{Name: needed, Size: 1}}})
		u = s.Step("j-1", c, 2, now.Add(copyAgain/2+time.Second), cluster(there...))
		m := u.Command.GetPlaceObjects()
		if m == nil {
			t.Fatalf("round %d: %+v", round, u)
		}
		var err error
		if c, err = ledger.Place(c, m.Placed, m.Lost); err != nil {
			t.Fatal(err)
		}
		if u = s.Step("j-1", c, 2, now.Add(copyAgain/2+2*time.Second), cluster(there...)); u.Command.GetPlaceObjects() != nil || len(u.Orders) != 0 {
			t.Fatalf("round %d: %+v", round, u)
		}
	}
}

// TestAStoreThatLacksSomethingIsCorrected: what a scrub finds damaged, and what an inventory lacks, is taken out of the facts and copied again;
// without any live copy nothing can be copied, and nothing is given up.
func TestAStoreThatLacksSomethingIsCorrected(t *testing.T) {
	name := "j-1/1/3-1.manifest"
	c := &jobpb.Checkpoints{
		Next: 4, Completed: []*jobpb.CheckpointDone{{Id: 3, Objects: []string{name}}}, Objects: []*jobpb.StoredObject{object(name, "a", "b")},
	}
	for i, lose := range []func(*Shelf){
		func(s *Shelf) { s.Heard("a", &controlpb.ObjectsReport{Job: "j-1", Damaged: []string{name}}) },
		func(s *Shelf) { s.Inventory(c, "a", map[string]bool{}) },
	} {
		s := &Shelf{}
		lose(s)
		u := s.Step("j-1", c, 2, time.Unix(100, 0), cluster("a", "b", "c"))
		if fmt.Sprint(u.Command.GetPlaceObjects().GetLost()) == "[]" || len(u.Orders) != 1 || u.Orders[0].Store != "c" {
			t.Fatalf("way %d: %+v", i, u)
		}
	}
	s := &Shelf{}
	s.Inventory(c, "a", map[string]bool{name: true})
	if u := s.Step("j-1", c, 2, time.Unix(100, 0), cluster("a", "b", "c")); u.Command != nil || len(u.Orders) != 0 {
		t.Fatalf("%+v", u)
	}
	if u := s.Step("j-1", c, 2, time.Unix(200, 0), cluster("c")); u.Command != nil || len(u.Orders) != 0 {
		t.Fatalf("nobody has it: %+v", u)
	}
}

// TestWhatHasNotChangedIsNotComparedAgain: until time has passed, a store says something, or the facts are others.
func TestWhatHasNotChangedIsNotComparedAgain(t *testing.T) {
	name := "j-1/1/3-1.manifest"
	c := &jobpb.Checkpoints{
		Next: 4, Completed: []*jobpb.CheckpointDone{{Id: 3, Objects: []string{name}}}, Objects: []*jobpb.StoredObject{object(name, "a", "b")},
	}
	looks := 0
	w := cluster("a", "b", "c")
	holds := w.Holds
	w.Holds = func(store string) bool { looks++; return holds(store) }
	s, now := &Shelf{}, time.Unix(100, 0)
	looked := func(at time.Duration) bool {
		before := looks
		s.Step("j-1", c, 2, now.Add(at), w)
		return looks > before
	}
	if !looked(0) || looked(0) || looked(lookAgain-1) || !looked(lookAgain) {
		t.Fatal("not by time")
	}
	s.Heard("b", &controlpb.ObjectsReport{Job: "j-1"})
	if !looked(lookAgain) || looked(lookAgain) {
		t.Fatal("not by what a store says")
	}
	if c = (&jobpb.Checkpoints{Next: c.Next, Completed: c.Completed, Objects: c.Objects}); !looked(lookAgain) {
		t.Fatal("not by the facts")
	}
}
