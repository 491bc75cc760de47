package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sluiceio/sluice/coordinator/placement"
	"github.com/sluiceio/sluice/coordinator/rollout"
	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/supply"
	"github.com/sluiceio/sluice/coordinator/tally"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// want is what a job needs for the regions that may have slots now: as many of them, lowest first, as there is room for.
type want struct {
	room    int // that was looked at
	regions []wantRegion
	kept    map[int]string // slots that the job holds where its next attempts can be put
	own     map[string]int // by worker: slots that the job holds where they should rather not be put
}

type wantRegion struct {
	index int32
	slots int
	fresh []int // slots without a place
}

// lookPast is how many regions that do not fit are looked past for one that does.
const lookPast = 16

// queue puts a job in the queue for slots if regions of it may have some now.
func (l *Leader) queue(j *job, facts *state.Job) {
	l.awaitBackOff(j, facts)
	if !l.anyReady(j, facts) {
		l.unwait(j)
		return
	}
	l.allot = true
	if !j.waits {
		j.waits, j.since, j.want = true, waitsSince(facts), nil
		i, _ := slices.BinarySearchFunc(l.waiting, j, byAge)
		l.waiting = slices.Insert(l.waiting, i, j)
	}
}

// awaitBackOff has the job looked at again when the next of its regions has waited out its back-off.
func (l *Leader) awaitBackOff(j *job, facts *state.Job) {
	next := int64(0)
	for r := range j.resting { // any order: the least
		if us := facts.Region(r).RestartAtUs; !l.rests(facts, r) {
			delete(j.resting, r)
		} else if next == 0 || us < next {
			next = us
		}
	}
	if next > 0 {
		l.wakeAt(j, time.UnixMicro(next))
	}
}

// rests reports whether a region waits out its back-off. The others of its job go on meanwhile.
func (l *Leader) rests(facts *state.Job, region int32) bool {
	us := facts.Region(region).RestartAtUs
	return us > 0 && l.now.Before(time.UnixMicro(us))
}

func (l *Leader) anyReady(j *job, facts *state.Job) bool {
	for range l.ready(j, facts) {
		return true
	}
	return false
}

// ready calls yield with the regions that may be scheduled, lowest first. By default these are the ones whose stored
// inputs can all be read, so that a region that waits for results holds no slot: two jobs never wait for each other. Eager
// jobs want all or nothing, and wait only for workers that have not come back yet.
func (l *Leader) ready(j *job, facts *state.Job) func(yield func(int32) bool) {
	if j.rollout.Mode != rollout.Eager {
		return func(yield func(int32) bool) {
			for r := range j.supply.Ready() {
				if l.stopped(j, r) && !l.rests(facts, r) && !yield(r) {
					return
				}
			}
		}
	}
	return func(yield func(int32) bool) {
		for r := range j.supply.Waiting() {
			if !l.stopped(j, r) || l.rests(facts, r) || j.supply.Lacks(r) && j.supply.Count(supply.Away) > 0 {
				return
			}
		}
		for r := range j.supply.Waiting() {
			if !yield(r) {
				return
			}
		}
	}
}

// wants finds the slots that the ready regions need: of as many regions as there is room for, and the first in any case.
func (l *Leader) wants(j *job, facts *state.Job, room int) *want {
	if j.want != nil && j.want.room >= room {
		return j.want
	}
	w := &want{room: room, kept: map[int]string{}, own: map[string]int{}}
	j.want = w
	fresh := map[int]bool{}
	past := 0
	for r := range l.ready(j, facts) {
		n, ok := l.wantOf(j, facts, w, r, fresh)
		if !ok {
			continue
		}
		w.regions = append(w.regions, n)
		for _, s := range n.fresh {
			fresh[s] = true
		}
		if len(fresh) > room {
			past++
		}
		if past > lookPast && j.rollout.Mode != rollout.Eager {
			break
		}
	}
	return w
}

// wantOf finds the slots of one region, and which of them have no place. It is not ok while attempts of another region are
// in one of them whose worker takes no more: their end is on its way into the facts.
func (l *Leader) wantOf(j *job, facts *state.Job, w *want, r int32, fresh map[int]bool) (n wantRegion, ok bool) {
	n.index = r
	own := map[int]int{} // by slot: attempts of the region itself that have not ended
	var slots []int
	for t := range glance.Subtasks(facts, r) {
		j.visits++
		slot := facts.SlotOf(t.Chain, t.Index)
		if _, seen := own[slot]; !seen {
			slots = append(slots, slot)
			own[slot] = 0
		}
		if tally.Acts(t.State) {
			own[slot]++
		}
	}
	slices.Sort(slots)
	n.slots = len(slots)
	for _, slot := range slots {
		if _, known := w.kept[slot]; known {
			continue
		}
		shared := facts.InSlot(slot) > own[slot] // attempts of other regions run in it, so it cannot move
		id, _, held := facts.Grant(slot)
		held = held && l.usable(id) != nil && !l.soft[id].facts.Draining
		if shared && !held {
			return n, false
		}
		if held && !j.avoids(id, l.now) || shared {
			w.kept[slot] = id
			continue
		}
		if held && !fresh[slot] {
			w.own[id]++
			l.wakeAt(j, j.trouble[id].last.Add(troubleMemory))
		}
		n.fresh = append(n.fresh, slot)
	}
	return n, true
}

// returnSlots gives back the slots of regions that wait for results: those that make the results may need them, and so may
// other jobs. It is looked for after every restart; only then does a job hold slots in which nothing acts.
func (l *Leader) returnSlots(j *job, facts *state.Job) {
	if j.counts.Idle() == 0 || j.rollout.Mode == rollout.Eager || j.supply.Count(supply.Away) > 0 {
		return // whoever holds the results may be back in a moment; then it is looked for again
	}
	keep := make([]bool, facts.Slots())
	for t := range facts.Subtasks() {
		waits := j.supply.Waits(t.Region) && j.supply.Lacks(t.Region)
		if !waits && facts.Region(t.Region).Status != jobpb.RegionStatus_REGION_FINISHED {
			keep[facts.SlotOf(t.Chain, t.Index)] = true
		}
	}
	var idle []int32
	for i := range keep {
		if _, _, held := facts.Grant(i); held && !keep[i] && facts.InSlot(i) == 0 {
			idle = append(idle, int32(i))
		}
	}
	if len(idle) > 0 {
		l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_ReleaseSlots{ReleaseSlots: &commandpb.ReleaseSlots{
			Job: j.id, JobEpoch: facts.Epoch(), Slots: idle,
		}}}, &flight{})
	}
}

// byAge is first come, first served.
func byAge(a, b *job) int {
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.number, b.number))
}

// waitsSince is when the job began to want its slots: a fact, so that a new leader keeps the order.
func waitsSince(facts *state.Job) time.Time {
	if h := facts.History(); len(h) > 0 {
		return time.UnixMicro(h[len(h)-1].TimeUs)
	}
	return time.UnixMicro(facts.Head().CreatedUs)
}

func (l *Leader) unwait(j *job) {
	if !j.waits {
		return
	}
	j.waits, j.want = false, nil
	if i, ok := slices.BinarySearchFunc(l.waiting, j, byAge); ok {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
}

// candidates are the workers on which a job may be put, in the order of their ids, and their slots in all.
func (l *Leader) candidates(j *job) (cs []placement.Worker, total int) {
	for f := range l.v.Workers() {
		if w := l.usable(f.Id); w != nil && !f.Draining && glance.Suits(l.v, l.v.Job(j.id), f) {
			total += int(f.Slots)
			cs = append(cs, placement.Worker{ID: w.id, Free: max(0, int(f.Slots)-l.v.UsedSlots(f.Id)-l.lanes.Taken(f.Id)), Held: int(j.counts.Held(f.Id))})
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
		facts := l.v.Job(j.id)
		w := l.wants(j, facts, free)
		if len(w.regions) == 0 {
			continue // something about it has changed, and it will be looked at
		}
		room := free
		if first != nil {
			room = 0
		}
		if w.least() <= room {
			cs, _ := l.candidates(j)
			if first != nil {
				for i := range cs {
					cs[i].Free = 0
				}
			}
			if regions, places := l.choose(j, facts, cs); len(regions) > 0 {
				free = max(0, free-l.scheduleRegions(j, facts, regions, places))
				continue
			}
		}
		switch {
		case first != nil:
			l.lacks(j, facts, "waits behind "+first.id+", which has waited for longer")
		case l.lacks(j, facts, l.lackText(j, facts, free)) && j.needs() <= total:
			first = j
		}
	}
}

// least is the smallest number of free slots with which some region of a job can be scheduled.
func (w *want) least() int {
	least := len(w.regions[0].fresh)
	for _, r := range w.regions {
		least = min(least, len(r.fresh))
	}
	for _, n := range w.own {
		least -= n
	}
	return least
}

// needs is the number of slots without which nothing more of a job runs: of its first region, or of all together.
func (j *job) needs() int {
	if j.rollout.Mode != rollout.Eager {
		return j.want.regions[0].slots
	}
	all := map[int]bool{}
	for _, r := range j.want.regions {
		for _, s := range r.fresh {
			all[s] = true
		}
	}
	return len(j.want.kept) + len(all)
}

// freeSlots counts the slots of workers that can take attempts: those that are free, and all.
func (l *Leader) freeSlots() (free, total int) {
	for f := range l.v.Workers() {
		if l.usable(f.Id) != nil && !f.Draining {
			free += max(0, int(f.Slots)-l.v.UsedSlots(f.Id)-l.lanes.Taken(f.Id))
			total += int(f.Slots)
		}
	}
	return free, total
}

// choose takes as many regions as fit, in order, and finds a worker for each of their slots.
func (l *Leader) choose(j *job, facts *state.Job, cs []placement.Worker) (regions []int32, places map[int]string) {
	free, kind := 0, make([]placement.Worker, 0, len(cs))
	for i, c := range cs {
		if !j.avoids(c.ID, l.now) {
			kind = append(kind, c)
		}
		cs[i].Free += j.want.own[c.ID] // better there than nowhere
		free += cs[i].Free
	}
	var slots []placement.Slot
	taken := map[int]bool{}
	for _, r := range j.want.regions {
		more := slices.DeleteFunc(slices.Clone(r.fresh), func(s int) bool { return taken[s] })
		if len(slots)+len(more) > free {
			continue
		}
		regions = append(regions, r.index)
		slots = append(slots, l.slotsOf(j, facts, r.index, more)...)
		for _, s := range more {
			taken[s] = true
		}
	}
	whole := len(j.want.own) > 0 || j.rollout.Mode == rollout.Eager // what moves gives its old slots back only if it moves as a whole
	if whole && len(regions) < len(j.want.regions) {
		return nil, nil
	}
	kindFree := 0
	for _, c := range kind {
		kindFree += c.Free
	}
	if kindFree >= len(slots) {
		cs = kind
	}
	return regions, placement.Choose(slots, cs)
}

// slotsOf says of slots of a region that need a place where its subtasks ran before, and where their inputs lie.
func (l *Leader) slotsOf(j *job, facts *state.Job, region int32, numbers []int) []placement.Slot {
	slots := make([]placement.Slot, len(numbers))
	at := make(map[int]*placement.Slot, len(numbers))
	for i, s := range numbers {
		slots[i].Number, at[s] = s, &slots[i]
	}
	for t := range glance.Subtasks(facts, region) {
		s := at[facts.SlotOf(t.Chain, t.Index)]
		if s == nil {
			continue
		}
		if t.Attempt > 0 && s.Previous == "" {
			s.Previous = t.Worker
		}
		for _, e := range facts.Layout().In(t.Chain) {
			s.Inputs = placement.Merge(s.Inputs, j.supply.Bytes(e, t.Index))
		}
	}
	return slots
}

// scheduleRegions proposes the grant and returns how many free slots it takes.
func (l *Leader) scheduleRegions(j *job, facts *state.Job, regions []int32, places map[int]string) int {
	c := &commandpb.ScheduleRegions{Job: j.id, JobEpoch: facts.Epoch(), Regions: glance.Epochs(facts, regions)}
	takes := map[string]int{}
	for _, id := range places {
		takes[id]++
	}
	for _, r := range regions {
		for t := range glance.Subtasks(facts, r) {
			slot := facts.SlotOf(t.Chain, t.Index)
			id, ok := places[slot]
			if !ok {
				id = j.want.kept[slot]
			}
			c.Assignments = append(c.Assignments, &commandpb.Assignment{Chain: t.Chain, Index: t.Index, Worker: id, Incarnation: l.v.Worker(id).GetIncarnation()})
		}
	}
	l.unwait(j)
	j.stuck = time.Time{}
	l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_ScheduleRegions{ScheduleRegions: c}}, &flight{Takes: takes, Calm: true})
	return len(places)
}

// lacks says what a job waits for, and reports whether it has waited for so long that what is free has to be kept for
// it. A job that has held slots for too long in which nothing runs, while it lacks others, gives them back.
func (l *Leader) lacks(j *job, facts *state.Job, message string) (aged bool) {
	since, idle := j.since, len(j.want.own) // slots that it could give back
	for _, r := range j.want.regions {
		if at := time.UnixMicro(facts.Region(r.index).RestartAtUs); at.After(since) {
			since = at
		}
	}
	for slot := range j.want.kept { // any order: counted
		if facts.InSlot(slot) == 0 {
			idle++
		}
	}
	if idle > 0 {
		if at := since.Add(l.cfg.HoldTimeout); l.now.Before(at) {
			l.wakeAt(j, at)
		} else {
			l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_HoldJob{HoldJob: &commandpb.HoldJob{
				Job: j.id, JobEpoch: facts.Epoch(), Message: message, Release: true,
			}}}, &flight{})
			return false
		}
	}
	if j.stuck.IsZero() {
		j.stuck = l.now
	}
	if at := j.stuck.Add(refreshHold); facts.Active() > 0 && l.now.Before(at) {
		l.wakeAt(j, at) // what runs may end and make room: nothing to tell about yet
	} else if l.mayHold(j, facts) {
		l.hold(j, facts, message)
	}
	return !l.now.Before(since.Add(l.cfg.Ageing))
}

// lackText says which slots are missing.
func (l *Leader) lackText(j *job, facts *state.Job, free int) string {
	_, total := l.candidates(j)
	who := fmt.Sprintf("region %d", j.want.regions[0].index)
	if j.rollout.Mode == rollout.Eager {
		who = "the whole job"
	}
	needs := glance.Counted(j.needs(), "slot")
	if total == 0 {
		return fmt.Sprintf("%s needs %s, and no worker that can run it: %s", who, needs, glance.Lack(l.v, facts))
	}
	for _, n := range j.want.own {
		free += n
	}
	if j.rollout.Mode == rollout.Eager {
		free += len(j.want.kept)
	} else {
		free += j.want.regions[0].slots - len(j.want.regions[0].fresh)
	}
	return fmt.Sprintf("%s needs %s, %d free of %d", who, needs, free, total)
}

// refreshHold is how long the message stands that says what a job waits for.
const refreshHold = 30 * time.Second

// mayHold reports whether it is time to say what a job waits for. Numbers change all the time, so only the first message
// is prompt.
func (l *Leader) mayHold(j *job, facts *state.Job) bool {
	return (facts.Head().Message == "" || l.now.Sub(j.heldAt) >= refreshHold) && !l.busy(jobLane+j.id)
}

// hold records what a job waits for.
func (l *Leader) hold(j *job, facts *state.Job, message string) {
	if facts.Head().Message == message || !l.mayHold(j, facts) {
		return
	}
	j.heldAt = l.now
	l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_HoldJob{HoldJob: &commandpb.HoldJob{
		Job: j.id, JobEpoch: facts.Epoch(), Message: message,
	}}}, &flight{})
}
