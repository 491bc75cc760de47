package segment

import (
	"context"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Member is an attempt that takes part in a checkpoint.
type Member struct {
	Chain, Index int32
	Attempt      uint32
}

// Config of a Writer.
type Config struct {
	Stores  snapshot.Stores // nil: everything is declined
	Job     string
	Process uint64
	// Go starts the goroutine of a checkpoint.
	Go func(name string, f func(context.Context) error)
	// Report takes the acknowledgement of a subtask.
	Report func(*snapshotpb.Ack)
	Log    hclog.Logger
	// Size is how large a segment may grow, about; 0: DefaultSize.
	Size int64
}

// DefaultSize of a segment in bytes.
const DefaultSize = 64 << 20

// Writer is the segments of one process.
type Writer struct {
	cfg Config

	mu struct {
		sync.Mutex
		pack *pack // of the newest checkpoint; nil: none yet
	}
}

// New writes nothing yet.
func New(c Config) *Writer {
	if c.Size == 0 {
		c.Size = DefaultSize
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return &Writer{cfg: c}
}

// Trigger says where the objects of a checkpoint go and who takes part in this process. Repeated, it changes nothing.
func (w *Writer) Trigger(t *taskpb.Trigger, members []Member) {
	p := w.at(t.JobEpoch, t.Checkpoint)
	if p == nil {
		return
	}
	p.mu.Lock()
	if p.mu.trigger == nil {
		p.mu.trigger, p.mu.expected = t, map[Member]bool{}
		for _, m := range members {
			p.mu.expected[m] = true
		}
	}
	p.mu.Unlock()
	p.ring()
}

// Join has a subtask take part. wake is called when a part was written, or never will be. Nil: the checkpoint is over.
func (w *Writer) Join(jobEpoch, checkpoint uint64, m Member, wake func()) *Share {
	p := w.at(jobEpoch, checkpoint)
	if p == nil {
		return nil
	}
	s := &Share{pack: p, member: m, wake: wake}
	p.mu.Lock()
	p.mu.shares[m] = s
	p.mu.Unlock()
	return s
}

// Abort gives a checkpoint up.
func (w *Writer) Abort(checkpoint uint64) {
	w.mu.Lock()
	p := w.mu.pack
	w.mu.Unlock()
	if p != nil && p.id == checkpoint {
		p.giveUp()
	}
}

// Gone says that an attempt has ended: nobody waits for it any more.
func (w *Writer) Gone(m Member) {
	w.mu.Lock()
	p := w.mu.pack
	w.mu.Unlock()
	if p == nil {
		return
	}
	p.mu.Lock()
	delete(p.mu.expected, m)
	delete(p.mu.shares, m)
	p.mu.Unlock()
	p.ring()
}

// at is the pack of a checkpoint; nil: a newer one has begun. The pack of an older one is given up.
func (w *Writer) at(jobEpoch, checkpoint uint64) *pack {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.mu.pack; p != nil {
		switch {
		case p.jobEpoch == jobEpoch && p.id == checkpoint:
			return p
		case p.jobEpoch > jobEpoch || p.jobEpoch == jobEpoch && p.id > checkpoint:
			return nil
		}
		p.giveUp()
	}
	p := newPack(&w.cfg, jobEpoch, checkpoint)
	w.mu.pack = p
	w.cfg.Go("checkpoint", p.run)
	return p
}
