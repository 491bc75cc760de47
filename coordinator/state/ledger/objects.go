package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Place corrects where objects are. Objects that the record does not have, or that a plan deletes, are left out: whoever has
// them is told to delete them by the plan.
func Place(c *jobpb.Checkpoints, placed, lost []*jobpb.StoredObject) (*jobpb.Checkpoints, error) {
	n := clone(c)
	n.Objects = slices.Clone(c.Objects)
	changed := false
	move := func(o *jobpb.StoredObject, to func(old []string) []string) error {
		i, known := position(n.Objects, o.GetObject().GetName())
		if !known {
			return nil
		}
		old := n.Objects[i]
		if err := same(old.Object, o.Object); err != nil {
			return err
		}
		stores := to(old.Stores)
		if !slices.Equal(stores, old.Stores) {
			n.Objects[i], changed = &jobpb.StoredObject{Object: old.Object, Stores: stores}, true
		}
		return nil
	}
	for _, o := range placed {
		if _, doomed := slices.BinarySearch(c.Deleting, o.GetObject().GetName()); doomed {
			continue
		}
		if err := move(o, func(old []string) []string { return union(old, o.Stores) }); err != nil {
			return nil, err
		}
	}
	for _, o := range lost {
		err := move(o, func(old []string) []string {
			return slices.DeleteFunc(slices.Clone(old), func(s string) bool { return slices.Contains(o.Stores, s) })
		})
		if err != nil {
			return nil, err
		}
	}
	if !changed {
		return nil, errors.New("all of these objects are where the record has them, or are not known")
	}
	return n, nil
}

// place adds an object to a record that is being made.
func place(n *jobpb.Checkpoints, o *jobpb.StoredObject) error {
	name := o.GetObject().GetName()
	if _, doomed := slices.BinarySearch(n.Deleting, name); doomed {
		return fmt.Errorf("object %.200q is being deleted", name)
	}
	i, known := position(n.Objects, name)
	if !known {
		n.Objects = slices.Insert(slices.Clone(n.Objects), i, &jobpb.StoredObject{Object: o.Object, Stores: union(nil, o.Stores)})
		return nil
	}
	if err := same(n.Objects[i].Object, o.Object); err != nil {
		return err
	}
	n.Objects = slices.Clone(n.Objects)
	n.Objects[i] = &jobpb.StoredObject{Object: n.Objects[i].Object, Stores: union(n.Objects[i].Stores, o.Stores)}
	return nil
}

// same: a name is never used again. A side that knows no digest says nothing about it.
func same(a, b *jobpb.Object) error {
	if a.Size != b.GetSize() || len(a.Digest) > 0 && len(b.GetDigest()) > 0 && !bytes.Equal(a.Digest, b.Digest) {
		return fmt.Errorf("%w: object %.200q has %d bytes and digest %x, not %d and %x", ErrContradiction, a.Name, a.Size, a.Digest, b.GetSize(), b.GetDigest())
	}
	return nil
}

// PlanDeletion takes names into the plan of deletion. What a kept checkpoint or the one under way may name is left out, and so
// is what the record does not have: nothing is planned on hearsay. An object that another job knows is left to that, and forgotten here.
func PlanDeletion(c *jobpb.Checkpoints, names []string, elsewhere func(name string) bool) (n *jobpb.Checkpoints, left int, err error) {
	need := Needed(c)
	n = clone(c)
	plan, shared := slices.Clone(c.Deleting), map[string]bool{}
	for _, name := range names {
		i, planned := slices.BinarySearch(plan, name)
		if _, known := position(c.Objects, name); planned || need[name] || !known {
			left++
			continue
		}
		if elsewhere(name) {
			shared[name] = true
			continue
		}
		plan = slices.Insert(plan, i, name)
	}
	if len(shared) > 0 {
		n.Objects = slices.DeleteFunc(slices.Clone(c.Objects), func(o *jobpb.StoredObject) bool { return shared[o.Object.Name] })
	}
	if left == len(names) {
		return nil, left, errors.New("all of these objects are needed, unknown, or in the plan")
	}
	n.Deleting = plan
	return n, left, nil
}

// Needed are the names that must not be deleted: those of all kept checkpoints. The base of the one under way is among them,
// since a checkpoint is forgotten only when a later one completes, and what an acknowledgement may name besides is new.
func Needed(c *jobpb.Checkpoints) map[string]bool {
	need := make(map[string]bool, len(c.GetObjects()))
	for _, d := range c.GetCompleted() {
		if invariant.Without("needed-objects") && d != Newest(c) {
			continue
		}
		for _, name := range d.Objects {
			need[name] = true
		}
	}
	return need
}

// Garbage are the objects that may go into a plan of deletion, in order, at most so many; 0: all.
func Garbage(c *jobpb.Checkpoints, most int) (names []string) {
	need := Needed(c)
	for _, o := range c.GetObjects() {
		name := o.Object.Name
		if _, planned := slices.BinarySearch(c.Deleting, name); planned || need[name] {
			continue
		}
		if names = append(names, name); len(names) == most {
			break
		}
	}
	return names
}

// Forget drops what the stores have deleted by the plan.
func Forget(c *jobpb.Checkpoints, names []string) (n *jobpb.Checkpoints, left int, err error) {
	gone := make(map[string]bool, len(names))
	for _, name := range names {
		if _, planned := slices.BinarySearch(c.Deleting, name); planned {
			gone[name] = true
		}
	}
	if len(gone) == 0 {
		return nil, len(names), errors.New("none of these objects is in the plan of deletion")
	}
	n = clone(c)
	n.Deleting = slices.DeleteFunc(slices.Clone(c.Deleting), func(s string) bool { return gone[s] })
	n.Objects = slices.DeleteFunc(slices.Clone(c.Objects), func(o *jobpb.StoredObject) bool { return gone[o.Object.Name] })
	return n, len(names) - len(gone), nil
}

func position(objects []*jobpb.StoredObject, name string) (int, bool) {
	return slices.BinarySearchFunc(objects, name, func(o *jobpb.StoredObject, name string) int { return cmp.Compare(o.Object.Name, name) })
}

// union is ordered, so that the same facts have the same bytes.
func union(a, b []string) []string {
	u := slices.Concat(a, b)
	slices.Sort(u)
	return slices.Compact(u)
}
