package timer

import (
	"errors"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/epoch"
)

// statePrefix keeps the names of timers apart from those of other states.
const statePrefix = "timer/"

// maxTimers bounds the timers of an operator: their number is one byte of a key in the index.
const maxTimers = 256

// Deadline is a deadline as it is stored.
type Deadline struct {
	At element.Time
	// Seq is the number of its setting.
	Seq uint64
	// Cover is the number of the setting that has an entry in the index at or before At.
	Cover uint64
}

// Service is the timers of one operator of one subtask.
type Service[K comparable] struct {
	d      *state.Directory[K]
	timers []armed
	event  clock
	proc   clock
	seq    uint64 // of the last setting
	final  uint64 // settings below this number are called at the end of the input, also when they move; 0: it has not come
	key    []byte // scratch: number of the timer, encoded key
	popped []byte
}

// clock is one of the two.
type clock struct {
	index *index
	gone  []bag // by segment: entries that were removed
	stale int   // entries whose deadline has changed, about
	sweep int   // bucket that is cleaned next
}

// armed is a timer or a set of timers, as the sweep sees it. The key is current.
type armed interface {
	// due reports whether the entry is the deadline, which is gone then; again is the time and number at which the entry
	// has to come up again, if it was postponed.
	due(at element.Time, seq uint64) (due bool, again *Deadline)
	// stale reports whether the entry does not count any more.
	stale(at element.Time, seq uint64) bool
	fire(at element.Time) error
}

// New makes a service without timers, before the first record.
func New[K comparable](d *state.Directory[K]) *Service[K] {
	s := &Service[K]{d: d}
	for _, c := range []*clock{&s.event, &s.proc} {
		c.index = newIndex(d.Meter(), d.Overflow())
		c.gone = make([]bag, 1)
		d.Relieve(c.index.relieve)
	}
	d.Follow((*member[K])(s))
	return s
}

// Event declares a timer by event time, one deadline per key. fire is called with the key as the current one.
func (s *Service[K]) Event(name string, fire func(at element.Time) error) (*Timer, error) {
	return s.timer(&s.event, name, chunk.EventTimer, fire)
}

// Proc declares a timer by the clock, one deadline per key.
func (s *Service[K]) Proc(name string, fire func(at element.Time) error) (*Timer, error) {
	return s.timer(&s.proc, name, chunk.ProcTimer, fire)
}

// Events declares a set of timers by event time.
func (s *Service[K]) Events(name string, fire func(at element.Time) error) (*Timers, error) {
	return s.set(&s.event, name, chunk.EventTimers, fire)
}

// Procs declares a set of timers by the clock.
func (s *Service[K]) Procs(name string, fire func(at element.Time) error) (*Timers, error) {
	return s.set(&s.proc, name, chunk.ProcTimers, fire)
}

var errTooMany = errors.New("an operator has at most 256 timers")

// named is the error of a declaration, under the name that the operator has given.
func named(err error, name string) error {
	if e, ok := errors.AsType[*state.Error](err); ok {
		e.State = name
	}
	return err
}

func (s *Service[K]) timer(c *clock, name string, kind chunk.Kind, fire func(element.Time) error) (*Timer, error) {
	if len(s.timers) == maxTimers {
		return nil, &state.Error{Code: state.CodeDeclare, State: name, Err: errTooMany}
	}
	v, err := state.ValueOf[Deadline](s.d, statePrefix+name, state.Option{Kind: kind})
	if err != nil {
		return nil, named(err, name)
	}
	t := &Timer{value: v, call: fire, arm: s.arm(c, len(s.timers)), next: s.next, spoil: func() { c.stale++ }}
	v.OnImport(func(d *Deadline) {
		d.Cover = d.Seq
		s.seq = max(s.seq, d.Seq)
		t.arm(d.At, d.Seq)
	})
	s.timers = append(s.timers, t)
	return t, nil
}

func (s *Service[K]) set(c *clock, name string, kind chunk.Kind, fire func(element.Time) error) (*Timers, error) {
	if len(s.timers) == maxTimers {
		return nil, &state.Error{Code: state.CodeDeclare, State: name, Err: errTooMany}
	}
	m, err := state.MapOf[element.Time, uint64](s.d, statePrefix+name, state.Option{Kind: kind})
	if err != nil {
		return nil, named(err, name)
	}
	t := &Timers{set: m, call: fire, arm: s.arm(c, len(s.timers)), next: s.next, spoil: func() { c.stale++ }}
	m.OnImport(func(at element.Time, seq *uint64) {
		s.seq = max(s.seq, *seq)
		t.arm(at, *seq)
	})
	s.timers = append(s.timers, t)
	return t, nil
}

// next is the number of a setting, in place of old. At the end of the input a deadline that was set before and is moved stays one
// that was set before.
func (s *Service[K]) next(old *Deadline) uint64 {
	if old != nil && old.Seq < s.final {
		return old.Seq
	}
	s.seq++
	return s.seq
}

// arm adds an entry for the current key.
func (s *Service[K]) arm(c *clock, number int) func(at element.Time, seq uint64) {
	return func(at element.Time, seq uint64) {
		key, err := s.d.AppendKey(append(s.key[:0], byte(number)))
		s.key = key
		if err == nil {
			err = c.index.add(entry{at: at, ord: uint64(s.d.KeyGroup())<<seqBits | seq}, key)
		}
		s.d.Fail(err)
	}
}

// AdvanceEvents fires every timer by event time whose deadline is at or before t. stopped ends the sweep, after any call,
// when it returns an error.
func (s *Service[K]) AdvanceEvents(t element.Time, stopped func() error) error {
	return s.advance(&s.event, sweep{until: t, stopped: stopped})
}

// FinishEvents fires every timer by event time, once, at the end of the input. What is set meanwhile is not: no time will pass
// any more, and a timer that sets itself again would never come to an end. A deadline that is only moved meanwhile, by the call of
// another one, still has its turn.
func (s *Service[K]) FinishEvents(stopped func() error) error {
	s.final = s.seq + 1
	err := s.advance(&s.event, sweep{until: element.MaxTime, only: s.final, stopped: stopped})
	s.final = 0
	return err
}

// AdvanceProc fires every timer by the clock whose deadline is at or before now, in microseconds since the Unix epoch.
func (s *Service[K]) AdvanceProc(now element.Time, stopped func() error) error {
	return s.advance(&s.proc, sweep{until: now, stopped: stopped})
}

// NextProc is when AdvanceProc should be called next; it may be earlier than a deadline.
func (s *Service[K]) NextProc() (at element.Time, ok bool) { return s.proc.next(s.d) }

// NextEvent is the next deadline by event time; it may have moved.
func (s *Service[K]) NextEvent() (at element.Time, ok bool) { return s.event.next(s.d) }

func (c *clock) next(d interface{ Fail(error) }) (element.Time, bool) {
	e, _, err := c.index.first()
	d.Fail(err)
	if e == nil {
		return 0, false
	}
	return e.at, true
}

// Len is the number of entries in the index: deadlines, and some that have changed since.
func (s *Service[K]) Len() int { return s.event.index.count + s.proc.index.count }

// sweep is one call of what is due.
type sweep struct {
	until   element.Time
	only    uint64 // settings below this number; 0: all
	stopped func() error
	round
}

// round counts what a sweep fires, to notice that there is no end to it.
type round struct {
	at     element.Time // the time that the sweep has come to
	seq    uint64       // the last setting when it came there
	before int          // set before the sweep
	again  int          // set meanwhile, for a time that the sweep had come to
}

// againFrom and againPer are how many timers may be set for a time that a sweep has come to: so many, and so many for each timer
// that was set before it.
const againFrom, againPer = 1000, 100

// ErrEndless is the failure of a sweep that would not end.
var ErrEndless = errors.New("timers set each other for a time that has come, again and again: there would be no end to it")

// Endless reports whether so many deadlines, set during a sweep for a time that it had come to, are too many beside those that
// were set before.
func Endless(before, again int) bool { return again > againFrom+againPer*before }

// fired counts the timer of the setting seq; last is the last setting so far. A setting counts against the sweep only if it was
// made after the sweep had come to its time: many keys may set timers for one later time, and none of them is a round.
func (r *round) fired(at element.Time, seq, last uint64, meanwhile bool) error {
	switch {
	case !meanwhile:
		r.before++
	case at <= r.at && seq > r.seq:
		if r.again++; Endless(r.before, r.again) {
			return ErrEndless
		}
	}
	if at > r.at {
		r.at, r.seq = at, last
	}
	return nil
}

func (s *Service[K]) advance(c *clock, w sweep) error {
	start := s.seq
	w.at = element.MinTime
	for {
		e, b, err := c.index.first()
		if err != nil {
			s.d.Fail(err)
			return s.d.Err()
		}
		if e == nil || e.at > w.until {
			break
		}
		at, seq := e.at, e.seq()
		key := append(s.popped[:0], b.key(e)...)
		s.popped = key
		s.remove(c, *e, key)
		c.index.pop()
		if err := s.d.SeekEncoded(key[1:]); err != nil {
			return err
		}
		if w.only > 0 && seq >= w.only {
			continue
		}
		x := s.timers[key[0]]
		due, again := x.due(at, seq)
		switch {
		case again != nil:
			s.d.Fail(c.index.add(entry{at: again.At, ord: uint64(s.d.KeyGroup())<<seqBits | again.Seq}, key))
		case !due:
			c.stale = max(c.stale-1, 0)
		default:
			if err := w.fired(at, seq, s.seq, seq > start); err != nil {
				return err
			}
			if err := x.fire(at); err != nil {
				return err
			}
			if err := w.stopped(); err != nil {
				return err
			}
		}
		if err := s.d.Err(); err != nil {
			return err
		}
	}
	return s.clean(c)
}

// remove notes that an entry goes, for a rewind.
func (s *Service[K]) remove(c *clock, e entry, key []byte) {
	if !s.d.Tracking() {
		return
	}
	b := &c.gone[len(c.gone)-1]
	before := b.bytes()
	b.add(e, key)
	s.d.Meter().Add(b.bytes() - before)
}

// cleanFrom is how many entries an index may have, whatever they are worth.
const cleanFrom = 4 * bucketLen

// clean takes entries out of one bucket that do not count any more, if there are many.
func (s *Service[K]) clean(c *clock) error {
	x := c.index
	if x.count < cleanFrom || c.stale*2 < x.count {
		return nil
	}
	c.sweep = (c.sweep + 1) % len(x.buckets)
	b := x.buckets[c.sweep]
	if b.away > 0 {
		return nil
	}
	before := b.bytes()
	kept := &bucket{sorted: b.sorted}
	for _, e := range b.entries[b.head:] {
		key := b.key(&e)
		if err := s.d.SeekEncoded(key[1:]); err != nil {
			return err
		}
		if s.timers[key[0]].stale(e.at, e.seq()) {
			s.remove(c, e, key)
			x.count--
			c.stale = max(c.stale-1, 0)
			continue
		}
		kept.bag.add(e, key)
	}
	x.buckets[c.sweep] = kept
	x.weigh(kept.bytes() - before)
	return nil
}

// Close gives back what the service holds.
func (s *Service[K]) Close() error { return errors.Join(s.event.index.close(), s.proc.index.close()) }

// member is a service in its role as epoch.Member.
type member[K comparable] Service[K]

func (m *member[K]) each(f func(c *clock)) {
	f(&m.event)
	f(&m.proc)
}

// Freeze implements epoch.Member.
func (m *member[K]) Freeze() { m.each(func(c *clock) { c.gone = append(c.gone, bag{}) }) }

// Drop implements epoch.Member.
func (m *member[K]) Drop(n int) {
	m.each(func(c *clock) {
		for i := range c.gone[:n] {
			m.d.Meter().Add(-c.gone[i].bytes())
		}
		c.gone = c.gone[n:]
	})
}

// Merge implements epoch.Member.
func (m *member[K]) Merge(i int) {
	m.each(func(c *clock) {
		before := c.gone[i].bytes() + c.gone[i+1].bytes()
		c.gone[i].append(&c.gone[i+1])
		m.d.Meter().Add(c.gone[i].bytes() - before)
		c.gone = append(c.gone[:i+1], c.gone[i+2:]...)
	})
}

// Rewind implements epoch.Member. What was removed returns; what was added stays, and does not count.
func (m *member[K]) Rewind() {
	m.each(func(c *clock) {
		for i := range c.gone {
			b := &c.gone[i]
			for j := range b.entries {
				m.d.Fail(c.index.add(b.entries[j], b.key(&b.entries[j])))
			}
			m.d.Meter().Add(-b.bytes())
		}
		c.gone = make([]bag, 1)
	})
}

// Sweepers implements epoch.Member: snapshots have the deadlines.
func (m *member[K]) Sweepers(list []epoch.Sweeper) []epoch.Sweeper { return list }
