package snapshot

import (
	"errors"
	"fmt"
)

// Codes of errors that a user can do something about.
const (
	CodeWrite   = "E151" // a store cannot write
	CodeDamaged = "E152" // an object is damaged
	CodeRead    = "E153" // the newest completed checkpoint cannot be read
	CodeFormat  = "E154" // a snapshot is of another job, of a newer format, or incomplete
)

// Errors of stores and snapshots, for errors.Is.
var (
	// ErrNotFound is the error of an object that a store does not have.
	ErrNotFound = errors.New("no such object")
	// ErrExists is the error of a name that stands for other content already.
	ErrExists = errors.New("the object exists with other content")
	// ErrDamaged matches every *DamagedError.
	ErrDamaged = errors.New("object is damaged")
)

// WriteError says that a store did not take an object.
type WriteError struct {
	Where string // path or address
	Bytes int64  // asked for; 0: none
	Cause error
}

func (e *WriteError) Error() string {
	if e.Bytes == 0 {
		return fmt.Sprintf("%s: %s: %v", CodeWrite, e.Where, e.Cause)
	}
	return fmt.Sprintf("%s: %s: %d bytes were asked for: %v", CodeWrite, e.Where, e.Bytes, e.Cause)
}

func (e *WriteError) Unwrap() error { return e.Cause }

// DamagedError says that an object is there and is not what was written.
type DamagedError struct {
	Name  Name
	Where string // store, path or address; may be empty
	Cause error  // what differs
}

func (e *DamagedError) Error() string {
	where := ""
	if e.Where != "" {
		where = " in " + e.Where
	}
	return fmt.Sprintf("%s: %s%s: %v", CodeDamaged, e.Name, where, e.Cause)
}

func (e *DamagedError) Unwrap() []error { return []error{ErrDamaged, e.Cause} }

// FormatError says that a snapshot cannot be used by this program, or for this job, although its bytes are intact.
type FormatError struct{ Cause error }

func (e *FormatError) Error() string { return fmt.Sprintf("%s: snapshot: %v", CodeFormat, e.Cause) }

func (e *FormatError) Unwrap() error { return e.Cause }

func unfit(format string, args ...any) error { return &FormatError{Cause: fmt.Errorf(format, args...)} }

// ReadError says that the newest completed checkpoint of a job cannot be read. Nothing older is taken in its place.
type ReadError struct {
	Checkpoint uint64
	Cause      error
}

func (e *ReadError) Error() string {
	return fmt.Sprintf("%s: checkpoint %d cannot be read: %v", CodeRead, e.Checkpoint, e.Cause)
}

func (e *ReadError) Unwrap() error { return e.Cause }
