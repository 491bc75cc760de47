package worker

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/controlpb"
)

// outboxBytes bounds the reports that wait for a leader. Whoever reports waits when it is reached: the task process
// then waits on its control link, and stands still at its next report.
const outboxBytes = 64 << 20

// outbox numbers the facts that a leader must commit and keeps them until one has. Without it a fact that was on its way
// when the leader died would be lost, and a subtask that has finished would look as if it ran for ever.
//
// Numbers begin at 1 with each incarnation and have no gaps. A report is never changed after it was added.
type outbox struct {
	limit int

	mu struct {
		sync.Mutex
		last  uint64              // number of the newest report
		kept  []*controlpb.Report // not acknowledged, in order; the last one has number last
		bytes int                 // size of kept
		news  chan struct{}       // closed at the next change
	}
}

func newOutbox(limit int) *outbox {
	o := &outbox{limit: limit}
	o.mu.news = make(chan struct{})
	return o
}

// add numbers r and keeps it. It blocks while the outbox is full.
func (o *outbox) add(ctx context.Context, r *controlpb.Report) (sequence uint64, err error) {
	size := proto.Size(r)
	for {
		sequence, news := o.tryAdd(r, size)
		if sequence > 0 {
			return sequence, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return 0, fmt.Errorf("report to the leader: %w", context.Cause(ctx))
		}
	}
}

func (o *outbox) tryAdd(r *controlpb.Report, size int) (sequence uint64, news <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.bytes > 0 && o.mu.bytes+size > o.limit { // one that is too large alone must still get through
		return 0, o.mu.news
	}
	o.mu.last++
	r.Sequence = o.mu.last
	o.mu.kept = append(o.mu.kept, r)
	o.mu.bytes += size
	o.announce()
	return r.Sequence, nil
}

// offer is add for whoever must not block and can do without: it reports whether there was room.
func (o *outbox) offer(r *controlpb.Report) bool {
	sequence, _ := o.tryAdd(r, proto.Size(r))
	return sequence > 0
}

// announce wakes everyone who waits for a change. The lock is held.
func (o *outbox) announce() {
	close(o.mu.news)
	o.mu.news = make(chan struct{})
}

// ack forgets every report up to the sequence.
func (o *outbox) ack(sequence uint64) {
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

// outboxBatch is how many reports a session takes at a time.
const outboxBatch = 256

// after returns the oldest kept reports above the sequence, and a channel that is closed when there may be more.
func (o *outbox) after(sequence uint64) (reports []*controlpb.Report, news <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := o.mu.last - uint64(len(o.mu.kept)) + 1 // number of kept[0]
	skip := 0
	if sequence >= first {
		skip = int(min(sequence-first+1, uint64(len(o.mu.kept))))
	}
	rest := o.mu.kept[skip:]
	return append(reports, rest[:min(len(rest), outboxBatch)]...), o.mu.news
}

// pending is the number of reports that no leader has acknowledged.
func (o *outbox) pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.mu.kept)
}

// wait blocks until nothing is pending.
func (o *outbox) wait(ctx context.Context) error {
	for {
		_, news := o.after(0)
		if o.pending() == 0 {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
