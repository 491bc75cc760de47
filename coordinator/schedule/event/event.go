package event

import (
	"time"

	"github.com/sluiceio/sluice/coordinator/checkpoint"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Event is something that happened: one of the types below.
type Event interface{ event() }

// Attached: a worker opened its session. It replaces an earlier session of the same worker.
type Attached struct{ Register *controlpb.Register }

// Detached: the session of an incarnation ended.
type Detached struct {
	Worker      string
	Incarnation uint64
}

// Heartbeat of a worker. Samples and the answer stay with the driver.
type Heartbeat struct {
	Worker      string
	Incarnation uint64
}

// Reported: a worker reports a fact.
type Reported struct {
	Worker      string
	Incarnation uint64
	Report      *controlpb.Report
}

// Built: a worker ran a build function. Answers to dry runs (no job) belong to the driver.
type Built struct {
	Worker      string
	Incarnation uint64
	Result      *controlpb.BuildResult
}

// Draining: a worker wants to leave. At the deadline its subtasks restart elsewhere.
type Draining struct {
	Worker      string
	Incarnation uint64
	Deadline    time.Time
}

// Missing: a worker cannot read results any more that it had.
type Missing struct {
	Worker      string
	Incarnation uint64
	Results     *controlpb.PartitionInventory
}

// Objects: what has changed in a worker's store.
type Objects struct {
	Worker      string
	Incarnation uint64
	Report      *controlpb.ObjectsReport
}

// ProposalDone answers a Propose. Err says that it failed or that its outcome is unknown. Otherwise Result is the
// answer; the view of the same Step, or of a later one, contains it.
type ProposalDone struct {
	Key    string
	Result state.Result
	Err    error
}

// Published answers a Publish: the object with the stores that hold it, or why it may be in none.
type Published struct {
	Job        string
	Checkpoint checkpoint.ID
	Object     *jobpb.StoredObject
	Err        error
}

// Fetched answers a Fetch with what was read and compared with its digest.
type Fetched struct {
	Job        string
	Checkpoint checkpoint.ID
	Manifest   *snapshotpb.Manifest
	Err        error
}

// Applied: the facts may have changed up to Index, by whomever.
type Applied struct{ Index uint64 }

// Tick: the time of a WakeAt has come. Harmless at any other time.
type Tick struct{}

func (Attached) event()     {}
func (Detached) event()     {}
func (Heartbeat) event()    {}
func (Reported) event()     {}
func (Built) event()        {}
func (Draining) event()     {}
func (Missing) event()      {}
func (ProposalDone) event() {}
func (Objects) event()      {}
func (Published) event()    {}
func (Fetched) event()      {}
func (Applied) event()      {}
func (Tick) event()         {}

// Action is what the driver has to do: one of the types below, in the order given.
type Action interface{ action() }

// Propose a command. Its time, proposer and version are set. ProposalDone carries the same Key; until then no other
// proposal has it.
type Propose struct {
	Key     string
	Command *commandpb.Command
}

// Send a message to the session of a worker's incarnation, in order, or end the session. No session: drop it.
type Send struct {
	Worker      string
	Incarnation uint64
	Message     *controlpb.CoordinatorMessage
}

// Drop ends a worker's session, and needs no Detached in answer; the worker may come back.
type Drop struct {
	Worker      string
	Incarnation uint64
	Reason      string
}

// Publish the manifest of a checkpoint: durable in copies of the targets, in their order, and read back. Nothing waits for it.
// Published answers.
type Publish struct {
	Job        string
	Checkpoint checkpoint.ID
	Name       snapshot.Name
	Data       []byte
	Targets    []*taskpb.StoreAddress
	Copies     int
}

// Fetch the manifest of a checkpoint from any of the stores that hold it. Nothing waits for it. Fetched answers.
type Fetch struct {
	Job        string
	Checkpoint checkpoint.ID
	Object     *jobpb.StoredObject
	Stores     []*taskpb.StoreAddress
}

// WakeAt replaces the previous one: feed a Tick at that time.
type WakeAt struct{ At time.Time }

func (Propose) action() {}
func (Send) action()    {}
func (Drop) action()    {}
func (Publish) action() {}
func (Fetch) action()   {}
func (WakeAt) action()  {}
