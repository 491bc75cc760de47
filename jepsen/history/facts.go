package history

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Operations of clients. The value of an invocation and of its answer is given with each.
const (
	Submit = "submit" // request id → job id
	Cancel = "cancel" // Ask → status
	Status = "status" // Ask → status
	List   = "list"   // nothing → ids of all jobs
)

// Ask is what a client wants to know of a job, or to be done to it.
type Ask struct {
	Job     string `json:"job"`
	Request string `json:"request"` // of the submit that made the job
}

// Terminal: a job with this status never has another one.
func Terminal(status string) bool {
	switch status {
	case "JOB_FINISHED", "JOB_FAILED", "JOB_CANCELLED", "JOB_STOPPED":
		return true
	}
	return false
}

// Facts are what a history tells beside calls and faults: each is the value of a note, named by its type.
const (
	NoteRun        = "run"
	NoteWorkload   = "workload"
	NoteRows       = "rows"
	NoteVanished   = "vanished"
	NoteProgress   = "progress"
	NoteEvent      = "event"
	NoteChain      = "chain"
	NoteClock      = "clock"
	NoteCensus     = "census"
	NoteCheckpoint = "checkpoint"
	NoteAnswer     = "answer"
	NoteRefusal    = "refusal"
	NoteQuiet      = "quiet" // the last fault is healed; the value is empty
	NoteMissed     = "missed"
)

// Run says what is tried and how to have it again.
type Run struct {
	Scenario string   `json:"scenario"`
	Number   int      `json:"number"`
	Seed     uint64   `json:"seed"`
	Command  string   `json:"command"`
	Judged   []string `json:"judged"` // ids of the invariants that this run must show
}

// Workload is a ledger job, as its oracle sees it.
type Workload struct {
	Job        string `json:"job"`
	Seed       uint64 `json:"seed"`
	Partitions int64  `json:"partitions"`
	Records    int64  `json:"records"` // negative: without end
	Keys       int64  `json:"keys"`
	Window     int64  `json:"window"` // records of one window
	Rate       int64  `json:"rate"`   // records per second; 0: full speed
	// Late: records may be late on purpose. Checkpointed: output becomes visible while the job runs, and survives losses.
	Late         bool `json:"late,omitempty"`
	Checkpointed bool `json:"checkpointed,omitempty"`
}

// Rows have become visible to a reader of committed output, in the order of a part file.
type Rows struct {
	Job  string   `json:"job"`
	Part string   `json:"part"`
	Rows []string `json:"rows"`
}

// Vanished is committed output that is there no more, or is other than it was.
type Vanished struct {
	Job  string `json:"job"`
	Part string `json:"part"`
	How  string `json:"how"`
}

// Progress is a look at a job.
type Progress struct {
	Job      string `json:"job"`
	Status   string `json:"status"`
	Revision uint64 `json:"revision"`
	Term     uint64 `json:"term"`
	Leader   string `json:"leader"`
	Read     int64  `json:"read"` // records that the sources have read, in attempts that run
	Replayed int64  `json:"replayed,omitempty"`
	// Attempts by subtask, "operator[index]"; Epochs by region.
	Attempts map[string]uint32 `json:"attempts"`
	Epochs   map[string]uint64 `json:"epochs"`
	Late     int64             `json:"late,omitempty"` // records dropped
}

// Event of the cluster's own history.
type Event struct {
	Index  uint64 `json:"index"`
	Kind   string `json:"kind"`
	Job    string `json:"job,omitempty"`
	Worker string `json:"worker,omitempty"`
	Text   string `json:"text,omitempty"`
	Term   uint64 `json:"term,omitempty"`
	Epoch  uint64 `json:"epoch,omitempty"`
	Micros int64  `json:"us"`
}

// Chain is the hash chain of a coordinator at an index.
type Chain struct {
	Node    string `json:"node"`
	Applied uint64 `json:"applied"`
	Chain   []byte `json:"chain"`
}

// Clock is the watermark of a subtask, in microseconds of event time.
type Clock struct {
	Job       string `json:"job"`
	Subtask   string `json:"subtask"`
	Attempt   uint32 `json:"attempt"`
	Watermark int64  `json:"watermark"`
	Ended     bool   `json:"ended"` // the job has, or the input of the subtask
}

// Census is what was left when everything had come to rest.
type Census struct {
	Orphans []string `json:"orphans,omitempty"` // processes without a node
	Slots   int32    `json:"slots"`             // used, while no job runs
	Files   []string `json:"files,omitempty"`   // temporary ones, output in progress, results of ended jobs
}

// What happens to a checkpoint.
const (
	Completed  = "completed"
	Restored   = "restored"
	Fresh      = "fresh" // a restart from nothing
	Readable   = "readable"
	Unreadable = "unreadable"
	Committed  = "committed" // output that belongs to it is visible
)

// Checkpoint is something that happened to a checkpoint.
type Checkpoint struct {
	Job  string `json:"job"`
	ID   uint64 `json:"id"`
	What string `json:"what"`
	// Of Committed: the subtask whose output it is, and the epoch of the region in which it was written; ID is the least that it can have.
	Subtask string `json:"subtask,omitempty"`
	Epoch   uint64 `json:"epoch,omitempty"`
	Text    string `json:"text,omitempty"`
	// Micros of the wall clock, of this machine alone: of Completed, Restored and Fresh when the cluster decided it, in whose order these
	// times are; of Committed when the output was seen.
	Micros int64 `json:"us,omitempty"`
}

// Answer of a bounded job, and what it should be.
type Answer struct {
	Job   string `json:"job"`
	Got   string `json:"got"`
	Want  string `json:"want"`
	Again int    `json:"again"` // subtasks that ran again
	// Allowed is what the rules make of it; empty: as they say.
	Objection string `json:"objection,omitempty"`
}

// Refusal is something that must be refused, or said to have failed.
type Refusal struct {
	What    string `json:"what"`
	Refused bool   `json:"refused"`
	Said    string `json:"said"`
	Access  bool   `json:"access,omitempty"` // it was about rights
}

// Hurt is the value of a fault.
type Hurt struct {
	Target string `json:"target"`
	Heals  bool   `json:"heals,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Hurts are faults with their ends, as far as they have any.
type Hurts struct {
	What, Target string
	From, To     time.Duration
	Healed       bool
}

// Faults pairs the faults of a history with what heals them: the next healing of the same target. A fault without one
// lasts until the end of the history, except kills of task processes and damages, which are moments.
func Faults(ops []Op) (all []Hurts) {
	for _, op := range ops {
		if op.Kind != Fault {
			continue
		}
		h := op.Hurt()
		if !h.Heals {
			all = append(all, Hurts{What: op.What, Target: h.Target, From: op.Time, To: op.Time})
			continue
		}
		for i := range all {
			if all[i].Target == h.Target && !all[i].Healed {
				all[i].To, all[i].Healed = op.Time, true
			}
		}
	}
	return all
}

// Hurt of a fault.
func (op Op) Hurt() Hurt {
	var h Hurt
	if json.Unmarshal(op.Value, &h) != nil {
		_ = json.Unmarshal(op.Value, &h.Target) // a bare name
	}
	h.Heals = h.Heals || op.What == "start" || op.What == "resume" || op.What == "heal"
	return h
}

// Is reports whether the op is a note of that name, and reads its value into v.
func (op Op) Is(note string, v any) (bool, error) {
	if op.Kind != Note || op.What != note {
		return false, nil
	}
	if err := json.Unmarshal(op.Value, v); err != nil {
		return false, fmt.Errorf("history line %d: note %s: %w", op.Index, note, err)
	}
	return true, nil
}

// OnCoordinators: the fault is about coordinators alone, as the name of its target says.
func (h Hurts) OnCoordinators() bool {
	for name := range strings.FieldsFuncSeq(h.Target, func(r rune) bool { return r == ' ' || r == ',' || r == '>' || r == '|' }) {
		if !strings.HasPrefix(name, "coordinator-") && !strings.HasPrefix(name, "client-") {
			return false
		}
	}
	return true
}
