package stored

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// intake is a reader without its type: lanes that read ahead, and what they have read.
//
// There is a lane for the producer that is being read and for the few behind it, so that opening files and asking
// agents is under way before their turn comes. All chunks of all lanes are reserved when the reader is made.
type intake struct {
	x         *Exchange
	ctx       context.Context // ends with the reader
	cancel    context.CancelCauseFunc
	consumer  int32
	producers []Producer
	notify    func()
	depth     int // chunks of a lane
	reserved  budget.Reservation

	mu struct {
		sync.Mutex
		lanes   []*lane  // in the order of producers; the first one is being read
		next    int      // producer whose lane comes next
		free    [][]byte // buffers of chunks
		large   bool     // there is a large block, somewhere between its first piece and its release
		running int      // lanes at work
		quiet   chan struct{}
		closed  bool
		err     error // the first failure
	}
}

// lane reads one partition ahead.
type lane struct {
	in       *intake
	producer int
	from     int64         // first block
	wake     chan struct{} // rings when there is more room
	turn     chan struct{} // rings when the lane may have a large block

	// Guarded by the intake's lock.
	queue   []chunk
	held    int // buffers in use: being filled, in the queue, or being read
	granted int // chunks that an agent may still send
	ended   bool
	end     element.Time
}

// chunk is a run of whole blocks as they lie in the data file.
type chunk struct {
	lane   *lane
	data   []byte
	buffer []byte // what data lies in; nil: memory of its own, for a large block
	held   int64  // bytes reserved for it besides
}

// chunkBuffer has room for the byte that says what a message is, and a chunk.
const chunkBuffer = 1 + partition.MaxBlock

// maxLanes bounds the partitions that a reader has open at a time.
const maxLanes = 4

// begin starts the first lanes.
func (in *intake) begin(from Position, lanes int) {
	in.mu.quiet = make(chan struct{})
	in.mu.next = from.Producer
	for range lanes {
		in.startLane(from.Block)
		from.Block = 0
	}
}

// startLane starts the lane of the next producer, if there is one.
func (in *intake) startLane(from int64) {
	in.mu.Lock()
	if in.mu.closed || in.mu.next >= len(in.producers) {
		in.mu.Unlock()
		return
	}
	l := &lane{in: in, producer: in.mu.next, from: from, wake: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	in.mu.lanes = append(in.mu.lanes, l)
	in.mu.next++
	in.mu.Unlock()
	if !in.x.launch(task{fmt.Sprintf("read edge %d, producer %d", l.name().Edge, l.name().Producer), l.run}) {
		in.fail(errStopped)
	}
}

func (l *lane) name() Name { return l.in.producers[l.producer].Name }

// enter counts a lane that begins to work. False: the reader is closed.
func (in *intake) enter() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.closed {
		return false
	}
	in.mu.running++
	return true
}

func (in *intake) leave() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.running--; in.mu.running == 0 && in.mu.closed {
		close(in.mu.quiet)
	}
}

// close ends the lanes and waits for them.
func (in *intake) close() {
	in.cancel(errStopped)
	in.mu.Lock()
	in.mu.closed = true
	wait := in.mu.running > 0
	in.mu.Unlock()
	if wait {
		<-in.mu.quiet
	}
	in.mu.Lock()
	var held int64
	for _, l := range in.mu.lanes {
		for _, c := range l.queue {
			held += c.held
		}
	}
	in.mu.lanes, in.mu.free = nil, nil
	in.mu.Unlock()
	in.x.cfg.Memory.Release(held)
	in.x.cfg.Memory.GiveBack(in.reserved)
}

// fail ends the reader with an error. The first one stands.
func (in *intake) fail(err error) {
	in.mu.Lock()
	first := in.mu.err == nil && !in.mu.closed
	if first {
		in.mu.err = err
	}
	in.mu.Unlock()
	if first {
		in.notify()
	}
}

// taken is what intake.take found.
type taken uint8

const (
	nothing  taken = iota // as yet
	aChunk                // a chunk of the producer
	anEnd                 // the end of the producer
	allEnded              // the end of all
)

// take is the next chunk of the producer whose turn it is, or its end.
func (in *intake) take() (c chunk, producer int, end element.Time, what taken, err error) {
	in.mu.Lock()
	if in.mu.err != nil {
		defer in.mu.Unlock()
		return chunk{}, 0, 0, nothing, in.mu.err
	}
	if len(in.mu.lanes) == 0 {
		defer in.mu.Unlock()
		return chunk{}, len(in.producers), 0, allEnded, nil
	}
	l := in.mu.lanes[0]
	if len(l.queue) > 0 {
		defer in.mu.Unlock()
		c = l.queue[0]
		n := copy(l.queue, l.queue[1:])
		l.queue[n] = chunk{}
		l.queue = l.queue[:n]
		return c, l.producer, 0, aChunk, nil
	}
	if !l.ended {
		defer in.mu.Unlock()
		return chunk{}, l.producer, 0, nothing, nil
	}
	in.mu.lanes = append(in.mu.lanes[:0], in.mu.lanes[1:]...)
	in.ringTurn()
	in.mu.Unlock()
	in.startLane(0)
	return chunk{}, l.producer, l.end, anEnd, nil
}

// release gives back a chunk that was read.
func (in *intake) release(c chunk) {
	if c.buffer == nil {
		in.endLarge(c.held)
		return
	}
	c.lane.putBuffer(c.buffer)
}

// awaitLarge waits until the lane may have a large block: it is the reader's only one, and wanted next. So a reader
// holds one at most, and whoever reads ahead does not take the memory from what is read.
func (l *lane) awaitLarge(ctx context.Context) error {
	in := l.in
	for {
		in.mu.Lock()
		mine := !in.mu.large && len(in.mu.lanes) > 0 && in.mu.lanes[0] == l
		in.mu.large = in.mu.large || mine
		in.mu.Unlock()
		if mine {
			return nil
		}
		select {
		case <-l.turn:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// endLarge gives back the memory of a large block.
func (in *intake) endLarge(held int64) {
	in.x.cfg.Memory.Release(held)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.large = false
	in.ringTurn()
}

// ringTurn tells the lane that is read that it may have a large block. The lock is held.
func (in *intake) ringTurn() {
	if len(in.mu.lanes) == 0 {
		return
	}
	select {
	case in.mu.lanes[0].turn <- struct{}{}:
	default:
	}
}

// putBuffer gives a buffer back.
func (l *lane) putBuffer(b []byte) {
	in := l.in
	in.mu.Lock()
	in.mu.free = append(in.mu.free, b)
	l.held--
	in.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// tryBuffer is a buffer, if the lane may have one more.
func (l *lane) tryBuffer() []byte {
	in := l.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if l.held >= in.depth {
		return nil
	}
	l.held++
	if n := len(in.mu.free); n > 0 {
		b := in.mu.free[n-1]
		in.mu.free = in.mu.free[:n-1]
		return b
	}
	return make([]byte, chunkBuffer)
}

// buffer waits for a buffer.
func (l *lane) buffer(ctx context.Context) ([]byte, error) {
	for {
		if b := l.tryBuffer(); b != nil {
			return b, nil
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// push queues a chunk.
func (l *lane) push(c chunk) {
	in := l.in
	in.mu.Lock()
	l.queue = append(l.queue, c)
	ring := len(l.queue) == 1 && in.mu.lanes[0] == l
	in.mu.Unlock()
	if ring {
		in.notify()
	}
}

// finish says that the partition was read to its end.
func (l *lane) finish(end element.Time) {
	in := l.in
	in.mu.Lock()
	l.ended, l.end = true, end
	ring := in.mu.lanes[0] == l
	in.mu.Unlock()
	if ring {
		in.notify()
	}
}
