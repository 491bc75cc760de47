package state

import (
	"fmt"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// cells is what value and map states have in common: cells of type V with ids, their changes and their entries in chunks.
type cells[V any] struct {
	changes[V]
	name     string
	registry *codec.Registry
	codec    *codec.Codec[V]
	flat     bool
	decode   func([]byte, *V) ([]byte, error) // of the chunk that is being loaded
	scratch  []byte

	at  func(id uint32) *cell[V]                                       // nil if there is none
	key func(dst []byte, id uint32) (key []byte, group int, err error) // of the entry of a cell
	// turned is called when undoing has given a value to cell id, or has taken it.
	turned func(id uint32, exists bool)
}

func newCells[V any](cur *Cursor, name string, r *codec.Registry) (cells[V], error) {
	c, err := codec.Of[V](r)
	if err != nil {
		return cells[V]{}, fmt.Errorf("state %q: %w", name, err)
	}
	return cells[V]{changes: newChanges[V](cur), name: name, registry: r, codec: c, flat: c.Flat()}, nil
}

// change is called before the first change of cell id in an epoch, and for any later one: it keeps what the cell was.
func (s *cells[V]) change(id uint32, c *cell[V]) {
	if !s.cur.tracking || c.word>>1 == s.cur.live>>1 {
		return
	}
	unwritten := s.unwritten(id)
	first := s.open().dirty.add(id) // false: an aborted checkpoint has left an older pre-image
	switch {
	case s.flat:
		if unwritten {
			s.check(s.write(s.cur.snap, id, c))
		}
		if first {
			s.open().flat.push(pre[V]{id, c.word, c.v})
		}
	case unwritten || first:
		enc := s.scratch[:0]
		if c.word&present != 0 {
			var err error
			if enc, err = s.codec.Append(enc, &c.v); err != nil {
				s.check(err)
				return
			}
			s.scratch = enc
		}
		if unwritten {
			s.check(s.writeEncoded(s.cur.snap, id, c.word, enc))
		}
		if first {
			s.open().enc.push(pre[[]byte]{id, c.word, s.arena.copy(enc)})
		}
	}
}

// access is called before a value that is not flat is read: the reader may change what it leads to.
func (s *cells[V]) access(id uint32, c *cell[V]) {
	if c.word&present != 0 && s.cur.tracking {
		s.change(id, c)
		c.word = s.cur.live
	}
}

// clear takes the value of cell id, which has one.
func (s *cells[V]) clear(id uint32, c *cell[V]) {
	s.change(id, c)
	var zero V
	c.v = zero
	c.word = s.cur.live &^ present
}

func (s *cells[V]) check(err error) {
	if err != nil {
		s.cur.fail(fmt.Errorf("state %q: %w", s.name, err))
	}
}

func (s *cells[V]) rewind() {
	back := func(id, word uint32) *cell[V] {
		c := s.at(id)
		if was := c.word; (was^word)&present != 0 {
			s.turned(id, word&present != 0)
		}
		c.word = word
		return c
	}
	s.undo(func(p *pre[V]) { back(p.id, p.word).v = p.was },
		func(p *pre[[]byte]) {
			c := back(p.id, p.word)
			var v V
			if p.word&present != 0 {
				_, err := s.codec.Decode(p.was, &v)
				s.check(err)
			}
			c.v = v
		})
}

func (s *cells[V]) sweep(snap *Snapshot, limit int) (int, bool, error) {
	return s.walk(snap, limit, func(id uint32) error {
		c := s.at(id)
		if c == nil || c.word>>1 > snap.epoch { // written when it changed
			return nil
		}
		return s.write(snap, id, c)
	})
}

// write puts cell id, which is as it was at the barrier, into the snapshot.
func (s *cells[V]) write(snap *Snapshot, id uint32, c *cell[V]) (err error) {
	snap.value = snap.value[:0]
	if c.word&present != 0 {
		if snap.value, err = s.codec.Append(snap.value, &c.v); err != nil {
			return err
		}
	}
	return s.writeEncoded(snap, id, c.word, snap.value)
}

func (s *cells[V]) writeEncoded(snap *Snapshot, id, word uint32, enc []byte) error {
	if word&present == 0 && snap.extent == Full {
		return nil
	}
	key, group, err := s.key(snap.key[:0], id)
	if err != nil {
		return err
	}
	snap.key = key
	return snap.put(s.name, group, word&present != 0, enc)
}

func (s *cells[V]) readingValue(stored string) (err error) {
	s.decode, err = decoder(s.codec, s.registry, stored)
	return err
}

// loadValue takes the value of an entry; c becomes a cell without a value if it is a tombstone.
func (s *cells[V]) loadValue(c *cell[V], e *chunk.Entry) error {
	*c = cell[V]{}
	if e.Deleted {
		return nil
	}
	if err := decodeAll(s.decode, e.Value, &c.v); err != nil {
		return err
	}
	c.word = present
	return nil
}

func cellBytes[V any](blocks int) int { return blocks * blockLen * int(unsafe.Sizeof(cell[V]{})) }
