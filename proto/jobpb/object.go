package jobpb

import (
	"errors"
	"fmt"
)

// Bounds of stored objects.
const (
	MaxObjectName = 512 // bytes
	MaxStores     = 64  // of one object
	MaxEnumerator = 1 << 20
)

// Validate checks a name that was stored once and for all. The digest is optional: inventories have none.
func (o *Object) Validate() error {
	switch {
	case o == nil:
		return errors.New("object: missing")
	case o.Size < 0:
		return fmt.Errorf("object %.200q: %d bytes", o.Name, o.Size)
	case len(o.Digest) != 0 && len(o.Digest) != DigestBytes:
		return fmt.Errorf("object %.200q: digest of %d bytes, not %d", o.Name, len(o.Digest), DigestBytes)
	}
	return CheckObjectName(o.Name)
}

// CheckObjectName reports why a text is no name of an object: names become paths, so what is in them is bounded.
func CheckObjectName(name string) error {
	if name == "" || len(name) > MaxObjectName {
		return fmt.Errorf("object: a name of %d bytes, not 1…%d", len(name), MaxObjectName)
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' || name[i] == '\\' {
			return fmt.Errorf("object: %.200q has a character that no name has", name)
		}
	}
	for start, i := 0, 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		switch name[start:i] {
		case "", ".", "..":
			return fmt.Errorf("object: %.200q is no relative path", name)
		}
		start = i + 1
	}
	return nil
}

// Validate checks an object and the names of its stores.
func (o *StoredObject) Validate() error {
	if o == nil {
		return errors.New("object: missing")
	}
	if len(o.Stores) > MaxStores {
		return fmt.Errorf("object %.200q: %d stores, at most %d", o.Object.GetName(), len(o.Stores), MaxStores)
	}
	for _, s := range o.Stores {
		if s == "" {
			return fmt.Errorf("object %.200q: a store without a name", o.Object.GetName())
		}
		if err := checkText("object.stores", s, MaxName); err != nil {
			return err
		}
	}
	return o.Object.Validate()
}
