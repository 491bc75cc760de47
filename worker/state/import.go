package state

import (
	"context"
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// maxReserve bounds what is reserved on the word of an index, in ids.
const maxReserve = 1 << 26

// importer takes the entries of one chunk.
type importer[K comparable] struct {
	d      *Directory[K]
	header *chunk.Header
	key    func([]byte, *K) ([]byte, error)
	states []func(row uint32, e *chunk.Entry) error
}

func newImporter[K comparable](d *Directory[K], h *chunk.Header) (*importer[K], error) {
	o := d.t.Options()
	if h.MaxParallelism != o.MaxParallelism {
		return nil, fmt.Errorf("the snapshot has %d key groups, the job %d: max parallelism is fixed for the life of the state", h.MaxParallelism, o.MaxParallelism)
	}
	if h.Space != o.Space || h.Scope != o.Scope {
		return nil, fmt.Errorf("table %q was stored with scope %d and namespaces %q, it has %d and %q now", h.Table, h.Scope, h.Space, o.Scope, o.Space)
	}
	im := &importer[K]{d: d, header: h, key: d.codec.Decode}
	if h.Key != d.codec.Schema() {
		m, err := codec.Migrating[K](h.Key, o.Registry)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		im.key = m.Decode
	}
	for _, st := range h.States {
		read, err := d.t.Reader(st)
		if err != nil {
			return nil, err
		}
		im.states = append(im.states, read)
	}
	return im, nil
}

// take takes an entry.
func (im *importer[K]) take(e *chunk.Entry) error {
	d := im.d
	name := im.header.States[e.State].Name
	var k K
	rest, err := im.key(e.Key, &k)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes behind it", codec.ErrCorrupt, len(rest))
	}
	if err != nil {
		return d.t.Fault(CodeCorrupt, name, fmt.Errorf("key: %w", err))
	}
	h := d.hash(k)
	if g := d.group(&k, h); g != e.Group {
		return d.t.Fault(CodeCorrupt, name, fmt.Errorf("%w: key %v belongs to key group %d, not %d", chunk.ErrCorrupt, k, g, e.Group))
	}
	d.Seek(k, h)
	if d.t.Entry == nil {
		if e.Op == chunk.Delete || d.t.Err != nil {
			return d.t.Err
		}
		d.insert()
	}
	if err := im.states[e.State](d.t.Row, e); err != nil {
		return d.t.FaultAt(CodeCorrupt, name, d.t.Row, err)
	}
	return d.t.Err
}

// Import takes the entries of the key groups in [first, end) from the chunks of a chain, oldest first. Restored ends it.
// Only before the first record. Helpers, which have ended when it returns, read and check ahead. Chunks of other tables of the operator are left out.
func (d *Directory[K]) Import(ctx context.Context, chain []*chunk.Reader, first, end int) error {
	if d.t.Epochs.Last() != 0 {
		return fmt.Errorf("import into a directory that stands at checkpoint %d", d.t.Epochs.Last())
	}
	if !d.t.Sealed() {
		d.t.Seal()
	}
	var mine []*chunk.Reader
	var importers []*importer[K]
	entries := 0
	for _, r := range chain {
		if r.Header().Table != d.t.Options().Table {
			continue
		}
		im, err := newImporter(d, r.Header())
		if err != nil {
			return d.t.Fault(CodeFit, "", err)
		}
		mine, importers = append(mine, r), append(importers, im)
		entries += r.Count(first, end)
	}
	if d.t.Pool.High == 0 && !d.t.Evicts() {
		d.index.Reserve(min(entries, maxReserve))
	}
	return chunk.ReadAhead(ctx, mine, first, end, func(i int, e *chunk.Entry) error { return importers[i].take(e) })
}

// Restored says that the imported state is that of completed checkpoint id.
func (d *Directory[K]) Restored(id element.CheckpointID) {
	d.t.Epochs.Restored(id)
	d.t.Settle()
}
