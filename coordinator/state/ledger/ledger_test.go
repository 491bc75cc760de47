package ledger

import (
	"errors"
	"testing"

	"github.com/sluiceio/sluice/proto/jobpb"
)

func TestARestartGoesBackToTheNewestOneAlone(t *testing.T) {
	c := &jobpb.Checkpoints{Completed: []*jobpb.CheckpointDone{{Id: 3}, {Id: 7}}}
	if got := Restore(c); got != 7 {
		t.Errorf("restores %d", got)
	}
	for old, want := range map[uint64]uint64{0: 0, 3: 7, 7: 7} {
		if got := Renew(c, old); got != want {
			t.Errorf("instead of %d: %d, want %d", old, got, want)
		}
	}
	if Restore(nil) != 0 || Origin(0) != "" || Origin(7) != "; from checkpoint 7" {
		t.Error("a restart from nothing")
	}
}

func TestASavepointIsDroppedByItsOwnerAlone(t *testing.T) {
	savepoint, periodic := jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT, jobpb.CheckpointKind_CHECKPOINT_PERIODIC
	c := &jobpb.Checkpoints{Next: 5, Completed: []*jobpb.CheckpointDone{{Id: 1, Kind: savepoint}, {Id: 2, Kind: periodic}, {Id: 4, Kind: savepoint}}}
	for _, x := range []struct {
		id    uint64
		lives bool
		left  int // 0: refused
	}{{1, true, 2}, {1, false, 2}, {2, false, 0}, {3, false, 0}, {4, true, 0}, {4, false, 2}, {9, true, 0}} {
		n, err := Drop(c, x.id, x.lives)
		if x.left == 0 {
			if !errors.Is(err, ErrContradiction) {
				t.Errorf("%+v: %v", x, err)
			}
			continue
		}
		if err != nil || len(n.Completed) != x.left || Find(n, x.id) != nil || len(c.Completed) != 3 {
			t.Errorf("%+v: %v, %v", x, n, err)
		}
	}
	if _, err := Drop(nil, 1, false); err == nil {
		t.Error("a job without checkpoints lost one")
	}
}

// TestAJobBeginsWithWhatAnotherKeeps: it knows the objects, its ids go on above, and the checkpoint is replaced by one for its plan.
func TestAJobBeginsWithWhatAnotherKeeps(t *testing.T) {
	at := func(name string, stores ...string) *jobpb.StoredObject {
		return &jobpb.StoredObject{Object: &jobpb.Object{Name: name, Size: 1}, Stores: stores}
	}
	segment, old, made := "a-1/1/1/1-0.segment", "a-1/1/4-1.manifest", "b-2/1/4-1.manifest"
	from := &jobpb.Checkpoints{
		Next: 9, Objects: []*jobpb.StoredObject{at(segment, "w"), at(old, "w"), at("a-1/1/8-1.manifest", "w")},
		Completed: []*jobpb.CheckpointDone{{Id: 4, Kind: jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT, Manifest: at(old).Object, Objects: []string{segment, old}}},
	}
	c, err := Begin(from, from.Completed[0])
	if err != nil || c.Next != 5 || c.Origin != 4 || len(c.Objects) != 2 || Savepoint(Newest(c).Kind) || !Confirmed(c) {
		t.Fatalf("%v, %v", c, err)
	}
	if err := Check(c); err != nil {
		t.Fatal(err)
	}
	n, err := Adopt(c, at(made, "w"), []string{made, segment})
	if err != nil || Newest(n).Manifest.Name != made || len(c.Objects) != 2 {
		t.Fatalf("%v, %v", n, err)
	}
	if err := Check(n); err != nil {
		t.Fatal(err)
	}
	if g := Garbage(n, 0); len(g) != 1 || g[0] != old {
		t.Fatalf("garbage: %v", g)
	}
	// The other job knows the old manifest, too: it is left to that.
	if n, _, err = PlanDeletion(n, []string{old}, func(string) bool { return true }); err != nil || len(n.Deleting) != 0 || Object(n, old) != nil {
		t.Fatalf("%v, %v", n, err)
	}
	for name, bad := range map[string]func() error{
		"an object that is gone":  func() error { _, err := Adopt(c, at(made, "w"), []string{made, "a-1/1/1/9-0.segment"}); return err },
		"without its manifest":    func() error { _, err := Adopt(c, at(made, "w"), []string{segment}); return err },
		"in no store":             func() error { _, err := Adopt(c, at(made), []string{made}); return err },
		"a savepoint":             func() error { _, err := Adopt(from, at(made, "w"), []string{made}); return err },
		"of a record without any": func() error { _, err := Adopt(New(), at(made, "w"), []string{made}); return err },
		"while another is under way": func() error {
			x := clone(c)
			x.Started = &jobpb.CheckpointStart{Id: 5}
			_, err := Adopt(x, at(made, "w"), []string{made})
			return err
		},
		"begun with what is on its way": func() error {
			x := clone(from)
			x.Deleting = []string{segment}
			_, err := Begin(x, from.Completed[0])
			return err
		},
	} {
		if bad() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
