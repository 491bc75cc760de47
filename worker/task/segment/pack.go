package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
)

// pack is the segments of one checkpoint.
type pack struct {
	cfg          *Config
	jobEpoch, id uint64
	wakeup       chan struct{} // room for one

	mu struct {
		sync.Mutex
		trigger  *taskpb.Trigger // nil: it has not come yet
		expected map[Member]bool // who has to seal
		shares   map[Member]*Share
		queue    []job
		err      error  // why nothing more is written
		given    bool   // nobody wants the checkpoint any more
		cancel   func() // ends the goroutine; nil: it has not begun
	}

	// Owned by the goroutine.
	n    int        // segments begun
	open *segment   // nil: none
	full []*segment // that wait for the trigger
}

type segment struct {
	name   snapshot.Name
	upload snapshot.Upload
	size   int64
	stored *jobpb.StoredObject // nil: not committed
}

// job is a part that has to be written.
type job struct {
	share *Share
	part  Part
	meta  *snapshotpb.Part
}

// Part is what a subtask hands over. Release is called when it was written, or never will be.
type Part interface {
	io.WriterTo
	Release() error
}

// errGivenUp is why parts of a checkpoint are not written that was given up.
var errGivenUp = errors.New("the checkpoint was given up")

func newPack(c *Config, jobEpoch, id uint64) *pack {
	p := &pack{cfg: c, jobEpoch: jobEpoch, id: id, wakeup: make(chan struct{}, 1)}
	p.mu.shares = map[Member]*Share{}
	return p
}

func (p *pack) ring() {
	select {
	case p.wakeup <- struct{}{}:
	default:
	}
}

// giveUp ends the goroutine.
func (p *pack) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.given = true
	if p.mu.cancel != nil {
		p.mu.cancel()
	}
}

// run writes what comes until everything is acknowledged, or the checkpoint is given up.
func (p *pack) run(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	p.mu.Lock()
	p.mu.cancel = cancel
	given := p.mu.given
	p.mu.Unlock()
	for !given && ctx.Err() == nil {
		select {
		case <-p.wakeup:
			if p.work(ctx) {
				p.discard()
				return nil
			}
		case <-ctx.Done():
		}
	}
	p.fail(errGivenUp)
	p.discard()
	return nil
}

// work writes what is queued, and commits when nothing more will come. It reports whether everything is acknowledged.
func (p *pack) work(ctx context.Context) (done bool) {
	for {
		p.mu.Lock()
		var j job
		if len(p.mu.queue) > 0 {
			j = p.mu.queue[0]
			p.mu.queue = p.mu.queue[1:]
		}
		failed := p.mu.err
		sealed := p.sealed()
		p.mu.Unlock()
		switch {
		case j.part != nil && failed != nil:
			_ = j.part.Release() // nothing of it counts any more
			j.share.written()
		case j.part != nil:
			if err := p.write(ctx, j); err != nil {
				p.fail(err)
				j.share.written()
			}
		case failed == nil && sealed:
			if err := p.finish(ctx); err != nil {
				p.fail(err)
				continue
			}
			return true
		default:
			return false
		}
	}
}

// sealed: nothing more will come. The lock is held.
func (p *pack) sealed() bool {
	if p.mu.trigger == nil {
		return false
	}
	for m := range p.mu.expected {
		if s := p.mu.shares[m]; s == nil || s.ack == nil {
			return false
		}
	}
	return true
}

// write appends a part.
func (p *pack) write(ctx context.Context, j job) error {
	if p.cfg.Stores == nil {
		_ = j.part.Release()
		return errors.New("this process has no store for checkpoints")
	}
	if p.open == nil {
		name := snapshot.Segment(p.cfg.Job, p.jobEpoch, p.cfg.Process, p.id, p.n)
		u, err := p.cfg.Stores.Create(ctx, name)
		if err != nil {
			_ = j.part.Release()
			return fmt.Errorf("create %s: %w", name, err)
		}
		p.n++
		p.open = &segment{name: name, upload: u}
	}
	at := p.open.size
	n, err := j.part.WriteTo(p.open.upload)
	p.open.size += n
	if err = errors.Join(err, j.part.Release()); err != nil {
		return fmt.Errorf("write %s: %w", p.open.name, err)
	}
	j.meta.Segment, j.meta.Offset, j.meta.Size = string(p.open.name), at, n
	j.share.segments = append(j.share.segments, p.open)
	j.share.written()
	if p.open.size < p.cfg.Size {
		return nil
	}
	p.full, p.open = append(p.full, p.open), nil
	return p.commit(ctx)
}

// commit makes the segments that are full durable, if the trigger has said where.
func (p *pack) commit(ctx context.Context) error {
	p.mu.Lock()
	t := p.mu.trigger
	p.mu.Unlock()
	if t == nil {
		return nil
	}
	for _, s := range p.full {
		var err error
		if s.stored, err = s.upload.Commit(ctx, t.Targets, int(t.Copies)); err != nil {
			return fmt.Errorf("commit %s: %w", s.name, err)
		}
	}
	p.full = nil
	return nil
}

// finish commits everything and acknowledges.
func (p *pack) finish(ctx context.Context) error {
	if p.open != nil {
		p.full, p.open = append(p.full, p.open), nil
	}
	err := failpoint.Hit(ctx, "segment.frozen")
	if err == nil {
		err = p.commit(ctx)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	var acks []*snapshotpb.Ack
	for _, s := range p.mu.shares {
		if s.ack == nil {
			continue
		}
		seen := map[*segment]bool{}
		for _, x := range s.segments {
			if !seen[x] {
				seen[x] = true
				s.ack.Segments = append(s.ack.Segments, proto.CloneOf(x.stored))
			}
		}
		acks = append(acks, s.ack)
	}
	given := p.mu.given
	p.mu.Unlock()
	if given {
		return nil
	}
	for _, a := range acks {
		p.cfg.Report(a)
	}
	return nil
}

// fail ends the writing: whoever takes part hears of it.
func (p *pack) fail(err error) {
	p.mu.Lock()
	if p.mu.err == nil {
		p.mu.err = err
	}
	shares := make([]*Share, 0, len(p.mu.shares))
	for _, s := range p.mu.shares {
		shares = append(shares, s)
	}
	queue := p.mu.queue
	p.mu.queue = nil
	p.mu.Unlock()
	if !errors.Is(err, errGivenUp) {
		p.cfg.Log.Warn("checkpoint declined", "checkpoint", p.id, "error", err)
	}
	for _, j := range queue {
		_ = j.part.Release()
	}
	for _, s := range shares {
		s.wake()
	}
}

// discard gives up what was not committed.
func (p *pack) discard() {
	if p.open != nil {
		p.full = append(p.full, p.open)
	}
	for _, s := range p.full {
		s.upload.Abort()
	}
	p.open, p.full = nil, nil
}
