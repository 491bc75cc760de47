package adoption

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/adopt"
)

// plan is one keyed operator with a state of a schema, at a parallelism.
func plan(n int32, schema string) *jobpb.Plan {
	return &jobpb.Plan{
		Graph:  &jobpb.Graph{Operators: []*jobpb.Operator{{Id: "count", Kind: "process", Stateful: true, States: []*jobpb.StateDeclaration{{Kind: "value", Name: "n", Schema: schema}}}}},
		Chains: []*jobpb.Chain{{Operators: []int32{0}, Parallelism: n, Name: "count"}}, Regions: []*jobpb.Region{{Subtasks: []*jobpb.SubtaskRange{{Count: n}}, Checkpointed: true}},
	}
}

const segment = "old-1/1/1/7-0.segment"

func manifest() *snapshotpb.Manifest {
	return &snapshotpb.Manifest{
		Version: 1, Job: "old-1", JobEpoch: 1, Checkpoint: 7, Plan: plan(1, "i64"), Objects: []*jobpb.Object{{Name: segment, Size: 1, Digest: make([]byte, 32)}},
		Subtasks: []*snapshotpb.SubtaskState{{Status: snapshotpb.SubtaskStatus_RUNNING, Operators: []*snapshotpb.OperatorState{{
			Operator: "count", Parts: []*snapshotpb.Part{{Segment: segment, Size: 1, Table: "state", End: 256, Scope: 1}},
		}}}},
	}
}

func adoption(schema string) *Adoption {
	return &Adoption{in: adopt.Input{Job: "new-2", JobEpoch: 1, Checkpoint: 7, Plan: plan(2, schema), Fits: func(old, now string) error {
		if old != now {
			return errors.New("another type")
		}
		return nil
	}}}
}

// TestACheckpointIsReadTranslatedAndWritten plays the way without faults, with answers that nobody waits for in between.
func TestACheckpointIsReadTranslatedAndWritten(t *testing.T) {
	a, now := adoption("i64"), time.Unix(100, 0)
	a.Stored(&jobpb.StoredObject{}, nil)
	if w := a.Step(now); w != Read {
		t.Fatal(w)
	}
	if w := a.Step(now); w != Nothing {
		t.Fatalf("asked twice: %v", w)
	}
	a.Fetched(manifest(), nil)
	if w := a.Step(now); w != Write {
		t.Fatal(w)
	}
	a.Fetched(nil, errors.New("late"))
	name := "new-2/1/7-1.manifest"
	a.Stored(&jobpb.StoredObject{Object: &jobpb.Object{Name: name}}, nil)
	if w := a.Step(now); w != Finish {
		t.Fatal(w)
	}
	adopted, f := a.Result()
	if f != nil || len(adopted.Objects) != 2 || adopted.Objects[0] != name || adopted.Objects[1] != segment {
		t.Fatalf("%v, %v", adopted, f)
	}
	m, err := snapshot.DecodeManifest(a.Data())
	if err != nil || m.Job != "new-2" || len(m.Subtasks) != 2 || m.Subtasks[1].Operators[0].Parts[0].First != 128 {
		t.Fatalf("%v, %v", m, err)
	}
}

// TestStoresThatDoNotAnswerAreAskedAgainForAWhile: what may be over soon is tried again, what never will be is said at once.
func TestStoresThatDoNotAnswerAreAskedAgainForAWhile(t *testing.T) {
	a, now := adoption("i64"), time.Unix(100, 0)
	tries := 0
	for a.Step(now) != Finish {
		if a.asked == Read {
			tries++
			a.Fetched(nil, errors.New("no answer"))
		}
		if now = a.Again(); tries > 1000 {
			t.Fatal("for ever")
		}
	}
	if _, f := a.Result(); f.Code != snapshot.CodeRead || tries < 5 {
		t.Fatalf("%v after %d tries", f, tries)
	}

	a, now = adoption("i64"), time.Unix(100, 0)
	a.Step(now)
	a.Fetched(manifest(), nil)
	for a.Step(now) != Finish {
		if a.asked == Write {
			a.Stored(nil, errors.New("full"))
		}
		now = a.Again()
	}
	if _, f := a.Result(); f.Code != snapshot.CodeWrite {
		t.Fatal(f)
	}

	for code, bad := range map[string]func(*Adoption){
		adopt.CodeType:      func(a *Adoption) { a.Fetched(manifest(), nil) },
		snapshot.CodeFormat: func(a *Adoption) { a.Fetched(nil, &snapshot.FormatError{}) },
	} {
		a := adoption("str")
		a.Step(now)
		bad(a)
		if w := a.Step(now); w != Finish {
			t.Fatal(w)
		}
		if _, f := a.Result(); f.Code != code || code == adopt.CodeType && !strings.Contains(f.Message, "fix:") {
			t.Errorf("%v, want %s", f, code)
		}
	}
}
