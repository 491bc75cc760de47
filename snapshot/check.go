package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"

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

// Check reads every object of a manifest in each of its places: all bytes for the digest, and every chunk of every part. It
// reports one Finding for each object and place, in order; the error is for what ends the check. places may lack objects: those are looked for
// wherever the stores find them.
func Check(ctx context.Context, m *snapshotpb.Manifest, stores Stores, places []*jobpb.StoredObject, addresses []*taskpb.StoreAddress) ([]Finding, error) {
	if err := Validate(m); err != nil {
		return nil, err
	}
	parts := map[string][]*snapshotpb.Part{}
	seen := map[chunkPlace]bool{}
	eachPart(m, func(_ *snapshotpb.SubtaskState, _ *snapshotpb.OperatorState, p *snapshotpb.Part) {
		if k := (chunkPlace{p.Segment, p.Offset}); !seen[k] {
			seen[k] = true
			parts[p.Segment] = append(parts[p.Segment], p)
		}
	})
	where := map[string][]string{}
	for _, o := range places {
		where[o.GetObject().GetName()] = o.GetStores()
	}
	var all []Finding
	for _, o := range m.Objects {
		for _, store := range orAny(where[o.Name]) {
			s := &jobpb.StoredObject{Object: o}
			if store != "" {
				s.Stores = []string{store}
			}
			f := Finding{Object: o, Store: store}
			f.Cause = checkObject(ctx, stores, s, addresses, parts[o.Name], &f)
			if ctx.Err() != nil {
				return all, context.Cause(ctx)
			}
			f.Verdict = verdict(f.Cause)
			all = append(all, f)
		}
	}
	return all, nil
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

func verdict(err error) Verdict {
	switch {
	case err == nil:
		return Intact
	case errors.Is(err, ErrNotFound):
		return Missing
	case errors.Is(err, ErrLength), errors.Is(err, io.ErrUnexpectedEOF):
		return Short
	case errors.Is(err, ErrDamaged), errors.Is(err, chunk.ErrCorrupt):
		return Damaged
	}
	return Unreadable
}
