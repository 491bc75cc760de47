package main

import "github.com/sluiceio/sluice/flow"

// Standing is what is known of a user.
type Standing struct {
	Premium bool
	Blocked []int64 // items
}

// Change is a record of the third input: what holds for a user from a time on.
type Change struct {
	User     int64
	At       flow.Time
	Standing Standing
}

// Of is the key.
func (c Change) Of() int64 { return c.User }

// Time is the event time.
func (c Change) Time() flow.Time { return c.At }

// Request is what is to be ranked, and for whom.
type Request struct {
	Candidates Candidates
	Standing   Standing
}

// asOf joins candidates with the standing of their user as it was at their time. JoinLatest would take what has arrived; here
// candidates wait until the watermark says that nothing earlier is to come, so that the order of arrival does not count.
type asOf struct {
	standings flow.MapState[flow.Time, Standing] // by the time from which they hold
	waiting   flow.MapState[flow.Time, Candidates]
	due       flow.EventTimers
}

// Open declares the state.
func (j *asOf) Open(s *flow.Setup[int64, Request]) error {
	j.standings = s.Map[flow.Time, Standing]("standings")
	j.waiting = s.Map[flow.Time, Candidates]("waiting")
	j.due = s.EventTimers("due", j.join)
	return nil
}

// ProcessA lets candidates wait for their time. There are one or none for a user and a window.
func (j *asOf) ProcessA(c *flow.Ctx[int64, Request], v Candidates) error {
	j.waiting.Put(c.Timestamp(), v)
	j.due.Add(c.Timestamp())
	return nil
}

// ProcessB takes over a change.
func (j *asOf) ProcessB(_ *flow.Ctx[int64, Request], v Change) error {
	j.standings.Put(v.At, v.Standing)
	return nil
}

// join is called when all changes up to at have come. Those before the one that holds are of no use any more.
func (j *asOf) join(c *flow.Ctx[int64, Request], at flow.Time) error {
	holds := flow.MinTime
	for from := range j.standings.All() {
		if from <= at {
			holds = max(holds, from)
		}
	}
	standing, _ := j.standings.Get(holds)
	for from := range j.standings.All() {
		if from < holds {
			j.standings.Delete(from)
		}
	}
	if v, ok := j.waiting.Get(at); ok {
		c.Emit(Request{v, standing})
		j.waiting.Delete(at)
	}
	return nil
}
