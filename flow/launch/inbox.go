package launch

import (
	"sync"

	"github.com/sluiceio/sluice/coordinator/schedule"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task"
)

// letter is one thing that the task process reports.
type letter struct {
	process uint64
	update  *taskpb.SubtaskUpdate
	found   *taskpb.SplitsDiscovered
	request *taskpb.SplitRequest
	commit  *taskpb.CommitResult
	event   schedule.Event // of the driver's own work beside its loop
	stuck   *jobpb.Failure
	ack     *snapshotpb.Ack
	lost    *controlpb.PartitionInventory // what has disappeared from the directory
}

// inbox is the task.Host of an embedded job: it queues letters for the driver's loop. Its length is bounded by the
// number of attempts, splits and commits, all of which the loop itself hands out.
type inbox struct {
	ready chan struct{} // has a token while letters wait

	mu struct {
		sync.Mutex
		letters []letter
		process uint64 // of the newest deployment
	}
}

var _ task.Host = (*inbox)(nil)

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (b *inbox) put(l letter) {
	b.mu.Lock()
	if l.process == 0 {
		l.process = b.mu.process
	}
	b.mu.letters = append(b.mu.letters, l)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take empties the inbox.
func (b *inbox) take() []letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	ls := b.mu.letters
	b.mu.letters = nil
	return ls
}

// deployed remembers the process number that reports stand under.
func (b *inbox) deployed(d *taskpb.Deployment) {
	b.mu.Lock()
	b.mu.process = d.Process
	b.mu.Unlock()
}

func (b *inbox) Update(u *taskpb.SubtaskUpdate)              { b.put(letter{update: u}) }
func (b *inbox) SplitsDiscovered(d *taskpb.SplitsDiscovered) { b.put(letter{found: d}) }
func (b *inbox) RequestSplits(r *taskpb.SplitRequest)        { b.put(letter{request: r}) }
func (b *inbox) Failed(f *jobpb.Failure)                     { b.put(letter{stuck: f}) }
