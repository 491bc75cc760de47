package stored

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/frame"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// Compression of the blocks of a result.
type Compression uint8

const (
	// Uncompressed blocks cost the least CPU.
	Uncompressed Compression = iota
	// S2 halves typical records for about 60 ns each.
	S2
	// Zstd makes them a third for about 250 ns each.
	Zstd
)

func (c Compression) String() string {
	switch c {
	case Uncompressed:
		return "none"
	case S2:
		return "s2"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("compression %d", uint8(c))
}

func (c Compression) form() partition.Form {
	switch c {
	case S2:
		return partition.S2
	case Zstd:
		return partition.Zstd
	}
	return partition.Plain
}

// ParseCompression reads a value of the setting batch.compression: none, s2 or zstd.
func ParseCompression(text string) (Compression, error) {
	for c := Uncompressed; c <= Zstd; c++ {
		if c.String() == text {
			return c, nil
		}
	}
	return 0, fmt.Errorf("compression %q is none of none, s2, zstd", text)
}

// WriterConfig describes the producing end of a BLOCKING edge in one subtask.
type WriterConfig[T any] struct {
	Ctx      context.Context
	Exchange *Exchange
	Name     Name // of the partition
	// First and Consumers say which consumers the partition is for: subtasks First to First+Consumers-1.
	First     int32
	Consumers int32
	// Shared: every record is for every consumer. It is kept once, and Consumers is 1.
	Shared      bool
	Codec       *codec.Codec[T]
	Compression Compression
}

func (c *WriterConfig[T]) validate() error {
	var errs []error
	if c.Ctx == nil || c.Exchange == nil || c.Codec == nil {
		errs = append(errs, errors.New("context, exchange or codec is missing"))
	}
	if err := c.Name.Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.First < 0 || c.Consumers < 1 || c.Consumers > partition.MaxConsumers || c.Shared && c.Consumers != 1 {
		errs = append(errs, fmt.Errorf("%d consumers from %d on", c.Consumers, c.First))
	}
	if c.Compression > Zstd {
		errs = append(errs, fmt.Errorf("unknown %s", c.Compression))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("writer of the %s: %w", c.Name, errors.Join(errs...))
}

// Writer is the producing end of one BLOCKING edge in one subtask. It belongs to the subtask's loop: its methods are
// called from one goroutine.
//
// What is added is encoded into a run in memory. A full run is written out, subpartition by subpartition; so the order
// of a subpartition is the order of adding, and a consumer reads a piece of each run instead of searching for its
// records between those of the others.
type Writer[T any] struct {
	cfg      WriterConfig[T]
	memory   *budget.Account
	reserved budget.Reservation
	out      *output
	run      *runBuffer
	outs     []outlet
	mark     mark
	end      element.Time
	ended    bool
	closed   bool
	result   *jobpb.Partition
	stats    shuffle.WriterStats
	loop     invariant.Exclusive

	largest int    // bytes of the largest record of late
	tight   int    // bytes: with no more room than this the codec has asked for a larger buffer
	value   T      // the record being encoded; a field, so that it does not escape per record
	scratch []byte // for records that may not fit
	gather  []byte // for blocks whose records lie in several chunks
}

// Memory of a writer in units of 4 KiB: what it has to have at least, beside 1 KiB per consumer.
const (
	writerUnits      = 128
	consumersPerUnit = 4
)

// NewWriter reserves memory and makes the files of the partition, under temporary names.
func NewWriter[T any](cfg WriterConfig[T]) (*Writer[T], error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	w := &Writer[T]{cfg: cfg, memory: cfg.Exchange.cfg.Memory, outs: make([]outlet, cfg.Consumers), mark: mark{at: element.MinTime}}
	what := fmt.Sprintf("producer %d of edge %d, whose result for %d consumers is stored,", cfg.Name.Producer, cfg.Name.Edge, cfg.Consumers)
	if err := cfg.Exchange.prepare(cfg.Compression.form()); err != nil {
		return nil, err
	}
	buffers := writerUnits + (int(cfg.Consumers)+consumersPerUnit-1)/consumersPerUnit
	unit, reserved, err := w.memory.Fit(what, buffers)
	if err != nil {
		return nil, err
	}
	w.reserved = reserved
	w.run = newRun(buffers*unit-outputBuffer-indexBuffer-2*chunkBytes-int(cfg.Consumers)*outletBytes, int(cfg.Consumers))
	for i := range w.outs {
		w.outs[i] = outlet{first: none, open: none, last: none, seen: w.mark}
	}
	w.out, err = newOutput(cfg.Exchange.cfg.Store, partition.Summary{
		Name: cfg.Name, First: cfg.First, Consumers: cfg.Consumers, Shared: cfg.Shared,
	})
	if err != nil {
		w.memory.GiveBack(w.reserved)
		return nil, err
	}
	w.out.coder, w.out.form = cfg.Exchange.coder, cfg.Compression.form()
	return w, nil
}

// Stats are the counters so far: Buffers counts blocks, Bytes what was written to the data file, Blocked the time that
// the file system took.
func (w *Writer[T]) Stats() shuffle.WriterStats {
	s := w.stats
	s.Buffers, s.Bytes, s.Blocked = w.out.summary.Blocks, w.out.data.at, w.out.blocked
	return s
}

// Flush does nothing: a stored result is read when it is finished.
func (w *Writer[T]) Flush() error { return nil }

// Pending is false: there is nothing that Flush could hand over.
func (w *Writer[T]) Pending() bool { return false }

// Add takes one record for consumer First+to. It blocks while the disk does.
func (w *Writer[T]) Add(to int, v T, at element.Time) error {
	if invariant.Enabled {
		w.loop.Enter("Add")
		defer w.loop.Leave()
		invariant.That(!w.ended && !w.closed, "a record follows the end of edge %d", w.cfg.Name.Edge)
	}
	o := &w.outs[to]
	w.value = v
	if o.room == 0 || o.seen.turn != w.mark.turn {
		if err := w.prepare(o); err != nil {
			return err
		}
	}
	if room := min(cap(o.tail)-len(o.tail), int(o.limit-o.bytes)); room >= w.largest && room > w.tight {
		b, err := w.cfg.Codec.AppendRecord(o.tail, &w.value, at, o.prev)
		if err != nil {
			return w.unencodable(err)
		}
		moved := cap(b) != cap(o.tail)
		if moved { // the codec wanted more room than there is, whether it has filled it or not
			w.tight = max(w.tight, min(room, mostTight))
		}
		if n := len(b) - len(o.tail); n <= room {
			w.largest = max(w.largest, n)
			if moved {
				b = append(o.tail, b[len(o.tail):]...)
			}
			o.tail = b
			w.added(o, n, at)
			return nil
		}
	}
	return w.addAside(to, at)
}

// mostTight keeps one long text from sending every record the long way, in bytes.
const mostTight = 1 << 10

// added counts a record that was put into the open block.
func (w *Writer[T]) added(o *outlet, n int, at element.Time) {
	o.bytes += int32(n)
	o.records++
	o.room--
	o.prev = at
	w.stats.Records++
}

func (w *Writer[T]) unencodable(err error) error {
	return fmt.Errorf("encode a record of producer %d of edge %d: %w", w.cfg.Name.Producer, w.cfg.Name.Edge, err)
}

// prepare makes o ready for a record: what has changed of event time since its last one goes first.
func (w *Writer[T]) prepare(o *outlet) error {
	for {
		if o.open != none && w.run.full(o) {
			w.run.end(o)
		}
		if len(w.run.segments) > w.run.most-4 || o.open == none && w.run.free() == 0 {
			if err := w.writeRun(); err != nil {
				return err
			}
		}
		if o.open != none {
			break
		}
		w.run.begin(o)
	}
	w.tell(o)
	if o.room == 0 {
		w.run.cut(o, element.Event{})
	}
	return nil
}

// tell puts into o's channel what it has not been told of event time.
func (w *Writer[T]) tell(o *outlet) {
	for _, ev := range w.news(o) {
		if ev.Kind != element.None {
			w.run.cut(o, ev)
		}
	}
	o.seen = w.mark
}

// news are the events that turn what o has been told into what holds now. Whatever happened in between is no news.
func (w *Writer[T]) news(o *outlet) (events [2]element.Event) {
	woke := o.seen.idle && !w.mark.idle
	if w.mark.at != o.seen.at || woke {
		events[0] = element.Event{Kind: element.Watermark, Time: w.mark.at}
	}
	if w.mark.idle && (!o.seen.idle || w.mark.at != o.seen.at) {
		events[1] = element.Event{Kind: element.Idle}
	}
	return events
}

// addAside encodes into the scratch buffer first, because the record may not fit into the chunk or the block.
func (w *Writer[T]) addAside(to int, at element.Time) error {
	o := &w.outs[to]
	for {
		b, err := w.cfg.Codec.AppendRecord(w.scratch[:0], &w.value, at, o.prev)
		if err != nil {
			return w.unencodable(err)
		}
		w.keepScratch(b)
		n := len(b)
		w.largest = max(w.largest, min(n, w.run.chunk+1)) // more than any chunk has: the short way is not tried
		if int(o.bytes)+n > int(o.limit) {
			if o.bytes == 0 {
				return w.addLarge(to, b)
			}
			w.run.end(o)
		} else if rest := n - (cap(o.tail) - len(o.tail)); rest <= w.run.free()*w.run.chunk {
			w.scatter(o, b)
			w.added(o, n, at)
			return nil
		} else if err := w.writeRun(); err != nil {
			return err
		}
		if err := w.prepare(o); err != nil {
			return err
		}
	}
}

// keepScratch keeps b for the next use, unless it has become too large to be kept.
func (w *Writer[T]) keepScratch(b []byte) {
	if w.scratch = b[:0]; cap(b) > chunkBytes {
		w.scratch = nil
	}
}

// scatter puts an encoded record into the chunks of o's open block.
func (w *Writer[T]) scatter(o *outlet, b []byte) {
	for {
		n := min(len(b), cap(o.tail)-len(o.tail))
		o.tail = append(o.tail, b[:n]...)
		if b = b[n:]; len(b) == 0 {
			return
		}
		w.run.grow(o)
	}
}

// addLarge writes a record that does not fit into a block: as a block of its own, behind everything that was added
// before it, in a run of its own.
func (w *Writer[T]) addLarge(to int, record []byte) error {
	size := int64(len(record))
	if size > partition.MaxRecord {
		return &shuffle.RecordError{Edge: w.cfg.Name.Edge, Producer: w.cfg.Name.Producer, Size: size, Limit: partition.MaxRecord}
	}
	what := fmt.Sprintf("a record of %d bytes from producer %d of edge %d", size, w.cfg.Name.Producer, w.cfg.Name.Edge)
	held := int64(cap(record)) + size + int64(partition.PackRoom(len(record))) + 4*frame.SegmentLen
	if err := w.memory.Reserve(what, held); err != nil {
		return err
	}
	defer w.memory.Release(held)
	o := &w.outs[to]
	w.run.end(o)
	if err := w.writeRun(); err != nil {
		return err
	}
	var segments []frame.Segment
	for _, ev := range w.news(o) {
		if ev.Kind != element.None {
			segments = append(segments, frame.Segment{Event: ev})
		}
	}
	o.seen = w.mark
	segments = append(segments, frame.Segment{Records: 1, Bytes: uint32(size)})
	payload := make([]byte, 0, len(record)+len(segments)*frame.SegmentLen)
	payload = frame.AppendTable(append(payload, record...), segments)
	if err := w.out.add(to, payload, partition.Block{Segments: uint16(len(segments)), Records: 1}); err != nil {
		return err
	}
	w.stats.Records++
	return w.out.endRun()
}

// Broadcast puts ev behind everything that was added, for every consumer: a watermark, idleness or the end. Barriers do
// not cross a stored result and are an error.
//
// It costs nothing per consumer: an event is written with the next record behind it, and one that no record follows is
// superseded by the end.
func (w *Writer[T]) Broadcast(ev element.Event) error {
	if invariant.Enabled {
		w.loop.Enter("Broadcast")
		defer w.loop.Leave()
	}
	switch ev.Kind {
	case element.Watermark:
		w.mark = mark{turn: w.mark.turn + 1, at: ev.Time}
	case element.Idle:
		w.mark = mark{turn: w.mark.turn + 1, at: w.mark.at, idle: true}
	case element.End:
		w.ended, w.end = true, ev.Time
	default:
		return fmt.Errorf("event %d cannot be stored by producer %d of edge %d", ev.Kind, w.cfg.Name.Producer, w.cfg.Name.Edge)
	}
	return nil
}

// writeRun writes what is in memory.
func (w *Writer[T]) writeRun() error {
	if err := w.cfg.Ctx.Err(); err != nil {
		return context.Cause(w.cfg.Ctx)
	}
	before := w.out.summary.Blocks
	for i := range w.outs {
		o := &w.outs[i]
		w.run.end(o)
		for at := o.first; at != none; at = w.run.blocks[at].next {
			if err := w.writeBlock(i, &w.run.blocks[at]); err != nil {
				return err
			}
		}
		o.first, o.last = none, none
	}
	w.run.reset()
	w.largest -= w.largest >> 3
	if w.out.summary.Blocks == before {
		return nil
	}
	return w.out.endRun()
}

func (w *Writer[T]) writeBlock(to int, b *block) error {
	if w.gather == nil && b.first != b.last {
		w.gather = make([]byte, 0, chunkBytes)
	}
	return w.out.add(to, w.run.payload(b, w.gather), partition.Block{Segments: b.segments, Records: b.records})
}

var errUnended = errors.New("the producer was closed before its end")

// Close ends the writer. With a nil err, after End was broadcast, the partition is durable and published when it
// returns nil; else its files are removed.
func (w *Writer[T]) Close(err error) error {
	if invariant.Enabled {
		w.loop.Enter("Close")
		defer w.loop.Leave()
	}
	if w.closed {
		return nil
	}
	w.closed = true
	defer func() {
		w.run, w.outs, w.scratch, w.gather = nil, nil, nil, nil
		w.memory.GiveBack(w.reserved)
	}()
	if err != nil {
		return w.out.discard()
	}
	if err := w.finish(); err != nil {
		return errors.Join(err, w.out.discard())
	}
	return nil
}

func (w *Writer[T]) finish() error {
	if !w.ended {
		return errUnended
	}
	if err := w.writeRun(); err != nil {
		return err
	}
	found, err := w.out.publish(w.end)
	if err != nil {
		return err
	}
	w.result = &jobpb.Partition{
		Edge: w.cfg.Name.Edge, State: jobpb.PartitionState_PARTITION_STORED, Bytes: found.Bytes, Records: w.stats.Records,
		Digest: w.out.digest.Sum(nil), RegionEpoch: w.cfg.Name.RegionEpoch, Attempt: w.cfg.Name.Attempt,
	}
	return nil
}

// Result describes the partition after Close(nil); nil before.
func (w *Writer[T]) Result() *jobpb.Partition { return w.result }
