package shuffle

import (
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/sluiceio/sluice/proto/exchangepb"
	"github.com/sluiceio/sluice/shuffle/frame"
)

// outFrame is a finished frame on its way to the stream: everything but channel, sequence and backlog is known.
type outFrame struct {
	buf    *[]byte // room for the header, then the payload
	pool   *framePool
	header frame.Header
}

func (f *outFrame) free() {
	if f.pool != nil {
		f.pool.Put(f.buf)
	}
}

// remoteOut is the producing end of a channel whose consumer is in another process. The writer's loop puts frames in,
// the sender of the stream takes them out when there is credit. At most one frame more than there is credit waits.
type remoteOut struct {
	id     channelID
	fence  Fence
	sender *sender

	mu struct {
		sync.Mutex
		stream   *serverStream // nil: no consumer has asked yet
		number   uint32        // on the stream
		reads    int           // requests that were admitted
		unit     int           // bytes of the consumer's buffers; 0 before it has asked
		credit   int
		queue    []outFrame
		sequence uint64
		announce bool // a backlog has to be told
		blocked  bool // the writer waits for room
		over     bool // the consumer has all that it wants, or the channel was lost
	}
}

// room reports whether push would be taken, and the size of the consumer's buffers (0: not known yet). Only the
// writer's loop pushes, so the answer stands until it does. Without room the writer is woken when there is.
func (o *remoteOut) room() (unit int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ok = o.mu.over || len(o.mu.queue) <= o.mu.credit
	o.mu.blocked = !ok
	return o.mu.unit, ok
}

// push queues a frame for which there is room.
func (o *remoteOut) push(f outFrame) {
	o.mu.Lock()
	if o.mu.over {
		o.mu.Unlock()
		f.free()
		return
	}
	o.mu.queue = append(o.mu.queue, f)
	o.mu.announce = o.mu.credit < len(o.mu.queue)
	stream := o.mu.stream
	o.mu.Unlock()
	if stream != nil {
		stream.enqueue(o)
	}
}

// next is what the stream is to send for this channel now. more asks for another turn.
func (o *remoteOut) next() (m mem.BufferSlice, more bool) {
	o.mu.Lock()
	ring := false
	switch {
	case o.mu.over || len(o.mu.queue) == 0:
		o.mu.Unlock()
		return nil, false
	case o.mu.credit > 0:
		m, ring = o.pop()
		more = len(o.mu.queue) > 0 && o.mu.credit > 0
	case o.mu.announce:
		b := make([]byte, frame.HeaderLen)
		(&frame.Header{Type: frame.Backlog, Channel: o.mu.number, Backlog: uint32(len(o.mu.queue))}).Put(b)
		m = mem.BufferSlice{mem.SliceBuffer(b)}
		o.mu.announce = false
	}
	o.mu.Unlock()
	if ring {
		o.sender.wake.ring()
	}
	return m, more
}

// pop takes the first frame for its credit and completes its header.
func (o *remoteOut) pop() (m mem.BufferSlice, ring bool) {
	f := o.mu.queue[0]
	n := copy(o.mu.queue, o.mu.queue[1:])
	o.mu.queue[n] = outFrame{}
	o.mu.queue = o.mu.queue[:n]
	o.mu.credit--
	o.mu.sequence++
	o.mu.announce = false // the header tells
	f.header.Channel, f.header.Sequence, f.header.Backlog = o.mu.number, o.mu.sequence, uint32(n)
	f.header.Put(*f.buf)
	if f.pool != nil {
		m = mem.BufferSlice{mem.NewBuffer(f.buf, f.pool)}
	} else {
		m = mem.BufferSlice{mem.SliceBuffer(*f.buf)}
	}
	ring = o.mu.blocked
	o.mu.blocked = false
	return m, ring
}

// attach gives the channel to the consumer that asks on stream.
func (o *remoteOut) attach(s *serverStream, r *exchangepb.PartitionRequest) Reason {
	o.mu.Lock()
	reason := Gone
	if !o.mu.over {
		reason = Pipelined().admit(Producing, o.mu.reads)
	}
	if reason == none {
		o.mu.reads++
		o.mu.stream, o.mu.number = s, r.GetChannel()
		o.mu.unit, o.mu.credit = int(r.GetFrameBytes()), int(r.GetCredit())
	}
	ring := reason == none && o.mu.blocked
	o.mu.blocked = o.mu.blocked && !ring
	o.mu.Unlock()
	if ring {
		o.sender.wake.ring()
	}
	return reason
}

// grant adds credit. False: more than any consumer gives.
func (o *remoteOut) grant(frames int) bool {
	o.mu.Lock()
	o.mu.credit += frames
	sane := o.mu.credit <= exchangepb.MaxCredit
	stream := o.mu.stream
	ring := o.mu.blocked && len(o.mu.queue) <= o.mu.credit
	if ring {
		o.mu.blocked = false
	}
	o.mu.Unlock()
	if ring {
		o.sender.wake.ring()
	}
	if stream != nil {
		stream.enqueue(o)
	}
	return sane
}

// consumerClosed: with none, the consumer has all that it wants.
func (o *remoteOut) consumerClosed(r Reason, cause error) {
	if r != none {
		o.lose(r, cause)
		return
	}
	o.drop()
	o.sender.wake.ring()
}

// lose fails the writer. After the consumer has confirmed the end there is nothing left to lose.
func (o *remoteOut) lose(r Reason, cause error) {
	if o.drop() {
		o.sender.fail(o.id.lost(r, cause))
	}
}

// drop ends the channel on this side and gives its frames back. False: that has happened before.
func (o *remoteOut) drop() bool {
	o.mu.Lock()
	first := !o.mu.over
	o.mu.over = true
	queue := o.mu.queue
	o.mu.queue = nil
	o.mu.Unlock()
	for i := range queue {
		queue[i].free()
	}
	return first
}

// delivered reports that the consumer has confirmed the end, or wants nothing more.
func (o *remoteOut) delivered() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.over
}

// close ends the channel from the producer's side: with a reason, the consumer is told.
func (o *remoteOut) close(r Reason, cause error) {
	o.mu.Lock()
	stream, number := o.mu.stream, o.mu.number
	o.mu.Unlock()
	if o.drop() && r != none && stream != nil {
		stream.refuse(number, r, cause)
	}
}
