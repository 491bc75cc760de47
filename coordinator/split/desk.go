package split

import (
	"maps"
	"slices"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/tally"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Desk of one source: who asked for splits and has no answer, and how far readers have come.
type Desk struct {
	requests map[int32]*Request // by subtask
	read     map[int32]progress // by subtask
	run      run
}

// Request of a reader that has Have splits.
type Request struct {
	Worker  string
	Process uint64
	Index   int32
	Attempt uint32
	Epoch   uint64 // of the reader's region
	Have    int
	Read    int // of those that it has: read to their end
	told    bool
}

// progress is how many of its splits an attempt has read to their end.
type progress struct {
	attempt uint32
	read    int
}

// run is a range of splits of one phase.
type run struct {
	first, end int
	known      int    // splits that were known when it was found
	epoch      uint64 // of the enumeration
	more       bool   // splits of a higher phase follow
}

// NewDesk has no requests.
func NewDesk() *Desk { return &Desk{requests: map[int32]*Request{}, read: map[int32]progress{}} }

// Ask takes a question. The newest one of a reader counts: it knows best what it has.
func (d *Desk) Ask(r Request) {
	d.requests[r.Index] = &r
	d.read[r.Index] = progress{r.Attempt, r.Read}
}

// Asked reports whether somebody waits for an answer.
func (d *Desk) Asked() bool { return len(d.requests) > 0 }

// Answer to a request: the reader's splits beyond those that it has, as indexes.
type Answer struct {
	Request Request
	Splits  []int32
	End     bool // no more will come
}

// Settling says whether an earlier assignment is still on its way into the facts.
type Settling bool

// Serve answers what the facts allow to answer, and says what should become a fact, so that more can be.
//
// A reader of an endless source for which there is nothing is told so: it has no end to wait for, and would hold up the
// clock of all others.
func (d *Desk) Serve(facts *state.Job, src *state.Source, settling Settling) (answers []Answer, assign []*jobpb.SplitAssignment) {
	next, end := src.Assigned(), d.free(facts, src)
	last := src.Complete() && src.Assigned() == src.Len()
	for _, index := range slices.Sorted(maps.Keys(d.requests)) {
		q := d.requests[index]
		t := facts.Subtask(src.Chain(), index)
		mine := src.Of(index)
		switch {
		case t.Attempt != q.Attempt || facts.Region(t.Region).Epoch != q.Epoch || !tally.Acts(t.State):
			delete(d.requests, index) // it is over
			continue
		case q.Have > len(mine):
			delete(d.requests, index) // it claims more than it was given; whatever it is, it is not for this leader to answer
			continue
		case q.Have < len(mine) || last:
			delete(d.requests, index)
			answers = append(answers, Answer{*q, mine[q.Have:], last})
			continue
		}
		n := d.share(src, index, end-next)
		for range n {
			assign = append(assign, &jobpb.SplitAssignment{Subtask: index, Attempt: t.Attempt, Split: int32(next)})
			next++
		}
		if n == 0 && !bool(settling) && !q.told && !src.Bounded() && src.Len() > 0 {
			q.told = true
			answers = append(answers, Answer{Request: *q})
		}
	}
	if settling {
		return answers, nil
	}
	return answers, assign
}

// free is the end of the splits that may be given out now; they begin with the first that has no owner. Of a bounded
// source none before all are known, so that who reads what does not depend on how the enumerator's messages came in. Those of
// a phase only when all splits of lower phases have been read to their end.
func (d *Desk) free(facts *state.Job, src *state.Source) int {
	next := src.Assigned()
	if src.Bounded() && !src.Complete() || next == src.Len() {
		return next
	}
	if next >= d.run.end || next < d.run.first || d.run.known != src.Len() || d.run.epoch != src.RegionEpoch() {
		d.run = findRun(src, next)
	}
	phase := src.Split(next).Phase
	if next == d.run.first && next > 0 && src.Split(next-1).Phase < phase && !d.readBelow(facts, src, phase) {
		return next
	}
	return d.run.end
}

// findRun finds the splits around one of them that have the same phase.
func findRun(src *state.Source, at int) run {
	r := run{first: at, end: at + 1, known: src.Len(), epoch: src.RegionEpoch()}
	phase := src.Split(at).Phase
	for r.first > 0 && src.Split(r.first-1).Phase == phase {
		r.first--
	}
	for r.end < src.Len() && src.Split(r.end).Phase == phase {
		r.end++
	}
	r.more = r.end < src.Len() && src.Split(r.end).Phase > phase
	return r
}

// readBelow reports whether every reader has read its splits of lower phases. It reads them in the order of assignment.
func (d *Desk) readBelow(facts *state.Job, src *state.Source, phase int32) bool {
	for i := range int32(src.Readers()) {
		below := 0
		for k, x := range src.Of(i) {
			if src.Split(int(x)).Phase < phase {
				below = k + 1
			}
		}
		t := facts.Subtask(src.Chain(), i)
		if below > 0 && t.State != jobpb.SubtaskState_SUBTASK_FINISHED && (d.read[i].attempt != t.Attempt || d.read[i].read < below) {
			return false
		}
	}
	return true
}

// share is how many of the free splits a reader gets at once. Of an input that ends, or of a phase that another follows,
// a few, so that whoever is fast gets more; fewer round trips while there are many. Of an endless one its fair part for
// good.
func (d *Desk) share(src *state.Source, index int32, free int) int {
	readers := src.Readers()
	if src.Bounded() || d.run.more {
		const most = 64
		return min(free, max(1, min(most, free/(4*readers))))
	}
	fair := (d.run.end - d.run.first + readers - 1) / readers
	for _, x := range src.Of(index) {
		if int(x) >= d.run.first {
			fair--
		}
	}
	return max(0, min(free, fair))
}
