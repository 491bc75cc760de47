package shuffle

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/shuffle/credit"
	"github.com/sluiceio/sluice/shuffle/frame"
)

// item is one buffer of a channel: from this process a batch and the event behind it, from another a frame.
type item struct {
	batch any // *element.Batch[T] of the gate's T, or nil
	event element.Event
	frame frame.Header
	data  mem.BufferSlice // the frame with its header; nil: local
}

// inbox is a gate without its type: the queues of its channels and their credit. Producers of this process and the
// sessions with others put items in, the gate's loop takes them out. Every item in a queue has used one credit, so all
// queues together are as bounded as the ledger.
type inbox struct {
	edge, consumer int32
	producers      []End
	fence          Fence // without the producers' attempts
	unit           int   // bytes of a buffer
	exclusive      int   // credit of every channel
	deadline       time.Time
	notify         func()

	mu struct {
		sync.Mutex
		ledger   *credit.Ledger
		channels []inChannel
		ready    []int // channels with items, in order of arrival
		unopened int   // channels whose producer is not there yet
		err      error // the first failure
		closed   bool
	}
}

type inChannel struct {
	queue    []item
	isReady  bool // listed in ready
	held     bool // not read: its barrier has come, and the gate waits for those of others
	opened   bool
	ended    bool   // the end has arrived
	sequence uint64 // of the last frame

	intake *intake // remote
	owed   int     // credit granted by the ledger, not yet sent to the producer

	writer   *localOut // local, when the producer is there
	parked   []item    // at most one: the producer's buffer that waits for credit
	blocked  bool      // the producer waits for the parked buffer to go
	recycled []any     // batches on their way back to the producer
}

// effects are what has to be done after the inbox's lock was given back.
type effects struct {
	notify bool
	wake   []*sender
	credit []creditFor
}

type creditFor struct {
	to     *intake
	frames int
}

func (fx *effects) perform(in *inbox) {
	for _, c := range fx.credit {
		c.to.grant(c.frames)
	}
	for _, s := range fx.wake {
		s.wake.ring()
	}
	if fx.notify {
		in.notify()
	}
}

func (in *inbox) id(ch int) channelID {
	return channelID{edge: in.edge, producer: in.producers[ch].Index, consumer: in.consumer}
}

// fenceOf is the fence of one channel.
func (in *inbox) fenceOf(ch int) Fence {
	f := in.fence
	f.Producer = in.producers[ch].Attempt
	return f
}

// push appends an item that has used its credit.
func (in *inbox) push(ch int, it item, fx *effects) {
	c := &in.mu.channels[ch]
	c.queue = append(c.queue, it)
	if c.held {
		return
	}
	fx.notify = fx.notify || len(c.queue) == 1
	if !c.isReady {
		c.isReady = true
		in.mu.ready = append(in.mu.ready, ch)
	}
}

// take yields the next item, channel by channel. While only is not negative, no other channel is looked at.
func (in *inbox) take(only int) (it item, ch int, ok bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.err != nil {
		return item{}, 0, false, in.mu.err
	}
	if only >= 0 {
		if len(in.mu.channels[only].queue) == 0 {
			return item{}, 0, false, nil
		}
		return in.pop(only), only, true, nil
	}
	for len(in.mu.ready) > 0 {
		ch = in.mu.ready[0]
		in.mu.ready = append(in.mu.ready[:0], in.mu.ready[1:]...)
		c := &in.mu.channels[ch]
		c.isReady = false
		if len(c.queue) == 0 || c.held { // emptied by only; listed again when it is let go
			continue
		}
		it = in.pop(ch)
		if len(c.queue) > 0 {
			c.isReady = true
			in.mu.ready = append(in.mu.ready, ch)
		}
		return it, ch, true, nil
	}
	return item{}, 0, false, nil
}

func (in *inbox) pop(ch int) item {
	c := &in.mu.channels[ch]
	it := c.queue[0]
	n := copy(c.queue, c.queue[1:])
	c.queue[n] = item{}
	c.queue = c.queue[:n]
	return it
}

// hold leaves a channel unread.
func (in *inbox) hold(ch int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.channels[ch].held = true
}

// resume lets all channels that are held go.
func (in *inbox) resume() {
	var fx effects
	in.mu.Lock()
	for ch := range in.mu.channels {
		c := &in.mu.channels[ch]
		if !c.held {
			continue
		}
		c.held = false
		if len(c.queue) > 0 && !c.isReady {
			c.isReady, fx.notify = true, true
			in.mu.ready = append(in.mu.ready, ch)
		}
	}
	in.mu.Unlock()
	fx.perform(in)
}

// release returns the buffer of an item that was taken. A batch goes back to its producer.
func (in *inbox) release(ch int, batch any) {
	var fx effects
	in.mu.Lock()
	if in.mu.closed {
		in.mu.Unlock()
		return
	}
	if c := &in.mu.channels[ch]; batch != nil && !c.ended {
		c.recycled = append(c.recycled, batch)
	}
	if g, ok := in.mu.ledger.Return(ch); ok {
		in.granted(g, &fx)
	}
	in.mu.Unlock()
	fx.perform(in)
}

// granted passes new credit on. A local producer's credit is known to the ledger alone; a remote producer is told,
// but not of every single buffer if it has others left.
func (in *inbox) granted(g credit.Grant, fx *effects) {
	c, l := &in.mu.channels[g.Channel], in.mu.ledger
	if c.intake != nil {
		c.owed += g.Buffers
		if left := l.Unused(g.Channel) - c.owed; left <= 0 || c.owed*4 >= l.Out(g.Channel) {
			fx.credit = append(fx.credit, creditFor{c.intake, c.owed})
			c.owed = 0
		}
		return
	}
	if len(c.parked) > 0 && l.Use(g.Channel) {
		l.Announce(g.Channel, 0) // nothing waits any more
		in.push(g.Channel, c.parked[0], fx)
		c.parked[0] = item{}
		c.parked = c.parked[:0]
		if c.blocked {
			c.blocked = false
			fx.wake = append(fx.wake, c.writer.sender)
		}
	}
}

// offer takes an item of a producer in this process: into the queue if there is credit, else as the one that waits for
// it. If one waits already it is refused, and the producer is woken when it may try again. The batch in return for
// one is empty, to go on with.
func (in *inbox) offer(ch int, it item) (recycled any, ok bool) {
	var fx effects
	in.mu.Lock()
	c := &in.mu.channels[ch]
	switch {
	case in.mu.closed || in.mu.err != nil: // the producer will learn it, or need not
		ok = true
	case len(c.parked) == 0:
		ok = true
		if it.event.Kind == element.End {
			c.ended = true
		}
		if in.mu.ledger.Use(ch) || in.mu.ledger.Announce(ch, 1) > 0 && in.mu.ledger.Use(ch) {
			in.push(ch, it, &fx)
		} else {
			c.parked = append(c.parked, it)
		}
	default:
		c.blocked = true
	}
	if n := len(c.recycled); ok && n > 0 && it.batch != nil {
		recycled = c.recycled[n-1]
		c.recycled[n-1] = nil
		c.recycled = c.recycled[:n-1]
	}
	in.mu.Unlock()
	fx.perform(in)
	return recycled, ok
}

// pair joins a local producer. False: the gate has closed or failed.
func (in *inbox) pair(ch int, w *localOut) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.closed || in.mu.err != nil {
		return false
	}
	in.mu.channels[ch].writer = w
	in.open(ch)
	return true
}

// attach gives a remote channel its place on a session.
func (in *inbox) attach(ch int, i *intake) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.channels[ch].intake = i
}

func (in *inbox) open(ch int) {
	if c := &in.mu.channels[ch]; !c.opened {
		c.opened = true
		in.mu.unopened--
	}
}

// opened notes that the producer of a remote channel has answered.
func (in *inbox) opened(ch int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.open(ch)
}

// announced notes that a remote producer holds n frames back.
func (in *inbox) announced(ch, n int) {
	var fx effects
	in.mu.Lock()
	if g := in.mu.ledger.Announce(ch, n); g > 0 {
		in.granted(credit.Grant{Channel: ch, Buffers: g}, &fx)
	}
	in.mu.Unlock()
	fx.perform(in)
}

// arrive takes a frame from another process, and with it the duty to free data. An error is a violation of the
// protocol: the channel cannot go on.
func (in *inbox) arrive(ch int, h frame.Header, data mem.BufferSlice) error {
	var fx effects
	in.mu.Lock()
	c, l := &in.mu.channels[ch], in.mu.ledger
	var err error
	switch {
	case in.mu.closed || in.mu.err != nil:
		in.mu.Unlock()
		data.Free()
		return nil
	case c.ended:
		err = fmt.Errorf("frame %d after the end of the channel", h.Sequence)
	case h.Sequence != c.sequence+1:
		err = fmt.Errorf("frame %d follows frame %d", h.Sequence, c.sequence)
	case len(data) > 0 && data.Len() > in.unit-grpcPrefix:
		err = fmt.Errorf("frame %d has %d bytes, credit is for %d", h.Sequence, data.Len(), in.unit-grpcPrefix)
	case !l.Use(ch):
		err = fmt.Errorf("frame %d has no credit", h.Sequence)
	}
	if err != nil {
		in.mu.Unlock()
		data.Free()
		return err
	}
	in.open(ch)
	c.sequence = h.Sequence
	in.push(ch, item{frame: h, data: data}, &fx)
	if h.Flags&frame.Ended != 0 {
		c.ended = true
		for _, g := range l.Close(ch, nil) {
			in.granted(g, &fx)
		}
	} else if g := l.Announce(ch, int(min(h.Backlog, maxBacklog))); g > 0 {
		in.granted(credit.Grant{Channel: ch, Buffers: g}, &fx)
	}
	in.mu.Unlock()
	fx.perform(in)
	return nil
}

// maxBacklog is the largest backlog that is believed; a producer holds a few frames at most.
const maxBacklog = 64

// lose fails the gate because of one channel. Only the first failure counts, and what comes after the end of a channel
// is none.
func (in *inbox) lose(ch int, r Reason, cause error) {
	in.mu.Lock()
	over := in.mu.channels[ch].ended && r != Corrupt && r != Stale
	in.mu.Unlock()
	if !over {
		in.fail(in.id(ch).lost(r, cause))
	}
}

func (in *inbox) fail(err error) {
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

// expire fails the gate if a producer is still not there. It reports whether the wait is over.
func (in *inbox) expire(now time.Time) bool {
	in.mu.Lock()
	over := in.mu.closed || in.mu.err != nil || in.mu.unopened == 0
	missing, count := -1, in.mu.unopened
	var intake *intake
	for i := range in.mu.channels {
		if c := &in.mu.channels[i]; !c.opened && missing < 0 {
			missing, intake = i, c.intake
		}
	}
	in.mu.Unlock()
	if over {
		return true
	}
	if now.Before(in.deadline) {
		return false
	}
	cause := fmt.Errorf("%d of %d producers are missing", count, len(in.producers))
	if intake != nil {
		cause = fmt.Errorf("%w; the last try: %s", cause, intake.lastAnswer())
	}
	in.lose(missing, Timeout, cause)
	return true
}

// close empties the inbox for good and returns those at the other ends.
func (in *inbox) close() (locals []*localOut, intakes []*intake) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.closed {
		return nil, nil
	}
	in.mu.closed = true
	in.mu.ready = nil
	for i := range in.mu.channels {
		c := &in.mu.channels[i]
		for _, it := range c.queue {
			it.data.Free()
		}
		c.queue, c.parked, c.recycled = nil, nil, nil
		if c.writer != nil {
			locals = append(locals, c.writer)
		}
		if c.intake != nil {
			intakes = append(intakes, c.intake)
		}
	}
	return locals, intakes
}

// inEnd is one channel of an inbox at its meeting.
type inEnd struct {
	in *inbox
	ch int
}

func (e inEnd) lose(r Reason, cause error) { e.in.lose(e.ch, r, cause) }
