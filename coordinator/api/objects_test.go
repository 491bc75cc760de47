package api

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// TestOnlyObjectsOfKeptCheckpointsAreRead: what a client names is looked for in the facts, and copy says which store is asked.
func TestOnlyObjectsOfKeptCheckpointsAreRead(t *testing.T) {
	manifest, segment := string(snapshot.Manifest("a-1", 1, 5, 2)), string(snapshot.Segment("a-1", 1, 7, 5, 0))
	other := string(snapshot.Segment("a-1", 1, 7, 6, 0)) // of a checkpoint under way
	at := func(name string, stores ...string) *jobpb.StoredObject {
		return &jobpb.StoredObject{Object: &jobpb.Object{Name: name}, Stores: stores}
	}
	c := &jobpb.Checkpoints{
		Completed: []*jobpb.CheckpointDone{{Id: 5, Objects: []string{manifest, segment}}},
		Objects:   []*jobpb.StoredObject{at(manifest, "w-a"), at(segment, "w-a", "w-b"), at(other, "w-a")},
	}
	for _, x := range []struct {
		what       string
		of         *jobpb.Checkpoints
		checkpoint uint64
		name       string
		copy       uint32
		stores     []string
		status     codes.Code
		code       string
	}{
		{"manifest", c, 5, manifest, 0, []string{"w-a"}, codes.OK, ""},
		{"segment", c, 5, segment, 0, []string{"w-a", "w-b"}, codes.OK, ""},
		{"its second copy", c, 5, segment, 2, []string{"w-b"}, codes.OK, ""},
		{"a third copy", c, 5, segment, 3, nil, codes.OutOfRange, snapshot.CodeRead},
		{"a copy beyond counting", c, 5, segment, 1<<32 - 1, nil, codes.OutOfRange, snapshot.CodeRead},
		{"another checkpoint's", c, 5, other, 0, nil, codes.NotFound, snapshot.CodeFormat},
		{"a checkpoint that is not kept", c, 6, other, 0, nil, codes.NotFound, snapshot.CodeFormat},
		{"a job without checkpoints", nil, 5, segment, 0, nil, codes.NotFound, snapshot.CodeFormat},
		{"an object without a place", &jobpb.Checkpoints{Completed: c.Completed}, 5, segment, 0, nil, codes.FailedPrecondition, snapshot.CodeRead},
	} {
		o, err := keptObject(x.of, &apipb.ReadObjectRequest{Job: "a-1", Checkpoint: x.checkpoint, Name: x.name, Copy: x.copy})
		if x.status == codes.OK {
			if err != nil || o.Object.Name != x.name || !slices.Equal(o.Stores, x.stores) {
				t.Errorf("%s: %v, %v", x.what, o, err)
			}
			continue
		}
		r, ok := errors.AsType[*Refusal](err)
		if !ok || r.Status != x.status || r.Code != x.code || r.Retryable {
			t.Errorf("%s: %v, %+v", x.what, o, err)
		}
	}
	if err := unreadable(&apipb.ReadObjectRequest{}, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that left: %v", err)
	}
}

func TestTroubleWithCheckpointsIsTheLastFailure(t *testing.T) {
	full := &jobpb.Failure{Code: snapshot.CodeWrite}
	history := []*jobpb.CheckpointRecord{{Id: 1, Failure: &jobpb.Failure{Code: "E150"}}, {Id: 2, Failure: full}}
	if n, f := checkpointTrouble(&jobpb.Checkpoints{Failed: 2, History: history}); n != 2 || f != full {
		t.Errorf("%d, %v", n, f)
	}
	history = append(history, &jobpb.CheckpointRecord{Id: 3, Completed: true})
	if n, f := checkpointTrouble(&jobpb.Checkpoints{History: history}); n != 0 || f != nil {
		t.Errorf("after one that completed: %d, %v", n, f)
	}
	if n, f := checkpointTrouble(nil); n != 0 || f != nil {
		t.Errorf("of a job without checkpoints: %d, %v", n, f)
	}
}
