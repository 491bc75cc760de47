package stored

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/frame"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// Producer is a partition that a reader reads.
type Producer struct {
	Name Name
	// Peer is the agent of the worker that holds it (its Process is 0); nil: the store of this process.
	Peer *shuffle.Peer
	// Stored: the facts say that it is finished, so if it is not there it is lost. Otherwise it is waited for.
	Stored bool
}

// Position says how far a reader has come. It holds for the producing attempt that it names.
type Position struct {
	Producer int    // position in ReaderConfig.Producers; their number: everything was read
	Attempt  uint32 // of that producer; 0 only together with Block and Offset 0: from its beginning, whichever it is
	Block    int64  // of the consumer's subpartition
	Offset   int64  // records of that block that were handed out
}

// ReaderConfig describes the consuming end of a BLOCKING edge in one subtask.
type ReaderConfig[T any] struct {
	Ctx       context.Context // when it ends, the reader has failed
	Exchange  *Exchange
	Consumer  int32      // index of this subtask
	Producers []Producer // in the order in which they are read
	Codec     *codec.Codec[T]
	// Notify is called when Next may have something. It must not block and may come from any goroutine.
	Notify func()
	// From is where to begin. Producers before it count as read: only their End comes, with MaxTime. Events that stand
	// directly before the position come again.
	From Position
}

func (c *ReaderConfig[T]) validate() error {
	var errs []error
	if c.Ctx == nil || c.Exchange == nil || c.Codec == nil || c.Notify == nil {
		errs = append(errs, errors.New("context, exchange, codec or notify is missing"))
	}
	if len(c.Producers) == 0 || c.Consumer < 0 {
		errs = append(errs, fmt.Errorf("consumer %d of %d producers", c.Consumer, len(c.Producers)))
	}
	for _, p := range c.Producers {
		if err := p.Name.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, err))
		}
	}
	if err := c.From.check(c.Producers); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("reader of stored results, consumer %d: %w", c.Consumer, errors.Join(errs...))
}

func (p Position) check(producers []Producer) error {
	switch {
	case p.Producer < 0 || p.Producer > len(producers) || p.Block < 0 || p.Offset < 0:
		return fmt.Errorf("position %+v among %d producers", p, len(producers))
	case p.Attempt == 0 && p.Block == 0 && p.Offset == 0:
		return nil
	case p.Producer == len(producers):
		return fmt.Errorf("position %+v behind the last of %d producers", p, len(producers))
	case p.Attempt != producers[p.Producer].Name.Attempt:
		return fmt.Errorf("%w: %+v, to be read is the %s", ErrVoid, p, producers[p.Producer].Name)
	}
	return nil
}

// Reader is the consuming end of one BLOCKING edge in one subtask: producers in order, blocks in order. It belongs to
// the subtask's loop: its methods are called from one goroutine.
type Reader[T any] struct {
	cfg    ReaderConfig[T]
	in     *intake
	coder  *partition.Coder
	closed bool
	err    error // the same from now on
	loop   invariant.Exclusive
	stats  shuffle.GateStats

	skipped int      // producers before From whose end was yielded
	at      Position // of the open block, or of the next one
	skip    int64    // records of the first block that were read before
	event   element.Event
	chunk   chunk
	rest    []byte // blocks of the chunk that were not opened
	block   openBlock
	free    []*element.Batch[T]
	plain   []byte // a payload after decompression
}

// openBlock is a block whose payload was checked.
type openBlock struct {
	open     bool
	segments []frame.Segment // left to read
	storage  []frame.Segment
	records  []byte // of these segments
}

// Memory of a reader in units of 4 KiB: chunks, and a block after decompression.
const readerUnits = 80

// NewReader reserves memory and begins to read ahead. A position of another attempt is an error that matches ErrVoid.
func NewReader[T any](cfg ReaderConfig[T]) (*Reader[T], error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	x := cfg.Exchange
	coder, err := x.coder()
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("consumer %d of edge %d, which reads the stored results of %d producers,", cfg.Consumer, cfg.Producers[0].Name.Edge, len(cfg.Producers))
	unit, reserved, err := x.cfg.Memory.Fit(what, readerUnits)
	if err != nil {
		return nil, err
	}
	chunks := readerUnits*unit/partition.MaxBlock - 1
	lanes := min(maxLanes, chunks/2)
	r := &Reader[T]{cfg: cfg, coder: coder, at: cfg.From, skip: cfg.From.Offset}
	r.in = &intake{
		x: x, consumer: cfg.Consumer, producers: cfg.Producers, notify: cfg.Notify, depth: chunks / lanes, reserved: reserved,
	}
	r.in.ctx, r.in.cancel = context.WithCancelCause(cfg.Ctx)
	r.in.begin(cfg.From, lanes)
	return r, nil
}

// Stats are the counters so far: Buffers counts blocks, Bytes what was read of data files.
func (r *Reader[T]) Stats() shuffle.GateStats { return r.stats }

// Next yields the next batch or event, if there is one. It never blocks. Input.Channel is the position in Producers;
// the last of each is its End. An error is the same from then on.
func (r *Reader[T]) Next() (shuffle.Input[T], bool, error) {
	if invariant.Enabled {
		r.loop.Enter("Next")
		defer r.loop.Leave()
	}
	if r.err != nil {
		return shuffle.Input[T]{}, false, r.err
	}
	in, ok, err := r.next()
	if err != nil {
		r.err = err
	}
	return in, ok, err
}

func (r *Reader[T]) next() (in shuffle.Input[T], ok bool, err error) {
	if r.skipped < r.cfg.From.Producer {
		r.skipped++
		return shuffle.Input[T]{Channel: r.skipped - 1, Event: element.Event{Kind: element.End, Time: element.MaxTime}}, true, nil
	}
	for {
		if in, ok, err := r.read(); ok || err != nil {
			return in, ok, err
		}
		if len(r.rest) > 0 {
			if err := r.openBlock(); err != nil {
				return in, false, err
			}
			continue
		}
		r.drop()
		c, producer, end, what, err := r.in.take()
		switch {
		case err != nil:
			return in, false, err
		case what == aChunk:
			r.chunk, r.rest = c, c.data
			r.stats.Bytes += int64(len(c.data))
		case what == anEnd && r.skip > 0:
			return in, false, r.corrupt(fmt.Errorf("%w: it ends before the position %+v", partition.ErrCorrupt, r.cfg.From))
		case what == anEnd:
			r.at = Position{Producer: producer + 1}
			return shuffle.Input[T]{Channel: producer, Event: element.Event{Kind: element.End, Time: end}}, true, nil
		case r.cfg.Ctx.Err() != nil:
			return in, false, context.Cause(r.cfg.Ctx)
		default:
			return in, false, nil
		}
	}
}

// drop gives the chunk back.
func (r *Reader[T]) drop() {
	if r.chunk.data != nil {
		r.in.release(r.chunk)
	}
	r.chunk, r.rest = chunk{}, nil
}

func (r *Reader[T]) corrupt(err error) error {
	return &LostError{Name: r.cfg.Producers[r.at.Producer].Name, Cause: err}
}

// openBlock checks the next block of the chunk and makes it the one to read.
func (r *Reader[T]) openBlock() error {
	h, err := partition.ParseBlock(r.rest)
	if err != nil {
		return r.corrupt(err)
	}
	stored := r.rest[partition.BlockHeader:h.Size()]
	r.rest = r.rest[h.Size():]
	if err := h.Verify(stored); err != nil {
		return r.corrupt(fmt.Errorf("block %d: %w", r.at.Block, err))
	}
	if err := r.cfg.Exchange.prepare(h.Form); err != nil {
		return err
	}
	if r.plain == nil && h.Form != partition.Plain {
		r.plain = make([]byte, partition.MaxBlock)
	}
	raw, err := r.coder.Unpack(r.plain, stored, &h)
	if err == nil {
		r.block.storage, r.block.records, err = h.Table(raw, r.block.storage)
	}
	if err != nil {
		return r.corrupt(fmt.Errorf("block %d: %w", r.at.Block, err))
	}
	r.block.segments, r.block.open = r.block.storage, true
	r.stats.Buffers++
	return nil
}

// read yields what is left of the open block. Only when all of it was yielded, its last event too, the position is in
// the next one.
func (r *Reader[T]) read() (in shuffle.Input[T], ok bool, err error) {
	b := &r.block
	for b.open {
		if r.event.Kind != element.None {
			in = shuffle.Input[T]{Channel: r.at.Producer, Event: r.event}
			r.event = element.Event{}
			return in, true, nil
		}
		if len(b.segments) == 0 {
			b.open = false
			if r.skip > 0 {
				return in, false, r.corrupt(fmt.Errorf("%w: block %d ends before the position %+v", partition.ErrCorrupt, r.at.Block, r.cfg.From))
			}
			r.at.Block, r.at.Offset = r.at.Block+1, 0
			break
		}
		s := b.segments[0]
		records := b.records[:s.Bytes]
		b.segments, b.records = b.segments[1:], b.records[s.Bytes:]
		r.event = s.Event
		if r.skip > 0 && int64(s.Records) <= r.skip {
			if r.skip -= int64(s.Records); r.skip > 0 { // the event was known before the position
				r.event = element.Event{}
			}
			continue
		}
		if s.Records > 0 {
			in, err = r.decode(s, records)
			return in, err == nil, err
		}
	}
	return in, false, nil
}

// decode makes a batch of a segment, without the records that were read before.
func (r *Reader[T]) decode(s frame.Segment, records []byte) (shuffle.Input[T], error) {
	b := r.batch()
	if err := r.cfg.Codec.DecodeRecords(records, int(s.Records), b); err != nil {
		return shuffle.Input[T]{}, r.undecodable(err)
	}
	if n := int(r.skip); n > 0 {
		kept := copy(b.Vals, b.Vals[n:])
		clear(b.Vals[kept:])
		b.Vals, b.Times = b.Vals[:kept], b.Times[:copy(b.Times, b.Times[n:])]
		r.skip = 0
	}
	r.at.Offset += int64(b.Len())
	r.stats.Records += int64(b.Len())
	return shuffle.Input[T]{Channel: r.at.Producer, Batch: b}, nil
}

// undecodable is the failure to decode a block whose checksum is right. A codec of the user's that does not read what it
// writes is no loss: the producer would write the same again.
func (r *Reader[T]) undecodable(err error) error {
	if _, ok := errors.AsType[*codec.CustomError](err); ok {
		n := r.cfg.Producers[r.at.Producer].Name
		return fmt.Errorf("decode a record of producer %d of edge %d: %w", n.Producer, n.Edge, err)
	}
	return r.corrupt(fmt.Errorf("block %d: decode: %w", r.at.Block, err))
}

// batch is an empty batch.
func (r *Reader[T]) batch() *element.Batch[T] {
	n := len(r.free)
	if n == 0 {
		return &element.Batch[T]{}
	}
	b := r.free[n-1]
	r.free = r.free[:n-1]
	return b
}

// Release gives an input's batch back. Every input with a batch is released once.
func (r *Reader[T]) Release(in shuffle.Input[T]) {
	if in.Batch != nil {
		in.Batch.Reset()
		r.free = append(r.free, in.Batch)
	}
}

// Position is where a reader would begin that is to yield what is left: what this one has not yielded, and before that
// the last rest records of the batch that it has yielded last.
func (r *Reader[T]) Position(rest int) Position {
	p := r.at
	if p.Producer < len(r.cfg.Producers) {
		p.Attempt = r.cfg.Producers[p.Producer].Name.Attempt
	}
	p.Offset -= int64(rest)
	return p
}

// Close ends the reader and waits until nothing reads ahead for it any more.
func (r *Reader[T]) Close(error) {
	if invariant.Enabled {
		r.loop.Enter("Close")
		defer r.loop.Leave()
	}
	if r.closed {
		return
	}
	r.closed = true
	r.drop()
	r.in.close()
}
