package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// Checkpoint is a completed checkpoint, for as long as anybody reads it.
type Checkpoint struct {
	stores snapshot.Stores
	from   *taskpb.Restore

	mu struct {
		sync.Mutex
		manifest *snapshotpb.Manifest // nil: not read yet
		objects  map[string]snapshot.Reader
		chunks   map[place]*chunk.Reader
	}
}

type place struct {
	segment string
	offset  int64
}

// New reads nothing yet.
func New(stores snapshot.Stores, from *taskpb.Restore) *Checkpoint {
	c := &Checkpoint{stores: stores, from: from}
	c.mu.objects, c.mu.chunks = map[string]snapshot.Reader{}, map[place]*chunk.Reader{}
	return c
}

// Close closes what is open.
func (c *Checkpoint) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for name, r := range c.mu.objects {
		errs = append(errs, r.Close())
		delete(c.mu.objects, name)
	}
	clear(c.mu.chunks)
	return errors.Join(errs...)
}

// unreadable is the failure to read what a completed checkpoint needs.
func (c *Checkpoint) unreadable(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return f
	}
	f := &fault.Fault{Kind: jobpb.FailureKind_FAILURE_FATAL, Code: snapshot.CodeRead, Err: fmt.Errorf("checkpoint %d: %w", c.from.Checkpoint, err)}
	if e, ok := errors.AsType[*state.Error](err); ok && e.Code == state.CodeFit {
		f.Code, f.Operator = e.Code, e.Operator
		return f
	}
	if _, ok := errors.AsType[*snapshot.FormatError](err); ok {
		f.Code = snapshot.CodeFormat
		return f
	}
	if !errors.Is(err, snapshot.ErrNotFound) && !errors.Is(err, chunk.ErrCorrupt) && !errors.Is(err, snapshot.ErrDamaged) {
		f.Kind = jobpb.FailureKind_FAILURE_LOSS // a store that does not answer may answer later
	}
	return f
}

func incomplete(format string, args ...any) error {
	return fault.Fatal(snapshot.CodeFormat, format, args...)
}

// Manifest reads it, once.
func (c *Checkpoint) Manifest(ctx context.Context) (*snapshotpb.Manifest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.manifest != nil {
		return c.mu.manifest, nil
	}
	m, err := c.read(ctx)
	if err != nil {
		return nil, c.unreadable(err)
	}
	c.mu.manifest = m
	return m, nil
}

func (c *Checkpoint) read(ctx context.Context) (*snapshotpb.Manifest, error) {
	if c.stores == nil {
		return nil, fmt.Errorf("this process has no stores: %w", snapshot.ErrNotFound)
	}
	m, err := snapshot.ReadManifest(ctx, c.stores, c.from.Manifest, c.from.Stores)
	if err != nil {
		return nil, err
	}
	if m.Checkpoint != c.from.Checkpoint {
		return nil, incomplete("manifest %s is of checkpoint %d, not %d", c.from.Manifest.GetObject().GetName(), m.Checkpoint, c.from.Checkpoint)
	}
	return m, nil
}

// Subtask is the entry of one subtask.
func (c *Checkpoint) Subtask(ctx context.Context, chain, index int32) (*snapshotpb.SubtaskState, error) {
	m, err := c.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range m.Subtasks {
		if s.Chain != chain || s.Index != index {
			continue
		}
		if s.Status == snapshotpb.SubtaskStatus_SUBTASK_UNSPECIFIED {
			break
		}
		return s, nil
	}
	return nil, incomplete("checkpoint %d has no entry for subtask %d of chain %d", c.from.Checkpoint, index, chain)
}

// Committables are those of one sink, prepared and not known to be committed.
func (c *Checkpoint) Committables(ctx context.Context, sink string) ([]*jobpb.Committable, error) {
	var out []*jobpb.Committable
	err := c.operator(ctx, sink, func(o *snapshotpb.OperatorState) { out = append(out, o.Committables...) })
	return out, err
}

// operator visits what the subtasks of an operator have.
func (c *Checkpoint) operator(ctx context.Context, id string, visit func(*snapshotpb.OperatorState)) error {
	m, err := c.Manifest(ctx)
	if err != nil {
		return err
	}
	for _, s := range m.Subtasks {
		for _, o := range s.Operators {
			if o.Operator == id {
				visit(o)
			}
		}
	}
	return nil
}

// Tables gives the tables of an operator what the checkpoint has of the key groups in [first, end): list state by key group,
// union and broadcast state as a whole.
func (c *Checkpoint) Tables(ctx context.Context, operator string, first, end int, tables []state.Table) error {
	var parts []*snapshotpb.Part
	err := c.operator(ctx, operator, func(o *snapshotpb.OperatorState) {
		for _, p := range o.Parts {
			whole := chunk.Scope(p.Scope) == chunk.Union || chunk.Scope(p.Scope) == chunk.Broadcast
			if whole || int(p.First) < end && first < int(p.End) {
				parts = append(parts, p)
			}
		}
	})
	if err != nil {
		return err
	}
	chain := make([]*chunk.Reader, 0, len(parts))
	for _, p := range parts {
		r, err := c.chunk(ctx, p)
		if err != nil {
			return c.unreadable(fmt.Errorf("%s, %d bytes at %d: %w", p.Segment, p.Size, p.Offset, err))
		}
		// A part counts for the key groups that the manifest names for it: after a change of parallelism several subtasks name one, and
		// each of them goes on with its own groups.
		chain = append(chain, r.Within(int(p.First), int(p.End)))
	}
	for _, t := range tables {
		if err := t.Import(ctx, chain, first, end); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.unreadable(err)
		}
	}
	return nil
}

// chunk opens a part.
func (c *Checkpoint) chunk(ctx context.Context, p *snapshotpb.Part) (*chunk.Reader, error) {
	at := place{p.Segment, p.Offset}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.mu.chunks[at]; r != nil {
		return r, nil
	}
	o, err := c.object(ctx, p.Segment)
	if err != nil {
		return nil, err
	}
	if p.Offset < 0 || p.Size < 0 || p.Offset > o.Size()-p.Size {
		return nil, fmt.Errorf("%w: the object has %d bytes", snapshot.ErrDamaged, o.Size())
	}
	r, err := chunk.NewReader(io.NewSectionReader(o, p.Offset, p.Size), p.Size)
	if err == nil {
		c.mu.chunks[at] = r
	}
	return r, err
}

// object opens a segment. The lock is held.
func (c *Checkpoint) object(ctx context.Context, name string) (snapshot.Reader, error) {
	if r := c.mu.objects[name]; r != nil {
		return r, nil
	}
	i := slices.IndexFunc(c.from.Objects, func(o *jobpb.StoredObject) bool { return o.GetObject().GetName() == name })
	if i < 0 {
		return nil, incomplete("nothing says where object %s of checkpoint %d is", name, c.from.Checkpoint)
	}
	r, err := c.stores.Open(ctx, c.from.Objects[i], c.from.Stores)
	if err != nil {
		return nil, err
	}
	if want := c.from.Objects[i].Object.Size; r.Size() != want {
		return nil, errors.Join(fmt.Errorf("%w: the object has %d bytes, it had %d", snapshot.ErrDamaged, r.Size(), want), r.Close())
	}
	c.mu.objects[name] = r
	return r, nil
}
