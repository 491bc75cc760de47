package schedule

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// want is what a job needs to schedule the regions that wait: computed when the job was compared with the world, so that
// a look at the queue costs nothing per subtask.
type want struct {
	regions []wantRegion
	kept    map[int]string // slots that the job holds where its next attempts can be put
	own     map[string]int // by worker: slots that the job holds where they should rather not be put
	slots   int            // of all regions
}

type wantRegion struct {
	index int32
	fresh []int // slots without a place
}

// wait puts a job in the queue for slots if regions of it wait for them and may have them now.
func (l *Leader) wait(j *job, facts *state.Job, s *survey) {
	var ready []int32
	for _, r := range s.pending {
		if l.stopped(j, s, r) {
			ready = append(ready, r)
		}
	}
	if us := facts.Head().RestartAtUs; us > 0 && l.now.Before(timeOf(us)) {
		l.wakeAt(j, timeOf(us))
		ready = nil
	}
	if len(ready) == 0 {
		l.unwait(j)
		return
	}
	j.want = l.wants(j, facts, ready)
	l.allot = true
	if !j.waits {
		j.waits, j.since = true, waitsSince(facts)
		i, _ := slices.BinarySearchFunc(l.waiting, j, byAge)
		l.waiting = slices.Insert(l.waiting, i, j)
	}
}

// wants finds the slots that regions need.
func (l *Leader) wants(j *job, facts *state.Job, regions []int32) want {
	w := want{kept: map[int]string{}, own: map[string]int{}}
	in := make([]int, len(facts.Plan().Regions)) // index into w.regions, from 1
	for _, r := range regions {
		w.regions = append(w.regions, wantRegion{index: r})
		in[r] = len(w.regions)
	}
	shared := make([]bool, facts.Slots()) // attempts of other regions run in it, so it cannot move
	for t := range facts.Subtasks() {
		if in[t.Region] == 0 && acts(t.State) {
			shared[facts.SlotOf(t.Chain, t.Index)] = true
		}
	}
	seen := make([]int, facts.Slots()) // newest region that needs it, from 1
	for t := range facts.Subtasks() {
		i, slot := in[t.Region], 0
		if i > 0 {
			slot = facts.SlotOf(t.Chain, t.Index)
		}
		if i == 0 || seen[slot] == i {
			continue
		}
		first := seen[slot] == 0
		if first {
			w.slots++
		}
		seen[slot] = i
		id, _, held := facts.Grant(slot)
		held = held && l.usable(id) != nil && !l.soft[id].facts.Draining
		if held && !j.avoids(id, l.now) || shared[slot] {
			w.kept[slot] = id
			continue
		}
		if held && first {
			w.own[id]++
			l.wakeAt(j, j.trouble[id].last.Add(troubleMemory))
		}
		w.regions[i-1].fresh = append(w.regions[i-1].fresh, slot)
	}
	return w
}

// byAge is first come, first served.
func byAge(a, b *job) int {
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.number, b.number))
}

// waitsSince is when the job began to want its slots: a fact, so that a new leader keeps the order.
func waitsSince(facts *state.Job) time.Time {
	if h := facts.History(); len(h) > 0 {
		return timeOf(h[len(h)-1].TimeUs)
	}
	return timeOf(facts.Head().CreatedUs)
}

func (l *Leader) unwait(j *job) {
	if !j.waits {
		return
	}
	j.waits = false
	if i, ok := slices.BinarySearchFunc(l.waiting, j, byAge); ok {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
}

// candidate is a worker that can take more of a job.
type candidate struct {
	w    *worker
	free int
}

// candidates are the workers on which a job may be put, in the order of their ids, and their slots in all.
func (l *Leader) candidates(j *job) (cs []candidate, total int) {
	for f := range l.v.Workers() {
		if w := l.usable(f.Id); w != nil && !f.Draining && l.suits(j, f) {
			total += int(f.Slots)
			cs = append(cs, candidate{w: w, free: max(0, int(f.Slots)-l.v.UsedSlots(f.Id)-l.taken[f.Id])})
		}
	}
	return cs, total
}

// allocate gives free slots to the jobs that wait for them: first come, first served. A job that does not fit is
// overtaken by younger ones that do, until it has waited for too long; then what is free is kept for it. One that could
// not run on the empty cluster either holds up nobody. A restarting job that needs no more than it holds waits for
// nobody: what it holds can be what the first one waits for.
func (l *Leader) allocate() {
	if !l.allot || !l.gathered() {
		return // while workers gather, each Step looks again
	}
	l.allot = false
	free, total := l.freeSlots()
	var first *job // what is free is kept for it
	for _, j := range slices.Clone(l.waiting) {
		if l.busy(jobLane + j.id) {
			continue
		}
		room := free
		if first != nil {
			room = 0
		}
		if l.least(j) <= room {
			cs, _ := l.candidates(j)
			if first != nil {
				for i := range cs {
					cs[i].free = 0
				}
			}
			if regions, places := l.choose(j, cs); len(regions) > 0 {
				free = max(0, free-l.scheduleRegions(j, regions, places))
				continue
			}
		}
		facts := l.v.Job(j.id)
		switch {
		case first != nil:
			l.lacks(j, facts, "waits behind "+first.id+", which has waited for longer")
		case l.lacks(j, facts, l.lackText(j, facts, free)) && j.want.slots <= total:
			first = j
		}
	}
}

// least is the smallest number of free slots with which some region of a job can be scheduled.
func (l *Leader) least(j *job) int {
	least := len(j.want.regions[0].fresh)
	for _, r := range j.want.regions {
		least = min(least, len(r.fresh))
	}
	for _, n := range j.want.own {
		least -= n
	}
	return least
}

// freeSlots counts the slots of workers that can take attempts: those that are free, and all.
func (l *Leader) freeSlots() (free, total int) {
	for f := range l.v.Workers() {
		if l.usable(f.Id) != nil && !f.Draining {
			free += max(0, int(f.Slots)-l.v.UsedSlots(f.Id)-l.taken[f.Id])
			total += int(f.Slots)
		}
	}
	return free, total
}

// choose takes as many regions as fit, in order, and finds a worker for each of their slots.
func (l *Leader) choose(j *job, cs []candidate) (regions []int32, places map[int]string) {
	free, kind := 0, make([]candidate, 0, len(cs))
	for i, c := range cs {
		if !j.avoids(c.w.id, l.now) {
			kind = append(kind, c)
		}
		cs[i].free += j.want.own[c.w.id] // better there than nowhere
		free += cs[i].free
	}
	fresh := map[int]bool{}
	var order []int
	for _, r := range j.want.regions {
		more := slices.DeleteFunc(slices.Clone(r.fresh), func(s int) bool { return fresh[s] })
		if len(order)+len(more) > free {
			continue
		}
		regions = append(regions, r.index)
		order = append(order, more...)
		for _, s := range more {
			fresh[s] = true
		}
	}
	if len(j.want.own) > 0 && len(regions) < len(j.want.regions) {
		return nil, nil // what moves gives its old slots back only if it moves as a whole
	}
	kindFree := 0
	for _, c := range kind {
		kindFree += c.free
	}
	if kindFree >= len(order) {
		cs = kind
	}
	return regions, spread(order, cs)
}

// spread gives each slot to the worker that has most room at that moment, so that load is even.
func spread(slots []int, cs []candidate) map[int]string {
	h := byRoom(slices.Clone(cs))
	heap.Init(&h)
	places := make(map[int]string, len(slots))
	for _, s := range slots {
		places[s] = h[0].w.id
		h[0].free--
		heap.Fix(&h, 0)
	}
	return places
}

// byRoom is a heap: the freest worker first, among equals the lowest id.
type byRoom []candidate

func (h byRoom) Len() int { return len(h) }
func (h byRoom) Less(a, b int) bool {
	return h[a].free > h[b].free || h[a].free == h[b].free && h[a].w.id < h[b].w.id
}
func (h byRoom) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h *byRoom) Push(x any)   { *h = append(*h, x.(candidate)) }
func (h *byRoom) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// scheduleRegions proposes the grant and returns how many free slots it takes.
func (l *Leader) scheduleRegions(j *job, regions []int32, places map[int]string) int {
	facts := l.v.Job(j.id)
	in := make([]bool, len(facts.Plan().Regions))
	for _, r := range regions {
		in[r] = true
	}
	c := &commandpb.ScheduleRegions{Job: j.id, JobEpoch: facts.Epoch(), Regions: regionEpochs(facts, regions)}
	takes := map[string]int{}
	for _, id := range places {
		takes[id]++
	}
	for t := range facts.Subtasks() {
		if !in[t.Region] {
			continue
		}
		slot := facts.SlotOf(t.Chain, t.Index)
		id, ok := places[slot]
		if !ok {
			id = j.want.kept[slot]
		}
		c.Assignments = append(c.Assignments, &commandpb.Assignment{Chain: t.Chain, Index: t.Index, Worker: id, Incarnation: l.v.Worker(id).GetIncarnation()})
	}
	l.unwait(j)
	l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_ScheduleRegions{ScheduleRegions: c}}, &flight{takes: takes})
	return len(places)
}

// lacks says what a job waits for, and reports whether it has waited for so long that what is free has to be kept for
// it. A restarting job that has held slots for too long while it lacks others gives them back.
func (l *Leader) lacks(j *job, facts *state.Job, message string) (aged bool) {
	since := j.since
	if at := timeOf(facts.Head().RestartAtUs); at.After(since) {
		since = at
	}
	if facts.Status() == jobpb.JobStatus_JOB_RESTARTING && len(j.want.kept)+len(j.want.own) > 0 {
		if at := since.Add(l.cfg.HoldTimeout); l.now.Before(at) {
			l.wakeAt(j, at)
		} else {
			l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_HoldJob{HoldJob: &commandpb.HoldJob{
				Job: j.id, JobEpoch: facts.Epoch(), Message: message, Release: true,
			}}}, &flight{})
			return false
		}
	}
	if l.mayHold(j, facts) {
		l.hold(j, facts, message)
	}
	return !l.now.Before(since.Add(l.cfg.Ageing))
}

// lackText says which slots are missing.
func (l *Leader) lackText(j *job, facts *state.Job, free int) string {
	_, total := l.candidates(j)
	if total == 0 {
		return fmt.Sprintf("needs %d slots, and no worker that can run it: %s", j.want.slots, l.lack(facts))
	}
	for _, n := range j.want.own {
		free += n
	}
	return fmt.Sprintf("needs %d slots, %d free of %d", j.want.slots, free+len(j.want.kept), total)
}

// mayHold reports whether it is time to say what a job waits for. Numbers change all the time, so only the first message
// is prompt.
func (l *Leader) mayHold(j *job, facts *state.Job) bool {
	const refresh = 30 * time.Second
	return (facts.Head().Message == "" || l.now.Sub(j.held) >= refresh) && !l.busy(jobLane+j.id)
}

// hold records what a job waits for.
func (l *Leader) hold(j *job, facts *state.Job, message string) {
	if facts.Head().Message == message || !l.mayHold(j, facts) {
		return
	}
	j.held = l.now
	l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_HoldJob{HoldJob: &commandpb.HoldJob{
		Job: j.id, JobEpoch: facts.Epoch(), Message: message,
	}}}, &flight{})
}
