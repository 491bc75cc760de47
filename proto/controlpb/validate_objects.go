package controlpb

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// maxObjects bounds the objects that one message names.
const maxObjects = 1 << 16

// validate checks what a worker says of its store.
func (r *ObjectsReport) validate() error {
	if r == nil {
		return errors.New("empty")
	}
	if err := errors.Join(required("job", r.Job), checkNames("deleted", r.Deleted), checkNames("damaged", r.Damaged)); err != nil {
		return err
	}
	return checkObjects("stored", r.Stored)
}

func (i *ObjectInventory) validate() error {
	if i == nil {
		return errors.New("empty")
	}
	if err := required("job", i.Job); err != nil {
		return err
	}
	return checkObjects("objects", i.Objects)
}

// validate checks a plan of deletion.
func (d *DeleteObjects) validate() error {
	if d == nil {
		return errors.New("empty")
	}
	return errors.Join(required("job", d.Job), checkNames("names", d.Names))
}

// validate checks an order to copy.
func (c *CopyObjects) validate() error {
	if c == nil {
		return errors.New("empty")
	}
	if len(c.Objects) > maxObjects {
		return fmt.Errorf("%d objects", len(c.Objects))
	}
	for i, o := range c.Objects {
		if err := o.Validate(); err != nil {
			return fmt.Errorf("objects[%d]: %w", i, err)
		}
	}
	return required("job", c.Job)
}

func checkObjects(field string, all []*jobpb.Object) error {
	if len(all) > maxObjects {
		return fmt.Errorf("%s: %d objects", field, len(all))
	}
	for i, o := range all {
		if err := o.Validate(); err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
	}
	return nil
}

func checkNames(field string, names []string) error {
	if len(names) > maxObjects {
		return fmt.Errorf("%s: %d names", field, len(names))
	}
	for i, n := range names {
		if err := jobpb.CheckObjectName(n); err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
	}
	return nil
}
