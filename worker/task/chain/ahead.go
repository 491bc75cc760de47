package chain

// ahead is what LookAhead was told.
type ahead struct {
	most int
	f    any // func([]T)
}

// LookAhead has f called with the records that are pushed into the input next, at most so many of them, before the first one
// is: none is left out, none comes in between, unless the attempt fails. It is called while the stage of the input is built,
// and serves operators that can prepare for many records at less than they cost one by one. Where records do not come in
// batches, as between two operators of one chain, f is never called.
func LookAhead[T any](rt *Runtime, most int, f func(next []T)) {
	if rt.ahead == nil {
		rt.ahead = map[int]ahead{}
	}
	rt.ahead[rt.input] = ahead{most, f}
}

// Building says whose stage is built next.
func (rt *Runtime) Building(input int) { rt.input = input }

// AheadOf is what LookAhead was told for an input whose records have this type; most is 0 if it was not called.
func AheadOf[T any](rt *Runtime, input int) (most int, f func([]T)) {
	a := rt.ahead[input]
	if f, ok := a.f.(func([]T)); ok {
		return a.most, f
	}
	return 0, nil
}
