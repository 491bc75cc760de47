package rollout

import "time"

// Told is the newest attempt of a subtask that a session knows of.
type Told struct {
	Attempt uint32
	Session uint64 // serial
	At      time.Time
}

// ToldList is by position; it is made when the first attempt is known.
type ToldList []Told

// Put notes what was told.
func (l *ToldList) Put(size, pos int, t Told) {
	if len(*l) != size {
		*l = make(ToldList, size)
	}
	(*l)[pos] = t
}

// Knows reports whether the session has been told of the attempt, or told of it.
func (l ToldList) Knows(pos int, attempt uint32, session uint64) bool {
	return pos < len(l) && l[pos].Attempt == attempt && l[pos].Session == session
}
