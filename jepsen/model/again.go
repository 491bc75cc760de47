package model

// State is a set of states in which a subtask may be.
type State uint8

const (
	// Waiting for its first or next attempt.
	Waiting State = 1 << iota
	// Acting: it has an attempt that has not finished.
	Acting
	// Finished, with all that it stores.
	Finished
)

// Moment is what is known of a job when something is lost.
type Moment struct {
	States []State // by subtask
	// Fails: the attempt cannot go on, by subtask. Unreadable: what the subtask has stored cannot be read.
	Fails, Unreadable []bool
}

// May are the subtasks that may run again.
func (n *Plan) May(m Moment) []bool { return n.again(m, func(s, of State) bool { return s&of != 0 }) }

// Must are those that run again whatever the states are.
func (n *Plan) Must(m Moment) []bool { return n.again(m, func(s, of State) bool { return s&^of == 0 }) }

// again finds the least set of subtasks, whole regions of them, such that
//
//   - who fails is in it, and who has stored something that cannot be read and that a reader wants which has not finished;
//   - whoever makes what a member reads, and cannot, is in it;
//   - a reader of a member is in it if it acts: it has read a part of what is made again;
//   - a reader of a member that has finished is in it if it might have got other records: the routing from the member is not
//     reproducible, or what the member itself reads has changed.
//
// A subtask that waits is never in it: it has no attempt. But what it will read may have changed by then.
func (n *Plan) again(m Moment, is func(s, of State) bool) []bool {
	in, changed := make([]bool, len(n.Subtasks)), make([]bool, len(n.Subtasks))
	mark := func(set []bool, i int) (grown bool) {
		for _, k := range n.Together(i) {
			grown = grown || !set[k]
			set[k] = true
		}
		return grown
	}
	for i := range n.Subtasks {
		if m.Fails[i] && is(m.States[i], Acting) {
			mark(in, i)
		}
	}
	for grown := true; grown; {
		grown = false
		for _, l := range n.stored {
			lost := m.Unreadable[l.from] && is(m.States[l.from], Finished)
			wanted := is(m.States[l.to], Waiting|Acting) || in[l.to]
			if lost && wanted && !in[l.from] {
				grown = mark(in, l.from) || grown
			}
			affected := Acting
			if changed[l.from] || in[l.from] && !l.stable {
				grown = !changed[l.to] && mark(changed, l.to) || grown
				affected |= Finished
			}
			if (in[l.from] || changed[l.from]) && is(m.States[l.to], affected) && !in[l.to] {
				grown = mark(in, l.to) || grown
			}
		}
	}
	return in
}
