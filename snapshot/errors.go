package snapshot

import (
	"errors"
	"fmt"
)

// Codes of what can be wrong with a snapshot.
const (
	CodeStore   = "E151" // a store cannot write
	CodeDamaged = "E152" // an object is damaged
	CodeForeign = "E154" // of another job, of a newer format, or incomplete
)

// ErrNotFound is the error of an object that a store does not have.
var ErrNotFound = errors.New("no such object")

// StoreError is a store that cannot write: the checkpoint fails, the job goes on.
type StoreError struct {
	Place string // path or address
	Bytes int64  // asked for; 0: unknown
	Err   error
}

func (e *StoreError) Error() string {
	if e.Bytes == 0 {
		return fmt.Sprintf("snapshot store %s cannot write: %v", e.Place, e.Err)
	}
	return fmt.Sprintf("snapshot store %s cannot write %d bytes: %v", e.Place, e.Bytes, e.Err)
}

func (e *StoreError) Unwrap() error { return e.Err }

// DamagedError is an object whose bytes are not those that were written.
type DamagedError struct {
	Name  Name
	Place string // of the store
	What  string // what differs
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("object %s at %s is damaged: %s", e.Name, e.Place, e.What)
}

// ForeignError is a manifest that is whole and cannot be used.
type ForeignError struct {
	What string
	Hint string
}

func (e *ForeignError) Error() string { return e.What }
