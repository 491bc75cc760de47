package stored

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// Codes of errors that a user can do something about.
const (
	CodeWrite = "E120" // a result cannot be written: disk full, read-only, broken
	CodeLost  = "E121" // a stored result is missing, short or corrupt
	CodeLink  = "E122" // the worker that holds a stored result cannot be reached
	CodeAsked = "E123" // a read that makes no sense: another plan, another version
)

// ErrLost matches every *LostError.
var ErrLost = errors.New("stored result is lost")

// ErrVoid says that a position belongs to another attempt than the one that is to be read.
var ErrVoid = errors.New("position of another attempt")

// LostError says that a partition cannot be read any more. Its producer has to run again.
type LostError struct {
	Name  partition.Name
	Cause error
	// Also are others that whoever found this one has looked for and found to be lost as well.
	Also []partition.Name
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("%s: %s: %v", CodeLost, e.Name, e.Cause)
	if n := len(e.Also); n > 0 {
		s += fmt.Sprintf(" (and %d more that are wanted here cannot be read, among them the %s)", n, e.Also[0])
	}
	return s
}

func (e *LostError) Unwrap() []error { return []error{ErrLost, e.Cause} }

// LinkError says that the worker that holds a partition did not answer within the connect timeout. The partition may
// be sound.
type LinkError struct {
	Name  partition.Name
	Where string // worker and address
	Cause error
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("%s: %s on %s: %v", CodeLink, e.Name, e.Where, e.Cause)
}

func (e *LinkError) Unwrap() error { return e.Cause }

// WriteError says that the disk did not take a result.
type WriteError struct {
	Path  string
	Bytes int64 // asked for by the operation that failed; 0: none
	Cause error
}

func (e *WriteError) Error() string {
	if e.Bytes == 0 {
		return fmt.Sprintf("%s: %s: %v", CodeWrite, e.Path, e.Cause)
	}
	return fmt.Sprintf("%s: %s: %d bytes were asked for: %v", CodeWrite, e.Path, e.Bytes, e.Cause)
}

func (e *WriteError) Unwrap() error { return e.Cause }

// AskedError says that a read was refused as senseless: the two sides do not have the same plan or version.
type AskedError struct {
	Name  partition.Name
	Cause error
}

func (e *AskedError) Error() string { return fmt.Sprintf("%s: %s: %v", CodeAsked, e.Name, e.Cause) }

func (e *AskedError) Unwrap() error { return e.Cause }
