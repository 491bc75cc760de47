package codec

import (
	"errors"
	"fmt"
)

// ErrCorrupt is wrapped by every error of decoding: the bytes are not what a codec of this schema writes.
var ErrCorrupt = errors.New("corrupt encoding")

// CustomError says that a type's own code (UnmarshalBinary, a registered Codec) refused bytes that it has written itself. The
// bytes may be sound all the same: reading them again, or writing them again, ends in the same way.
type CustomError struct{ Err error }

func (e *CustomError) Error() string { return e.Err.Error() }

func (e *CustomError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }

// Codes of plan-time errors.
const (
	CodeBadKey    = "E007" // the type cannot be a key
	CodeNoCodec   = "E008" // the type cannot be encoded
	CodeMigration = "E009" // stored bytes cannot be read into the type of today
)

// TypeError says which part of a type has no place in a codec, a key or a migration.
type TypeError struct {
	Code   string
	Path   string // from the type's name to the part, like Order.Items[].Price
	Reason string
	Hint   string // what to do; may be empty
}

func (e *TypeError) Error() string {
	s := fmt.Sprintf("%s: %s: %s", e.Code, e.Path, e.Reason)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}
