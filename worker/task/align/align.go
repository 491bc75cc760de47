package align

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// StaleAfter is how long what was heard of other processes counts: longer than the change of a leader takes, and short enough
// that a job without a leader goes on.
const StaleAfter = 10 * time.Second

// Groups are the alignment groups of one process.
type Groups struct {
	now func() time.Time

	mu struct {
		sync.Mutex
		byName map[string]*group
	}
}

// group has members, or what was heard of it is of no use.
type group struct {
	members []*Member
	far     element.Time // of the other processes; MaxTime: none of their splits is active
	heard   time.Time    // when that was said; zero: never
}

// New has no groups. now is the clock by which things become old.
func New(now func() time.Time) *Groups {
	g := &Groups{now: now}
	g.mu.byName = map[string]*group{}
	return g
}

// Member is a reader that belongs to a group.
type Member struct {
	groups *Groups
	name   string
	wake   func()

	// Guarded by Groups.mu.
	at   element.Time // the lowest watermark of its active splits; MaxTime: it has none
	need element.Time // it waits until the group stands there; MaxTime: it does not wait
}

// Join adds a reader to a group. wake is called when what it waits for has happened.
func (g *Groups) Join(name string, wake func()) *Member {
	m := &Member{groups: g, name: name, wake: wake, at: element.MaxTime, need: element.MaxTime}
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.mu.byName[name]
	if of == nil {
		of = &group{far: element.MaxTime}
		g.mu.byName[name] = of
	}
	of.members = append(of.members, m)
	return m
}

// Leave ends the membership. It may be repeated.
func (m *Member) Leave() {
	g := m.groups
	g.mu.Lock()
	var woken []func()
	if of := g.mu.byName[m.name]; of != nil {
		of.members = slices.DeleteFunc(of.members, func(o *Member) bool { return o == m })
		woken = of.due(g.now())
		if len(of.members) == 0 {
			delete(g.mu.byName, m.name)
		}
	}
	g.mu.Unlock()
	rouse(woken)
}

// Stand says where the reader stands, MaxTime if it has no active split, and returns where its group does: MaxTime if nobody
// holds it.
func (m *Member) Stand(at element.Time) element.Time {
	g := m.groups
	g.mu.Lock()
	of := g.mu.byName[m.name]
	if of == nil { // it has left
		g.mu.Unlock()
		return element.MaxTime
	}
	grows := at > m.at
	m.at = at
	now := g.now()
	var woken []func()
	if grows {
		woken = of.due(now)
	}
	stand := of.stand(now)
	g.mu.Unlock()
	rouse(woken)
	return stand
}

// Wait has the reader woken when its group stands at need or further. False: it does already. Otherwise again is when to ask
// once more: nobody wakes it when what was heard of others, now or later, has become old.
func (m *Member) Wait(need element.Time) (again time.Time, wait bool) {
	g := m.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	m.need = element.MaxTime
	of, now := g.mu.byName[m.name], g.now()
	if of == nil || of.stand(now) >= need {
		return again, false
	}
	m.need = need
	if of.fresh(now) {
		return of.heard.Add(StaleAfter), true
	}
	return now.Add(StaleAfter), true
}

// Tell is where the members of this process stand, by name: MaxTime if none of a group has an active split.
func (g *Groups) Tell() []*taskpb.GroupClock {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]*taskpb.GroupClock, 0, len(g.mu.byName))
	for name, of := range g.mu.byName {
		out = append(out, &taskpb.GroupClock{Group: name, WatermarkUs: int64(of.near())})
	}
	slices.SortFunc(out, func(a, b *taskpb.GroupClock) int { return cmp.Compare(a.Group, b.Group) })
	return out[:min(len(out), taskpb.MaxGroups)]
}

// Hear takes what the leader says of the other processes. A group that is missing has no active split there.
func (g *Groups) Hear(far []*taskpb.GroupClock) {
	stands := make(map[string]element.Time, len(far))
	for _, c := range far {
		stands[c.Group] = element.Time(c.WatermarkUs)
	}
	g.mu.Lock()
	now := g.now()
	var woken []func()
	for name, of := range g.mu.byName {
		of.far, of.heard = element.MaxTime, now
		if at, said := stands[name]; said {
			of.far = at
		}
		woken = append(woken, of.due(now)...)
	}
	g.mu.Unlock()
	rouse(woken)
}

func rouse(woken []func()) {
	for _, wake := range woken {
		wake()
	}
}

// near is where the members stand.
func (of *group) near() element.Time {
	at := element.MaxTime
	for _, m := range of.members {
		at = min(at, m.at)
	}
	return at
}

func (of *group) fresh(now time.Time) bool {
	return !of.heard.IsZero() && now.Sub(of.heard) < StaleAfter
}

// stand is where the group stands.
func (of *group) stand(now time.Time) element.Time {
	if of.fresh(now) {
		return min(of.near(), of.far)
	}
	return of.near()
}

// due are those who have waited for what is so now.
func (of *group) due(now time.Time) (woken []func()) {
	stand := of.stand(now)
	for _, m := range of.members {
		if m.need != element.MaxTime && m.need <= stand {
			m.need = element.MaxTime
			woken = append(woken, m.wake)
		}
	}
	return woken
}
