package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// Verdict is what is known of an object after it was read.
type Verdict string

// Verdicts.
const (
	Intact     Verdict = "intact"
	Missing    Verdict = "missing"    // none of the stores has it
	Damaged    Verdict = "damaged"    // it has other bytes
	Short      Verdict = "short"      // it has fewer bytes, or more
	Unreadable Verdict = "unreadable" // its store did not answer, or could not read it
	Unfit      Verdict = "unfit"      // it is what was written, and this program cannot use it
)

// Finding is the state of one object in one place.
type Finding struct {
	Object  *jobpb.Object
	Store   string // empty: wherever it was found
	Verdict Verdict
	Cause   error // nil if intact
	Parts   int   // of the manifest that lie in it, read and sound
	Entries int   // of those
}

// Check reads every object that manifests name, once, in each of its places: all bytes for the digest, and every chunk of every
// part. It reports one Finding for each object and place, ordered by name; the error is for what ends the check. Objects that no
// manifest names and places lists are compared with their digests. Places may lack objects: those are looked for wherever the stores
// find them.
func Check(ctx context.Context, ms []*snapshotpb.Manifest, stores Stores, places []*jobpb.StoredObject, addresses []*taskpb.StoreAddress) ([]Finding, error) {
	t, err := targetsOf(ms, places)
	if err != nil {
		return nil, err
	}
	where := map[string][]string{}
	for _, o := range places {
		where[o.GetObject().GetName()] = append(where[o.GetObject().GetName()], o.GetStores()...)
	}
	var all []Finding
	for _, o := range t.objects {
		for _, store := range orAny(where[o.Name]) {
			s := &jobpb.StoredObject{Object: o}
			if store != "" {
				s.Stores = []string{store}
			}
			f := Finding{Object: o, Store: store}
			f.Cause = checkObject(ctx, stores, s, addresses, t.parts[o.Name], &f)
			if ctx.Err() != nil {
				return all, context.Cause(ctx)
			}
			f.Verdict = VerdictOf(f.Cause)
			all = append(all, f)
		}
	}
	return all, nil
}

// targets are the objects of a check, and the parts that lie in each.
type targets struct {
	objects []*jobpb.Object
	parts   map[string][]*snapshotpb.Part
}

// targetsOf collects what manifests name, each object and part once. Of a name that has two contents both are targets: at most one
// of them can be there.
func targetsOf(ms []*snapshotpb.Manifest, places []*jobpb.StoredObject) (*targets, error) {
	t := &targets{parts: map[string][]*snapshotpb.Part{}}
	named, seen := map[string]bool{}, map[chunkPlace]bool{}
	add := func(o *jobpb.Object) {
		if k := fmt.Sprintf("%s@%x", o.Name, o.Digest); !named[k] {
			named[k], named[o.Name] = true, true
			t.objects = append(t.objects, o)
		}
	}
	for _, m := range ms {
		if err := Validate(m); err != nil {
			return nil, err
		}
		for _, o := range m.Objects {
			add(o)
		}
		eachPart(m, func(_ *snapshotpb.SubtaskState, _ *snapshotpb.OperatorState, p *snapshotpb.Part) {
			if k := (chunkPlace{p.Segment, p.Offset}); !seen[k] {
				seen[k] = true
				t.parts[p.Segment] = append(t.parts[p.Segment], p)
			}
		})
	}
	var rest []*jobpb.Object
	for _, o := range places {
		if !named[o.GetObject().GetName()] {
			rest = append(rest, o.Object)
		}
	}
	for _, o := range rest {
		if err := CheckObject(o); err != nil {
			return nil, unfit("%w", err)
		}
		add(o)
	}
	slices.SortStableFunc(t.objects, func(a, b *jobpb.Object) int { return cmp.Compare(a.Name, b.Name) })
	return t, nil
}

// orAny is a list of stores, or the one that means any.
func orAny(stores []string) []string {
	if len(stores) == 0 {
		return []string{""}
	}
	return stores
}

func checkObject(ctx context.Context, stores Stores, s *jobpb.StoredObject, addresses []*taskpb.StoreAddress, parts []*snapshotpb.Part, f *Finding) (err error) {
	r, err := stores.Open(ctx, s, addresses)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if r.Size() != s.Object.Size {
		return fmt.Errorf("%w: %d bytes instead of %d", ErrLength, r.Size(), s.Object.Size)
	}
	if err := Verify(ctx, r, s.Object, f.Store); err != nil {
		return err
	}
	for _, p := range parts {
		c, err := chunk.NewReader(io.NewSectionReader(r, p.Offset, p.Size), p.Size)
		if err != nil {
			return fmt.Errorf("part of table %q at %d: %w", p.Table, p.Offset, err)
		}
		n, err := c.Verify()
		if err != nil {
			return fmt.Errorf("part of table %q at %d: %w", p.Table, p.Offset, err)
		}
		f.Parts++
		f.Entries += n
	}
	return nil
}

// VerdictOf is what an error says of the object that was read.
func VerdictOf(err error) Verdict {
	switch {
	case err == nil:
		return Intact
	case errors.Is(err, ErrNotFound):
		return Missing
	case errors.Is(err, ErrLength), errors.Is(err, io.ErrUnexpectedEOF):
		return Short
	case errors.Is(err, ErrDamaged), errors.Is(err, chunk.ErrCorrupt):
		return Damaged
	case errors.Is(err, chunk.ErrVersion), isFormat(err):
		return Unfit
	}
	return Unreadable
}

func isFormat(err error) bool {
	_, ok := errors.AsType[*FormatError](err)
	return ok
}
