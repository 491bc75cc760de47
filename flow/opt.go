package flow

// Opt is a value that may be missing: the other side of an outer join.
type Opt[T any] struct {
	Value T // the zero value if it is missing
	OK    bool
}

// Some is an Opt that is there.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Get is the value, and whether it is there.
func (o Opt[T]) Get() (v T, ok bool) { return o.Value, o.OK }

// Or is the value, or otherwise if it is missing.
func (o Opt[T]) Or(otherwise T) T {
	if o.OK {
		return o.Value
	}
	return otherwise
}
