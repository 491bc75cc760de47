package ledger

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Check tells why a record is none: it is what stands between a damaged snapshot and code that trusts the record.
func Check(c *jobpb.Checkpoints) error {
	if c.Next == 0 || c.Failed < 0 {
		return fmt.Errorf("checkpoints: next %d, %d failed", c.Next, c.Failed)
	}
	if len(c.History) > MaxHistory || len(c.Wanted) > MaxWanted || len(c.Objects) > MaxObjects {
		return errors.New("checkpoints: more than can be kept")
	}
	for i, o := range c.Objects {
		if err := o.Validate(); err != nil {
			return fmt.Errorf("checkpoints: object %d: %w", i, err)
		}
		if i > 0 && c.Objects[i-1].Object.Name >= o.Object.Name {
			return fmt.Errorf("checkpoints: object %d is out of order", i)
		}
		if !slices.IsSorted(o.Stores) || len(slices.Compact(slices.Clone(o.Stores))) != len(o.Stores) {
			return fmt.Errorf("checkpoints: the stores of object %d are out of order", i)
		}
	}
	for i, name := range c.Deleting {
		if i > 0 && c.Deleting[i-1] >= name || Object(c, name) == nil {
			return fmt.Errorf("checkpoints: deletion %d is out of order, or of no object", i)
		}
	}
	return errors.Join(checkCompleted(c), checkRest(c))
}

func checkCompleted(c *jobpb.Checkpoints) error {
	last := uint64(0)
	for _, d := range c.Completed {
		if d == nil || d.Id <= last || d.Id >= c.Next || d.Base >= d.Id {
			return fmt.Errorf("checkpoints: completed %d after %d, next is %d, base %d", d.GetId(), last, c.Next, d.GetBase())
		}
		last = d.Id
		if err := d.Manifest.Validate(); err != nil {
			return fmt.Errorf("checkpoints: manifest of %d: %w", d.Id, err)
		}
		if !slices.IsSorted(d.Objects) || !slices.Contains(d.Objects, d.Manifest.Name) {
			return fmt.Errorf("checkpoints: objects of %d are out of order, or lack the manifest", d.Id)
		}
		for _, name := range d.Objects {
			if _, doomed := slices.BinarySearch(c.Deleting, name); doomed || Object(c, name) == nil {
				return fmt.Errorf("checkpoints: object %.200q of %d is not there, or is being deleted", name, d.Id)
			}
		}
	}
	if c.Confirmed >= c.Next {
		return fmt.Errorf("checkpoints: output of %d is confirmed, next is %d", c.Confirmed, c.Next)
	}
	return nil
}

func checkRest(c *jobpb.Checkpoints) error {
	if s := c.Started; s != nil {
		if s.Id == 0 || s.Id >= c.Next || s.Id <= Newest(c).GetId() || s.Base != Newest(c).GetId() {
			return fmt.Errorf("checkpoints: %d is under way with base %d, completed is %d, next %d", s.Id, s.Base, Newest(c).GetId(), c.Next)
		}
		for _, r := range s.Regions {
			if r == nil {
				return errors.New("checkpoints: a region is missing")
			}
		}
	}
	for _, r := range c.History {
		if r == nil || r.Id >= c.Next {
			return errors.New("checkpoints: an entry of the history is missing, or of a checkpoint that was not started")
		}
	}
	for _, r := range c.Wanted {
		if r == nil || !Asked(r.Kind) {
			return errors.New("checkpoints: a request is missing, or of no savepoint")
		}
	}
	return nil
}
