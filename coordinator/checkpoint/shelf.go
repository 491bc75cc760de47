package checkpoint

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Shelf keeps the objects of one job in order: what a kept checkpoint needs has its copies, what none needs is removed, and the facts
// say where everything is. It compares the facts with what stores say, so a message that is lost costs time and nothing else.
type Shelf struct {
	broom  Broom
	asked  map[string]time.Time    // by object: a store was asked for a copy
	placed map[place]*jobpb.Object // said by stores, not in the facts yet
	lost   map[place]bool          // likewise

	// A job is looked at with every report of its subtasks: what has not changed is not compared again.
	seen  *jobpb.Checkpoints
	heard bool      // a store has said something since
	quiet time.Time // until then
	again time.Time // what the last look asked for; zero: nothing
}

// place is an object in a store.
type place struct{ name, store string }

// Stores are the stores of the cluster as a leader sees them.
type Stores struct {
	Reaches func(store string) bool // it can be spoken to
	Known   func(store string) bool // what lay on a worker that nobody remembers is not waited for
	Holds   func(store string) bool // it is alive, or was a moment ago
	// Targets can take copies, in order of preference; Addresses tell where the stores of objects answer.
	Targets   []*taskpb.StoreAddress
	Addresses func(objects ...*jobpb.StoredObject) []*taskpb.StoreAddress
}

// Order is a message to a store.
type Order struct {
	Store   string
	Message *controlpb.CoordinatorMessage
}

// Upkeep is what a Shelf wants done.
type Upkeep struct {
	Orders  []Order
	Command *commandpb.Command // nil: none
	Again   time.Time          // when to look again; zero: when the facts change or a store says something
}

const (
	// lookAgain is how long nothing is compared while the facts are the same: workers come and go meanwhile.
	lookAgain = 5 * time.Second
	// copyAgain is the pause before another store is asked for a copy that did not come.
	copyAgain = 30 * time.Second
	// mostCopies is how many copies are under way at once for a job.
	mostCopies = 200
)

// Heard takes what a store says has changed in it.
func (s *Shelf) Heard(store string, r *controlpb.ObjectsReport) {
	s.heard = true
	s.broom.Gone(store, r.Deleted)
	s.broom.Gone(snapshot.SharedStore, r.Deleted)
	for _, o := range r.Stored {
		s.found(store, o)
	}
	for _, name := range r.Damaged {
		s.missed(store, name)
	}
}

func (s *Shelf) found(store string, o *jobpb.Object) {
	if s.placed == nil {
		s.placed = map[place]*jobpb.Object{}
	}
	p := place{o.Name, store}
	s.placed[p] = o
	delete(s.lost, p)
}

func (s *Shelf) missed(store, name string) {
	s.heard = true
	if s.lost == nil {
		s.lost = map[place]bool{}
	}
	p := place{name, store}
	s.lost[p] = true
	delete(s.placed, p)
}

// Inventory takes the names of everything that a store has, at the begin of a session with it, and finds what the facts say besides.
// A copy that came while the inventory was on its way may be missed; then it is asked for once more, and found.
func (s *Shelf) Inventory(c *jobpb.Checkpoints, store string, has map[string]bool) {
	for _, o := range c.GetObjects() {
		if !has[o.Object.Name] && slices.Contains(o.Stores, store) {
			s.missed(store, o.Object.Name)
		}
	}
}

// Step says what is missing. copies is how many each object should have.
func (s *Shelf) Step(job string, c *jobpb.Checkpoints, copies int, now time.Time, w Stores) (u Upkeep) {
	if c == s.seen && !s.heard && now.Before(s.quiet) && (s.again.IsZero() || now.Before(s.again)) {
		return Upkeep{Again: s.again}
	}
	s.seen, s.heard, s.quiet = c, false, now.Add(lookAgain)
	sweep := s.broom.Step(c, now, func(store string) (can, known bool) { return w.Reaches(store), w.Known(store) })
	u.Again = sweep.Again
	for _, store := range slices.Sorted(maps.Keys(sweep.Ask)) {
		for owner, names := range byOwner(sweep.Ask[store]) { // in any order: a store hears of each job by itself
			u.Orders = append(u.Orders, Order{store, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_DeleteObjects{
				DeleteObjects: &controlpb.DeleteObjects{Job: owner, Names: names},
			}}})
		}
	}
	s.copy(c, copies, now, w, &u)
	if u.Command = s.command(job, c, sweep); u.Command != nil {
		u.Again = earlier(u.Again, s.quiet) // it may be void
	}
	s.again = u.Again
	return u
}

// byOwner groups names by the job that made the objects: a job that began with a checkpoint of another one has objects of that.
func byOwner(names []string) map[string][]string {
	owners := map[string][]string{}
	for _, n := range names {
		if p, err := snapshot.Name(n).Parse(); err == nil {
			owners[p.Job] = append(owners[p.Job], n)
		}
	}
	return owners
}

// copy asks for copies of what has too few. An object without a live copy is not lost yet: its store may come back.
func (s *Shelf) copy(c *jobpb.Checkpoints, copies int, now time.Time, w Stores, u *Upkeep) {
	need := ledger.Needed(c)
	orders := map[string]map[string][]*jobpb.StoredObject{} // by target and owner
	under := 0
	for i, o := range c.GetObjects() {
		name := o.Object.Name
		live := 0
		for _, store := range o.Stores {
			if w.Holds(store) && !s.lost[place{name, store}] {
				live++
			}
		}
		if !need[name] || live == 0 || live >= copies || slices.Contains(o.Stores, snapshot.SharedStore) {
			delete(s.asked, name)
			continue
		}
		if under++; under > mostCopies {
			break
		}
		again := s.asked[name].Add(copyAgain)
		if now.Before(again) {
			u.Again = earlier(u.Again, again)
			continue
		}
		target := pick(o, w.Targets, i)
		if target == "" {
			u.Again = earlier(u.Again, now.Add(copyAgain)) // a worker may come
			continue
		}
		if s.asked == nil {
			s.asked = map[string]time.Time{}
		}
		s.asked[name] = now
		u.Again = earlier(u.Again, now.Add(copyAgain))
		if p, err := snapshot.Name(name).Parse(); err == nil {
			if orders[target] == nil {
				orders[target] = map[string][]*jobpb.StoredObject{}
			}
			orders[target][p.Job] = append(orders[target][p.Job], o)
		}
	}
	for _, target := range slices.Sorted(maps.Keys(orders)) {
		for owner, objects := range orders[target] { // in any order: a store hears of each job by itself
			u.Orders = append(u.Orders, Order{target, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_CopyObjects{
				CopyObjects: &controlpb.CopyObjects{Job: owner, Objects: objects, Stores: w.Addresses(objects...)},
			}}})
		}
	}
}

// pick is a target that does not have the object. Objects take turns, so that all targets get their share.
func pick(o *jobpb.StoredObject, targets []*taskpb.StoreAddress, turn int) string {
	for _, t := range Rotated(targets, uint64(turn)) {
		if !slices.Contains(o.Stores, t.Store) {
			return t.Store
		}
	}
	return ""
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// command is the one thing that the facts lack most: where objects are, before what may be forgotten and deleted.
func (s *Shelf) command(job string, c *jobpb.Checkpoints, sweep Sweep) *commandpb.Command {
	m := &commandpb.PlaceObjects{Job: job}
	for p, o := range s.placed { // in any order: sorted below
		switch known := ledger.Object(c, p.name); {
		case known == nil || slices.Contains(known.Stores, p.store):
			delete(s.placed, p)
		default:
			m.Placed = append(m.Placed, &jobpb.StoredObject{Object: o, Stores: []string{p.store}})
		}
	}
	for p := range s.lost { // in any order: sorted below
		switch known := ledger.Object(c, p.name); {
		case known == nil || !slices.Contains(known.Stores, p.store):
			delete(s.lost, p)
		default:
			m.Lost = append(m.Lost, &jobpb.StoredObject{Object: known.Object, Stores: []string{p.store}})
		}
	}
	m.Placed, m.Lost = ordered(m.Placed), ordered(m.Lost)
	switch {
	case len(m.Placed)+len(m.Lost) > 0:
		return &commandpb.Command{Command: &commandpb.Command_PlaceObjects{PlaceObjects: m}}
	case len(sweep.Forget) > 0:
		return &commandpb.Command{Command: &commandpb.Command_ForgetObjects{ForgetObjects: &commandpb.ForgetObjects{Job: job, Names: sweep.Forget}}}
	case len(sweep.Plan) > 0:
		return &commandpb.Command{Command: &commandpb.Command_DeleteObjects{DeleteObjects: &commandpb.DeleteObjects{Job: job, Names: sweep.Plan}}}
	}
	return nil
}

// ordered sorts, and cuts to what a command may have.
func ordered(objects []*jobpb.StoredObject) []*jobpb.StoredObject {
	slices.SortFunc(objects, func(a, b *jobpb.StoredObject) int {
		return cmp.Or(cmp.Compare(a.Object.Name, b.Object.Name), cmp.Compare(a.Stores[0], b.Stores[0]))
	})
	return objects[:min(len(objects), mostNames)]
}
