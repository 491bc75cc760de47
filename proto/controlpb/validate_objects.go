package controlpb

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// maxObjects bounds the objects that one message names.
const maxObjects = 1 << 17

// checkObject checks what is said of an object; what its name means is checked by whoever uses it (package snapshot).
func checkObject(o *jobpb.Object) error {
	if o == nil || o.Name == "" || len(o.Name) > jobpb.MaxText || o.Size < 0 || len(o.Digest) != 0 && len(o.Digest) != jobpb.DigestBytes {
		return fmt.Errorf("object %.200q of %d bytes with a digest of %d", o.GetName(), o.GetSize(), len(o.GetDigest()))
	}
	return nil
}

func checkObjects(field string, list []*jobpb.Object) error {
	if len(list) > maxObjects {
		return fmt.Errorf("%s: %d, at most %d", field, len(list), maxObjects)
	}
	for i, o := range list {
		if err := checkObject(o); err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
	}
	return nil
}

func checkNames(field string, names []string) error {
	if len(names) > maxObjects {
		return fmt.Errorf("%s: %d, at most %d", field, len(names), maxObjects)
	}
	for i, n := range names {
		if n == "" || len(n) > jobpb.MaxText {
			return fmt.Errorf("%s[%d]: %d bytes", field, i, len(n))
		}
	}
	return nil
}

func (o *ObjectInventory) validate() error {
	return errors.Join(required("job", o.GetJob()), checkObjects("objects", o.GetObjects()))
}

// Validate checks what has changed in a worker's store.
func (r *ObjectsReport) Validate() error {
	return errors.Join(required("job", r.GetJob()), checkNames("deleted", r.GetDeleted()), checkObjects("stored", r.GetStored()), checkNames("damaged", r.GetDamaged()))
}

// Validate checks a plan of deletion.
func (d *DeleteObjects) Validate() error {
	return errors.Join(required("job", d.GetJob()), checkNames("names", d.GetNames()))
}

// Validate checks what is to be copied.
func (c *CopyObjects) Validate() error {
	if err := required("job", c.GetJob()); err != nil {
		return err
	}
	for i, o := range c.Objects {
		if err := errors.Join(checkObject(o.GetObject()), checkNames("stores", o.GetStores())); err != nil {
			return fmt.Errorf("objects[%d]: %w", i, err)
		}
	}
	for i, s := range c.Stores {
		if s == nil || len(s.Store) > maxID || len(s.Address) > maxID {
			return fmt.Errorf("stores[%d]: missing or too long", i)
		}
	}
	return nil
}
