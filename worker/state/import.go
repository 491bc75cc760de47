package state

import (
	"context"
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/column"
)

// maxReserve bounds what is reserved on the word of an index, in ids.
const maxReserve = 1 << 26

// taker takes an entry of a chunk.
type taker func(e *chunk.Entry) error

// importer takes the entries of one chunk.
type importer struct {
	d      *directory
	header *chunk.Header
	key    column.Decode
	states []func(row uint32, e *chunk.Entry) error
}

// importer makes what takes the entries of a chunk with this header.
func (d *directory) importer(h *chunk.Header) (taker, error) {
	o := d.t.Options()
	if h.MaxParallelism != o.MaxParallelism {
		return nil, fmt.Errorf("the snapshot has %d key groups, the job %d: max parallelism is fixed for the life of the state", h.MaxParallelism, o.MaxParallelism)
	}
	if h.Space != o.Space || h.Scope != o.Scope {
		return nil, fmt.Errorf("table %q was stored with scope %d and namespaces %q, it has %d and %q now", h.Table, h.Scope, h.Space, o.Scope, o.Space)
	}
	im := &importer{d: d, header: h, key: d.codec.Decode}
	if h.Key != d.codec.Schema() {
		m, err := codec.MigratingPlan(d.keys.kind.Type, h.Key, o.Registry)
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
	return im.take, nil
}

// take takes an entry.
func (im *importer) take(e *chunk.Entry) error {
	d := im.d
	name := im.header.States[e.State].Name
	k := d.spare
	d.keys.kind.Zero(k)
	rest, err := im.key(e.Key, k)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes behind it", codec.ErrCorrupt, len(rest))
	}
	if err != nil {
		return d.t.Fault(CodeCorrupt, name, fmt.Errorf("key: %w", err))
	}
	h := d.keys.hash(k)
	if g := d.keys.group(k, h); g != e.Group {
		return d.t.Fault(CodeCorrupt, name, fmt.Errorf("%w: key %s belongs to key group %d, not %d", chunk.ErrCorrupt, d.keys.text(k), g, e.Group))
	}
	d.keys.seek(k, h)
	if d.t.Entry == nil {
		if e.Op == chunk.Delete || d.t.Err != nil {
			return d.t.Err
		}
		d.keys.insert()
	}
	if err := im.states[e.State](d.t.Row, e); err != nil {
		return d.t.FaultAt(CodeCorrupt, name, d.t.Row, err)
	}
	return d.t.Err
}

// Import takes the entries of the key groups in [first, end) from the chunks of a chain, oldest first. Restored ends it.
// Only before the first record. Helpers, which have ended when it returns, read and check ahead. Chunks of other tables of the operator are left out.
func (d *directory) Import(ctx context.Context, chain []*chunk.Reader, first, end int) error {
	if d.t.Epochs.Last() != 0 {
		return fmt.Errorf("import into a directory that stands at checkpoint %d", d.t.Epochs.Last())
	}
	if !d.t.Sealed() {
		d.t.Seal()
	}
	var mine []*chunk.Reader
	var takers []taker
	entries := 0
	for _, r := range chain {
		if r.Header().Table != d.t.Options().Table {
			continue
		}
		take, err := d.importer(r.Header())
		if err != nil {
			return d.t.Fault(CodeFit, "", err)
		}
		mine, takers = append(mine, r), append(takers, take)
		entries += r.Count(first, end)
	}
	if d.t.Pool.High == 0 && !d.t.Evicts() {
		d.index.Reserve(min(entries, maxReserve))
	}
	return chunk.ReadAhead(ctx, mine, first, end, func(i int, e *chunk.Entry) error { return takers[i](e) })
}

// Restored says that the imported state is that of completed checkpoint id.
func (d *directory) Restored(id element.CheckpointID) {
	d.t.Epochs.Restored(id)
	d.t.Settle()
}
