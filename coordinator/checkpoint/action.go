package checkpoint

import (
	"time"

	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// ID is the id of a checkpoint: issued by the facts, growing for the life of a job, never used twice.
type ID uint64

// Place is a task process on a worker.
type Place struct {
	Worker  string
	Process uint64
}

// Action is what has to be done: one of the types below, in the order given.
type Action interface{ action() }

// Start proposes a checkpoint. Started tells what became of it.
type Start struct {
	Kind    jobpb.CheckpointKind
	Regions []*taskpb.RegionEpoch
	Request string // of the savepoint that it is for
}

// Abort proposes to give one up.
type Abort struct {
	ID    ID
	Cause *jobpb.Failure
}

// Trigger begins a checkpoint in a process.
type Trigger struct {
	Place   Place
	ID      ID
	Kind    jobpb.CheckpointKind
	Regions []*taskpb.RegionEpoch
}

// Notice tells a process what became of a checkpoint.
type Notice struct {
	Place   Place
	ID      ID
	Aborted bool
	Regions []*taskpb.RegionEpoch
}

// Load reads a manifest. Loaded brings it.
type Load struct {
	ID       ID
	Manifest *jobpb.StoredObject
}

// Store makes the manifest of a checkpoint durable and reads it back. Stored tells what became of it.
type Store struct {
	ID   ID
	Data []byte
}

// Complete proposes that a checkpoint is what restarts go back to. Completed tells what became of it.
type Complete struct{ Command *commandpb.CompleteCheckpoint }

// Fail says that more checkpoints in a row were given up than the job tolerates, or that none can be made any more. It is said
// again until Forgiven.
type Fail struct{ Cause *jobpb.Failure }

// Wake asks for a Step at a time.
type Wake struct{ At time.Time }

func (Start) action()    {}
func (Abort) action()    {}
func (Trigger) action()  {}
func (Notice) action()   {}
func (Load) action()     {}
func (Store) action()    {}
func (Complete) action() {}
func (Fail) action()     {}
func (Wake) action()     {}
