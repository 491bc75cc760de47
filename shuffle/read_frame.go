package shuffle

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/shuffle/frame"
)

// openFrame checks a frame and makes it the one to read. A frame that completes a large record yields it at once.
func (g *Gate[T]) openFrame(ch int, it item) (Input[T], bool, error) {
	g.stats.Bytes += int64(it.data.Len())
	raw, err := g.payload(it)
	if err != nil {
		return Input[T]{}, false, g.lost(ch, Corrupt, err)
	}
	if it.frame.Flags&frame.Piece != 0 {
		return g.addPiece(ch, it.frame, raw)
	}
	if g.record.ch >= 0 {
		return Input[T]{}, false, g.lost(ch, Protocol, fmt.Errorf("frame %d stands inside a record in pieces", it.frame.Sequence))
	}
	f := &g.frame
	f.storage, f.records, err = it.frame.Table(raw, f.storage)
	if err != nil {
		return Input[T]{}, false, g.lost(ch, Corrupt, fmt.Errorf("frame %d: %w", it.frame.Sequence, err))
	}
	f.ch, f.segments, f.left = ch, f.storage, it.frame.Records
	if f.left == 0 { // no batch will bring the buffer back
		g.in.release(ch, nil)
	}
	return Input[T]{}, false, nil
}

// payload checks and unpacks a frame's payload; it is valid until the next call. The frame's own buffers go back to
// the transport.
func (g *Gate[T]) payload(it item) ([]byte, error) {
	defer it.data.Free()
	if n := it.data.Len(); cap(g.scratch) < n {
		g.scratch = make([]byte, max(n, g.in.unit))
	}
	whole := g.scratch[:it.data.Len()]
	it.data.CopyTo(whole)
	payload := whole[frame.HeaderLen:]
	if err := it.frame.Verify(payload); err != nil {
		return nil, fmt.Errorf("frame %d: %w", it.frame.Sequence, err)
	}
	if it.frame.Flags&frame.Compressed == 0 {
		return payload, nil
	}
	n, err := s2.DecodedLen(payload)
	if err == nil && (n != int(it.frame.Raw) || n > g.in.unit) {
		err = fmt.Errorf("%w: unpacks to %d bytes, header says %d", frame.ErrCorrupt, n, it.frame.Raw)
	}
	if err == nil {
		if cap(g.plain) < g.in.unit {
			g.plain = make([]byte, g.in.unit)
		}
		payload, err = s2.Decode(g.plain[:cap(g.plain)], payload)
	}
	if err != nil {
		return nil, fmt.Errorf("frame %d: %w", it.frame.Sequence, err)
	}
	return payload, nil
}

// read yields what is left of the open frame.
func (g *Gate[T]) read() (Input[T], bool, error) {
	f := &g.frame
	for len(f.segments) > 0 {
		s := &f.segments[0]
		if s.Records == 0 {
			f.segments = f.segments[1:]
			if s.Event.Kind == element.None {
				continue
			}
			if s.Event.Kind == element.Barrier && len(f.segments) > 0 {
				return Input[T]{}, false, g.lost(f.ch, Protocol, fmt.Errorf("barrier %d does not end its frame", s.Event.Checkpoint))
			}
			return Input[T]{Channel: f.ch, Event: s.Event}, true, nil
		}
		b := g.batch()
		err := g.cfg.Codec.DecodeRecords(f.records[:s.Bytes], int(s.Records), b)
		if err != nil {
			f.segments = nil
			return Input[T]{}, false, g.undecodable(f.ch, err)
		}
		f.records, f.left = f.records[s.Bytes:], f.left-s.Records
		s.Records = 0 // its event is next
		g.stats.Records += int64(b.Len())
		return Input[T]{Channel: f.ch, Batch: b, credit: f.left == 0}, true, nil
	}
	return Input[T]{}, false, nil
}

// undecodable is the failure to decode what a channel has brought, unchanged as its checksum says. A codec of the user's
// that does not read what it writes is no loss: the same would come again.
func (g *Gate[T]) undecodable(ch int, err error) error {
	if _, ok := errors.AsType[*codec.CustomError](err); !ok {
		return g.lost(ch, Corrupt, fmt.Errorf("decode: %w", err))
	}
	return g.failed(fmt.Errorf("decode a record of producer %d of edge %d: %w", g.in.id(ch).producer, g.cfg.Edge, err))
}

// batch is an empty batch.
func (g *Gate[T]) batch() *element.Batch[T] {
	n := len(g.free)
	if n == 0 {
		return &element.Batch[T]{}
	}
	b := g.free[n-1]
	g.free = g.free[:n-1]
	return b
}

// addPiece appends to the record that is being put together. Its buffer goes back at once.
func (g *Gate[T]) addPiece(ch int, h frame.Header, raw []byte) (Input[T], bool, error) {
	r := &g.record
	if r.ch < 0 {
		what := fmt.Sprintf("a record of %d bytes to consumer %d of edge %d", h.Total, g.cfg.Consumer, g.cfg.Edge)
		if err := g.n.memory.Reserve(what, int64(h.Total)); err != nil {
			g.in.fail(err)
			return Input[T]{}, false, err
		}
		*r = pieces{ch: ch, data: make([]byte, 0, h.Total), held: int64(h.Total)}
	}
	after := int64(len(r.data) + len(raw))
	whole := after == r.held
	if int64(h.Total) != r.held || after > r.held || whole != (h.Records == 1) {
		return Input[T]{}, false, g.lost(ch, Corrupt, fmt.Errorf("%w: piece %d of %d bytes at %d of %d", frame.ErrCorrupt, h.Sequence, len(raw), len(r.data), r.held))
	}
	r.data = append(r.data, raw...)
	g.in.release(ch, nil)
	if !whole {
		return Input[T]{}, false, nil
	}
	b := g.batch()
	err := g.cfg.Codec.DecodeRecords(r.data, 1, b)
	g.n.memory.Release(r.held)
	*r = pieces{ch: -1}
	if err != nil {
		return Input[T]{}, false, g.undecodable(ch, err)
	}
	g.stats.Records++
	return Input[T]{Channel: ch, Batch: b}, true, nil
}
