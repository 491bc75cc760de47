package shuffle

import (
	"fmt"

	"github.com/klauspost/compress/s2"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/shuffle/frame"
)

// encode appends w.value to the open frame of a remote consumer.
func (w *Writer[T]) encode(i int, o *outlet[T], at element.Time) error {
	if o.room == 0 {
		return w.encodeAside(i, o, at)
	}
	if room := o.limit - len(*o.buf); room >= w.largest && room > w.tight {
		b, err := w.cfg.Codec.AppendRecord(*o.buf, &w.value, at, o.prev)
		if err != nil {
			return w.unencodable(err)
		}
		w.largest = max(w.largest, len(b)-len(*o.buf))
		if len(b) <= o.limit {
			w.keep(o, b, room)
			return w.added(o, at)
		}
		// The frame is as before: what was appended lies behind its end.
	}
	return w.encodeAside(i, o, at)
}

// mostTight keeps one long text from sending every record of a frame the long way, in bytes.
const mostTight = 1 << 10

// keep makes b the content of the open frame, which had room left. A codec that wants more room than it fills has
// moved the content into a larger buffer: that is not the network's memory, so the record is copied back, and the last
// bytes of frames are left to encodeAside from now on.
func (w *Writer[T]) keep(o *outlet[T], b []byte, room int) {
	if cap(b) == cap(*o.buf) {
		*o.buf = b
		return
	}
	w.tight = max(w.tight, min(room, mostTight))
	*o.buf = append(*o.buf, b[len(*o.buf):]...)
}

// added counts a record that was put into the open frame.
func (w *Writer[T]) added(o *outlet[T], at element.Time) error {
	o.records++
	o.segment.Records++
	o.prev = at
	if o.room--; o.room == 0 {
		_, err := w.handOver(o)
		return err
	}
	return nil
}

func (w *Writer[T]) unencodable(err error) error {
	return fmt.Errorf("encode a record of producer %d of edge %d: %w", w.cfg.Producer, w.cfg.Edge, err)
}

// encodeAside encodes into the scratch buffer first, because the record may not fit: then the frame goes, and the
// record opens the next one.
func (w *Writer[T]) encodeAside(i int, o *outlet[T], at element.Time) error {
	for {
		if o.room == 0 {
			if err := w.openFrame(i, o); err != nil {
				return err
			}
		}
		b, err := w.cfg.Codec.AppendRecord(w.scratch[:0], &w.value, at, o.prev)
		if err != nil {
			return w.unencodable(err)
		}
		w.keepScratch(b)
		w.largest = max(w.largest, min(len(b), w.unit))
		if len(*o.buf)+len(b) <= o.limit {
			*o.buf = append(*o.buf, b...)
			return w.added(o, at)
		}
		if o.records == 0 { // it does not even fit into a frame of its own
			return w.sendInPieces(o, b)
		}
		if err := w.empty(o); err != nil {
			return err
		}
	}
}

// openFrame makes a buffer ready for records, waiting if it has to. Events that have not gone yet may stay: they stand
// ahead of the records in the same frame.
func (w *Writer[T]) openFrame(i int, o *outlet[T]) error {
	if o.buf != nil || len(o.segments) >= frame.MaxSegments-1 || o.barred() {
		if err := w.empty(o); err != nil {
			return err
		}
	}
	buf, err := w.buffer()
	if err != nil {
		return err
	}
	*buf = (*buf)[:frame.HeaderLen]
	o.buf, o.records, o.room = buf, 0, frame.MaxRecords
	o.segment, o.prev = frame.Segment{}, 0
	o.limit = w.frameBytes(o) - (len(o.segments)+1)*frame.SegmentLen
	w.fill(i, o)
	return nil
}

// frameBytes bounds a frame to the consumer, its header included.
func (w *Writer[T]) frameBytes(o *outlet[T]) int { return min(w.unit, o.unit) - grpcPrefix }

// buffer waits for a free buffer. Those that are under way have credit, so they come back.
func (w *Writer[T]) buffer() (*[]byte, error) {
	for {
		if b := w.sender.pool.take(); b != nil {
			return b, nil
		}
		if err := w.wait(); err != nil {
			return nil, err
		}
	}
}

// announceInFrame puts ev behind the records of the open frame.
func (w *Writer[T]) announceInFrame(i int, ev element.Event) (done bool, err error) {
	o := &w.outs[i]
	if n := len(o.segments); n > 0 && o.segment.Records == 0 && replaces(o.segments[n-1].Event, ev) {
		o.segments[n-1].Event = ev
		return true, nil
	}
	if len(o.segments) >= frame.MaxSegments-1 || o.buf != nil && len(*o.buf) > o.limit || o.barred() {
		if done, err := w.handOver(o); !done {
			return false, err
		}
	}
	o.closeSegment(ev)
	w.fill(i, o)
	if ev.Kind == element.Watermark {
		return true, nil
	}
	_, err = w.handOver(o)
	return true, err
}

// closeSegment ends the open segment with ev. Its table entry takes room from further records.
func (o *outlet[T]) closeSegment(ev element.Event) {
	s := o.segment
	s.Event = ev
	if s.Records > 0 {
		s.Bytes = uint32(len(*o.buf)-frame.HeaderLen) - o.segmentBytes()
	}
	o.segments = append(o.segments, s)
	o.segment, o.prev = frame.Segment{}, 0
	if o.buf == nil {
		return
	}
	if o.limit -= frame.SegmentLen; len(*o.buf) > o.limit || len(o.segments) >= frame.MaxSegments-1 || o.barred() {
		o.room = 0
	}
}

// barred: a barrier ends the frame. Whoever aligns on it reads nothing of the channel behind it for a while, and a frame is
// read as a whole.
func (o *outlet[T]) barred() bool {
	n := len(o.segments)
	return n > 0 && o.segments[n-1].Event.Kind == element.Barrier
}

// segmentBytes are the bytes of records in closed segments.
func (o *outlet[T]) segmentBytes() (n uint32) {
	for i := range o.segments {
		n += o.segments[i].Bytes
	}
	return n
}

// handOverFrame completes the frame and queues it, if there is room.
func (w *Writer[T]) handOverFrame(o *outlet[T]) (done bool, err error) {
	unit, ok := o.remote.room()
	if unit > 0 {
		o.unit = unit
	}
	if !ok {
		return false, nil
	}
	f := w.seal(o)
	w.stats.Records += int64(o.records)
	w.stats.Bytes += int64(len(*f.buf))
	w.largest -= w.largest >> 3
	o.buf, o.records, o.segments = nil, 0, o.segments[:0]
	o.segment, o.prev = frame.Segment{}, 0
	o.remote.push(f)
	return true, nil
}

// seal writes the table of segments behind the records and computes everything that does not depend on the stream.
func (w *Writer[T]) seal(o *outlet[T]) outFrame {
	f := outFrame{buf: o.buf, pool: w.sender.pool}
	if f.buf == nil { // events only: not worth a buffer of the pool
		b := make([]byte, frame.HeaderLen, frame.HeaderLen+len(o.segments)*frame.SegmentLen)
		f.buf, f.pool = &b, nil
	}
	if o.segment.Records > 0 || len(o.segments) == 0 {
		o.segment.Bytes = uint32(len(*f.buf)-frame.HeaderLen) - o.segmentBytes()
		o.segments = append(o.segments, o.segment)
	}
	*f.buf = frame.AppendTable(*f.buf, o.segments)
	payload := len(*f.buf) - frame.HeaderLen
	f.header = frame.Header{
		Type: frame.Data, Records: uint32(o.records), Segments: uint32(len(o.segments)),
		Payload: uint32(payload), Raw: uint32(payload),
	}
	if o.segments[len(o.segments)-1].Event.Kind == element.End {
		f.header.Flags |= frame.Ended
	}
	w.pack(&f)
	return f
}

// worthPacking is the size in bytes below which compression is not tried.
const worthPacking = 256

// pack compresses the payload if the edge asks for it and an eighth is saved, and sums it up.
func (w *Writer[T]) pack(f *outFrame) {
	payload := (*f.buf)[frame.HeaderLen:]
	if w.cfg.Compression == S2 && len(payload) >= worthPacking {
		if most := s2.MaxEncodedLen(len(payload)); cap(w.packed) < most {
			w.packed = make([]byte, most)
		}
		packed := s2.Encode(w.packed[:cap(w.packed)], payload)
		if len(packed) <= len(payload)-len(payload)/8 {
			*f.buf = append((*f.buf)[:frame.HeaderLen], packed...)
			payload = (*f.buf)[frame.HeaderLen:]
			f.header.Flags |= frame.Compressed
			f.header.Payload = uint32(len(payload))
		}
	}
	f.header.Sum = frame.Sum(payload)
}

// sendInPieces sends a record that is larger than a frame: in frames that each cost credit like any other, so that the
// consumer's memory stays bounded and other channels get their turns in between.
func (w *Writer[T]) sendInPieces(o *outlet[T], record []byte) error {
	size := int64(len(record))
	if size > frame.MaxRecord {
		return &RecordError{Edge: w.cfg.Edge, Producer: w.cfg.Producer, Size: size, Limit: frame.MaxRecord}
	}
	what := fmt.Sprintf("a record of %d bytes from producer %d of edge %d", size, w.cfg.Producer, w.cfg.Edge)
	held := int64(cap(record))
	if err := w.n.memory.Reserve(what, held); err != nil {
		return err
	}
	defer w.n.memory.Release(held)
	w.discard(o)
	if err := w.empty(o); err != nil { // events may stand ahead of it
		return err
	}
	for len(record) > 0 {
		buf, err := w.buffer()
		if err != nil {
			return err
		}
		n := min(len(record), w.frameBytes(o)-frame.HeaderLen)
		*buf = append((*buf)[:frame.HeaderLen], record[:n]...)
		record = record[n:]
		f := outFrame{buf: buf, pool: w.sender.pool, header: frame.Header{
			Type: frame.Data, Flags: frame.Piece, Payload: uint32(n), Raw: uint32(n), Total: uint32(size),
		}}
		if len(record) == 0 {
			f.header.Records = 1
			w.stats.Records++
		}
		w.pack(&f)
		if err := w.pushPiece(o, f); err != nil {
			return err
		}
	}
	return nil
}

// discard gives the buffer of an open frame without records back.
func (w *Writer[T]) discard(o *outlet[T]) {
	w.sender.pool.Put(o.buf)
	o.buf, o.room = nil, 0
	if len(o.segments) == 0 {
		o.filled = false
		w.filled--
	}
}

func (w *Writer[T]) pushPiece(o *outlet[T], f outFrame) error {
	for {
		unit, ok := o.remote.room()
		if ok {
			w.stats.Buffers++
			w.stats.Bytes += int64(len(*f.buf))
			o.remote.push(f)
			return nil
		}
		if err := w.wait(); err != nil {
			f.free()
			return err
		}
		o.unit = max(o.unit, unit)
	}
}
