package outbox

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/controlpb"
)

// Outbox numbers the facts that a leader must commit and keeps them until one has. Without it a fact that was on its way
// when the leader died would be lost, and a subtask that has finished would look as if it ran for ever.
//
// Numbers begin at 1 with each incarnation and have no gaps. A report is never changed after it was added.
type Outbox struct {
	limit int

	mu struct {
		sync.Mutex
		last  uint64              // number of the newest report
		kept  []*controlpb.Report // not acknowledged, in order; the last one has number last
		bytes int                 // size of kept
		news  chan struct{}       // closed at the next change
	}
}

// New makes an empty outbox. Reports of more than limit bytes together make whoever reports wait.
func New(limit int) *Outbox {
	o := &Outbox{limit: limit}
	o.mu.news = make(chan struct{})
	return o
}

// Add numbers r and keeps it. It blocks while the outbox is full. What is to be known of the number is told to note
// before anyone can send the report: an acknowledgement must never meet somebody who does not know yet what was
// acknowledged. note runs under the outbox's lock, must not block, and may be nil.
func (o *Outbox) Add(ctx context.Context, r *controlpb.Report, note func(sequence uint64)) error {
	size := proto.Size(r)
	for {
		added, news := o.tryAdd(r, size, note)
		if added {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("report to the leader: %w", context.Cause(ctx))
		}
	}
}

func (o *Outbox) tryAdd(r *controlpb.Report, size int, note func(sequence uint64)) (added bool, news <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.bytes > 0 && o.mu.bytes+size > o.limit { // one that is too large alone must still get through
		return false, o.mu.news
	}
	o.mu.last++
	r.Sequence = o.mu.last
	if note != nil {
		note(r.Sequence)
	}
	o.mu.kept = append(o.mu.kept, r)
	o.mu.bytes += size
	o.announce()
	return true, nil
}

// Offer is Add for whoever must not block and can do without: it reports whether there was room.
func (o *Outbox) Offer(r *controlpb.Report) bool {
	added, _ := o.tryAdd(r, proto.Size(r), nil)
	return added
}

// announce wakes everyone who waits for a change. The lock is held.
func (o *Outbox) announce() {
	close(o.mu.news)
	o.mu.news = make(chan struct{})
}

// Ack forgets every report up to the sequence.
func (o *Outbox) Ack(sequence uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for n < len(o.mu.kept) && o.mu.kept[n].Sequence <= sequence {
		o.mu.bytes -= proto.Size(o.mu.kept[n])
		o.mu.kept[n] = nil
		n++
	}
	if n > 0 {
		o.mu.kept = o.mu.kept[n:]
		o.announce()
	}
}

// Batch is how many reports a session takes at a time.
const Batch = 256

// After returns the oldest kept reports above the sequence, and a channel that is closed when there may be more.
func (o *Outbox) After(sequence uint64) (reports []*controlpb.Report, news <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := o.mu.last - uint64(len(o.mu.kept)) + 1 // number of kept[0]
	skip := 0
	if sequence >= first {
		skip = int(min(sequence-first+1, uint64(len(o.mu.kept))))
	}
	rest := o.mu.kept[skip:]
	return append(reports, rest[:min(len(rest), Batch)]...), o.mu.news
}

// Pending is the number of reports that no leader has acknowledged.
func (o *Outbox) Pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.mu.kept)
}

// Wait blocks until nothing is pending.
func (o *Outbox) Wait(ctx context.Context) error {
	for {
		_, news := o.After(0)
		if o.Pending() == 0 {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
