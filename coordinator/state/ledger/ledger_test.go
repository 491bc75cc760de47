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
