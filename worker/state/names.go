package state

import (
	"github.com/sluiceio/sluice/worker/state/column"
	"github.com/sluiceio/sluice/worker/state/epoch"
)

// What stands in the packages below, under the names by which operators know it.
type (
	// Options of a directory.
	Options = column.Options
	// Option is what a state may be declared with.
	Option = column.Option
	// Decode reads a value from the front of some bytes.
	Decode = column.Decode
	// Value is one value per key.
	Value[V any] = column.Value[V]
	// List is a list per key.
	List[V any] = column.List[V]
	// Map is a map per key.
	Map[M comparable, V any] = column.Map[M, V]
	// Stats counts what has moved between memory and the overflow.
	Stats = column.Stats
	// Error is a failure of keyed state, with its place.
	Error = column.Error
	// UnknownStateError is state in a chunk that the operator does not declare.
	UnknownStateError = column.UnknownStateError
	// Snapshot writes the state as of a barrier into chunks, step by step.
	Snapshot = epoch.Snapshot
	// Part is a finished chunk of a snapshot.
	Part = epoch.Part
	// Extent is what a snapshot holds.
	Extent = epoch.Extent
)

const (
	// Delta: what has changed since the newest checkpoint that is known to be completed, with tombstones.
	Delta = epoch.Delta
	// Full: everything. A directory that has moved something out of memory answers with a Delta.
	Full = epoch.Full
)

// ErrAborted is the error of a snapshot whose checkpoint was given up.
var ErrAborted = epoch.ErrAborted

// Codes of failures; package column explains them.
const (
	CodeCodec    = column.CodeCodec
	CodeOverflow = column.CodeOverflow
	CodeFit      = column.CodeFit
	CodeCorrupt  = column.CodeCorrupt
	CodeDeclare  = column.CodeDeclare
)

// DecodeOf is a Decode for values of a type that is known.
func DecodeOf[V any](f func(src []byte, v *V) ([]byte, error)) Decode { return column.DecodeOf(f) }

// ValueOf declares a value state.
func ValueOf[V any, K comparable](d *Directory[K], name string, opts ...Option) (*Value[V], error) {
	return column.NewValue[V](&d.t, name, opts...)
}

// ListOf declares a list state.
func ListOf[V any, K comparable](d *Directory[K], name string, opts ...Option) (*List[V], error) {
	return column.NewList[V](&d.t, name, opts...)
}

// MapOf declares a map state.
func MapOf[M comparable, V any, K comparable](d *Directory[K], name string, opts ...Option) (*Map[M, V], error) {
	return column.NewMap[M, V](&d.t, name, opts...)
}
