package state

import (
	"fmt"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// UnknownStateError is state in a chunk that the operator does not declare.
type UnknownStateError struct{ Name string }

func (e *UnknownStateError) Error() string {
	return fmt.Sprintf("the snapshot has a state %q that the operator does not declare", e.Name)
}

// maxReserve bounds what is reserved on the word of an index, in ids.
const maxReserve = 1 << 26

// Load takes the entries of the key groups in [first, end) from a chunk. A checkpoint of several chunks is loaded oldest
// first; Restored ends it. Only before the first record.
func (d *Directory[K]) Load(r *chunk.Reader, first, end int) error {
	if d.last != 0 {
		return fmt.Errorf("load into a directory that stands at checkpoint %d", d.last)
	}
	h := r.Header()
	if h.MaxParallelism != d.opts.MaxParallelism {
		return fmt.Errorf("the snapshot has %d key groups, the job %d: max parallelism is fixed for the life of the state", h.MaxParallelism, d.opts.MaxParallelism)
	}
	decodeKey, err := decoder(d.codec, d.opts.Registry, h.Key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	cols, err := d.reading(h)
	if err != nil {
		return err
	}
	if d.rows.next == 0 {
		d.index.reserve(min(r.Count(first, end), maxReserve))
	}
	var k K // one for all entries, like e: their addresses are taken
	var e chunk.Entry
	for next, err := range r.Read(first, end) {
		if err != nil {
			return err
		}
		e = next
		sub, err := decodeKey(e.Key, &k)
		if err != nil {
			return fmt.Errorf("state %q: key: %w", h.States[e.State].Name, err)
		}
		hash := d.hash(k)
		if g := codec.KeyGroup(hash, d.opts.MaxParallelism); g != e.Group {
			return fmt.Errorf("%w: key %v belongs to key group %d, not %d", chunk.ErrCorrupt, k, g, e.Group)
		}
		row, ok := d.loadRow(k, hash, e.Deleted)
		if !ok {
			continue
		}
		if err := cols[e.State].load(row, &e, sub); err != nil {
			return fmt.Errorf("state %q: key %v: %w", h.States[e.State].Name, k, err)
		}
	}
	return nil
}

// reading is the columns by the numbers of the chunk, ready for its schemas.
func (d *Directory[K]) reading(h *chunk.Header) ([]column, error) {
	byName := map[string]column{}
	for _, c := range d.cols {
		byName[c.describe().Name] = c
	}
	var cols []column
	for _, st := range h.States {
		c := byName[st.Name]
		if c == nil {
			return nil, &UnknownStateError{Name: st.Name}
		}
		if kind := c.describe().Kind; kind != st.Kind {
			return nil, fmt.Errorf("state %q changed its kind from %d to %d", st.Name, st.Kind, kind)
		}
		if err := c.reading(st); err != nil {
			return nil, fmt.Errorf("state %q: %w", st.Name, err)
		}
		cols = append(cols, c)
	}
	return cols, nil
}

// loadRow is the row of a key; ok is false if there is none and a tombstone needs none.
func (d *Directory[K]) loadRow(k K, h uint64, deleted bool) (row uint32, ok bool) {
	d.Seek(k, h)
	if d.cur.entry != nil {
		return d.cur.row, true
	}
	if deleted {
		return 0, false
	}
	var p unsafe.Pointer
	row, p = d.newRow(k, h)
	d.cur.entry, d.cur.row = p, row
	return row, true
}

// Restored says that the loaded state is that of completed checkpoint id.
func (d *Directory[K]) Restored(id element.CheckpointID) {
	d.base, d.last = id, id
	d.settle()
	d.cur.entry = nil
}

// decoder reads values of the schema with which they were stored.
func decoder[V any](c *codec.Codec[V], r *codec.Registry, stored string) (func([]byte, *V) ([]byte, error), error) {
	if stored == c.Schema() {
		return c.Decode, nil
	}
	m, err := codec.Migrating[V](stored, r)
	if err != nil {
		return nil, err
	}
	return m.Decode, nil
}

// decodeAll decodes a value that takes all of b.
func decodeAll[V any](decode func([]byte, *V) ([]byte, error), b []byte, v *V) error {
	rest, err := decode(b, v)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes behind the value", codec.ErrCorrupt, len(rest))
	}
	return err
}
