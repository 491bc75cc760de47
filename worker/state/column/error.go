package column

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/snapshot/chunk"
)

// Codes of failures of keyed state (docs/errors.md).
const (
	CodeSize     = "E140" // a value, with its key, is larger than can be stored
	CodeCodec    = "E141" // a key or value cannot be encoded or decoded
	CodeOverflow = "E142" // the overflow of the state failed
	CodeFit      = "E143" // a snapshot does not fit the operator
	CodeCorrupt  = "E144" // a chunk is damaged
	CodeDeclare  = "E145" // a state is declared wrongly
)

// Error is a failure of keyed state, with its place. It ends the attempt.
type Error struct {
	Code     string
	Operator string // empty: unknown here
	State    string // empty: none in particular
	Key      string // for people; empty: none in particular
	Err      error
}

func (e *Error) Error() string {
	s := e.Code + ":"
	if e.Operator != "" {
		s += " operator " + e.Operator + ","
	}
	if e.State != "" {
		s += fmt.Sprintf(" state %q,", e.State)
	}
	if e.Key != "" {
		s += " key " + e.Key + ","
	}
	return s[:len(s)-1] + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// maxKeyText bounds a key in an error, in bytes.
const maxKeyText = 200

// KeyText is a key for people.
func KeyText(k any) string {
	s := fmt.Sprintf("%v", k)
	if len(s) > maxKeyText {
		s = fmt.Sprintf("%s… (%d bytes)", s[:maxKeyText], len(s))
	}
	return s
}

// Fault gives an error its place. An error that has one is left as it is.
func (t *Table) Fault(code, state string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	e := &Error{Code: code, Operator: t.opts.Operator, State: state, Err: err}
	switch {
	case isSize(err):
		e.Code = CodeSize
	case errors.Is(err, chunk.ErrCorrupt):
		e.Code = CodeCorrupt
	}
	return e
}

func isSize(err error) bool {
	_, ok := errors.AsType[*chunk.SizeError](err)
	return ok
}

// FaultAt is Fault for a unit of a row.
func (t *Table) FaultAt(code, state string, row uint32, err error) error {
	err = t.Fault(code, state, err)
	if e, ok := err.(*Error); ok && e.Key == "" {
		e.Key = t.keys.Text(row)
	}
	return err
}

// UnknownStateError is state in a chunk that the operator does not declare.
type UnknownStateError struct{ Name string }

func (e *UnknownStateError) Error() string {
	return fmt.Sprintf("the snapshot has a state %q that the operator does not declare", e.Name)
}
