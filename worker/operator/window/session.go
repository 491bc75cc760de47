package window

import (
	"unsafe"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/table"
	"github.com/sluiceio/sluice/worker/task"
)

// Session aggregates by key and session. It needs Aggregation.Merge.
//
// A record merges the sessions of its key that it meets; whether it is late is judged by the session that comes of it. A
// session that grows does not move in the queue of ends: its entry is compared with it when the entry comes up, and put
// back if the session has grown meanwhile. So a record that only prolongs a session costs no more than one that adds to a
// window.
func Session[K comparable, In, Acc, Out any](spec window.Session, a Aggregation[K, In, Acc, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		c, err := newCommon(rt, out, a)
		if err != nil {
			return nil, nil, err
		}
		o := &sessions[K, In, Acc, Out]{common: c, spec: spec, heads: table.New[K, int32](&rt.Counters.StateBytes)}
		o.open = make([]session[K, Acc], 1) // 0 is no session
		return o.push, o, nil
	}
}

// session is one of a key. Those of a key form a list, in no order: there are few at a time.
type session[K comparable, Acc any] struct {
	win   window.Window
	acc   Acc
	key   K
	next  int32        // of the key; 0: the last one. Of a free place: the next free one
	turn  uint32       // how often the place was used: entries of earlier turns are void
	fired int32        // how often
	due   element.Time // of its entry in the queue: those with another time are void
	waits bool         // it has not ended, or has not fired since
	live  bool
}

// ending is an entry of the queue: at the watermark at, look at the session.
type ending struct {
	at    element.Time
	place int32
	turn  uint32
}

type sessions[K comparable, In, Acc, Out any] struct {
	common[K, In, Acc, Out]
	spec window.Session

	heads *table.Table[K, int32] // first session of a key; 0: it has none
	empty int                    // heads without a session
	open  []session[K, Acc]
	free  int32    // first free place; 0: none
	ends  []ending // a heap, the earliest first
	bytes int64    // of open and ends, as counted
}

func (o *sessions[K, In, Acc, Out]) push(v In) {
	k := o.agg.Key(v)
	h := o.hash(k)
	w := o.spec.Assign(o.rt.At)
	head, fresh := o.heads.Find(k, h)
	i := o.meets(*head, w)
	if i == 0 {
		if o.isLate(w) {
			if fresh {
				o.empty++
			}
			o.drop(v)
			return
		}
		if !fresh && *head == 0 {
			o.empty--
		}
		i = o.add(k, w, head)
		if o.agg.New != nil {
			o.open[i].acc = o.agg.New()
		}
	} else if s := &o.open[i]; !(s.win.Start <= w.Start && w.End <= s.win.End) && !o.grow(i, head, w) {
		o.drop(v)
		return
	}
	s := &o.open[i]
	o.agg.Add(&s.acc, v)
	if s.win.Last() <= o.rt.Watermark { // it has ended, and still takes records
		s.waits = false
		s.fired++
		o.emit(k, Firing{s.win, int(s.fired) - 1}, &s.acc)
	}
}

// meets is the first session of a list that w meets, or 0.
func (o *sessions[K, In, Acc, Out]) meets(i int32, w window.Window) int32 {
	for ; i != 0 && !o.open[i].win.Meets(w); i = o.open[i].next {
	}
	return i
}

// add makes a session.
func (o *sessions[K, In, Acc, Out]) add(k K, w window.Window, head *int32) int32 {
	i := o.free
	if i == 0 {
		i = int32(len(o.open))
		o.open = append(o.open, session[K, Acc]{})
	} else {
		o.free = o.open[i].next
	}
	turn := o.open[i].turn + 1
	o.open[i] = session[K, Acc]{win: w, key: k, next: *head, turn: turn, due: w.Last(), waits: true, live: true}
	*head = i
	o.enqueue(ending{w.Last(), i, turn})
	return i
}

// grow makes session i cover w, and takes over the other sessions that it then meets. It is false, and nothing has
// changed, if what comes of it is over.
func (o *sessions[K, In, Acc, Out]) grow(i int32, head *int32, w window.Window) bool {
	s := &o.open[i]
	cover := s.win.Cover(w)
	for j := o.open[i].next; j != 0; j = o.open[j].next {
		if o.open[j].win.Meets(w) {
			cover = cover.Cover(o.open[j].win)
		}
	}
	if o.isLate(cover) {
		return false
	}
	for {
		j := o.meets(s.next, w)
		if j == 0 {
			break
		}
		other := &o.open[j]
		first, second := s.acc, other.acc
		if other.win.Start < s.win.Start {
			first, second = second, first
		}
		s.acc, s.win, s.fired = o.agg.Merge(first, second), s.win.Cover(other.win), max(s.fired, other.fired)
		o.remove(j, head)
	}
	s.win, s.waits = cover, true
	if last := cover.Last(); s.due > last { // it had ended, and has not any more
		s.due = last
		o.enqueue(ending{last, i, s.turn})
	}
	return true
}

// remove takes session i off the list of its key.
func (o *sessions[K, In, Acc, Out]) remove(i int32, head *int32) {
	for p := head; ; p = &o.open[*p].next {
		if *p == i {
			*p = o.open[i].next
			break
		}
	}
	o.open[i] = session[K, Acc]{next: o.free, turn: o.open[i].turn}
	o.free = i
}

// overAt is the watermark at which a window takes no record any more.
func (o *sessions[K, In, Acc, Out]) overAt(w window.Window) element.Time {
	if at := w.Last() + o.agg.Lateness; at >= w.Last() {
		return at
	}
	return element.MaxTime
}

// OnWatermark fires the sessions that have ended, the earliest first, and forgets those that are over.
func (o *sessions[K, In, Acc, Out]) OnWatermark(t element.Time) error {
	for len(o.ends) > 0 && o.ends[0].at <= t {
		e := o.ends[0]
		s := &o.open[e.place]
		if !s.live || s.turn != e.turn || s.due != e.at {
			o.dequeue()
			continue
		}
		if s.waits && s.win.Last() <= t {
			if err := o.fire(s); err != nil {
				return err
			}
		}
		switch {
		case s.waits: // it has grown since
			s.due = s.win.Last()
		case !o.expired(s.win, t):
			s.due = o.overAt(s.win)
		default:
			o.dequeue()
			o.end(e.place)
			continue
		}
		o.requeue(s.due)
	}
	if o.empty > o.heads.Len()/2 {
		o.sweep()
	}
	o.account()
	return nil
}

func (o *sessions[K, In, Acc, Out]) fire(s *session[K, Acc]) error {
	s.fired++
	s.waits = false
	o.rt.At = s.win.Last()
	o.out(o.agg.Result(s.key, Firing{s.win, int(s.fired) - 1}, &s.acc))
	return o.rt.Stopped()
}

// end forgets a session that is over.
func (o *sessions[K, In, Acc, Out]) end(place int32) {
	k := o.open[place].key
	head, _ := o.heads.Find(k, o.hash(k))
	o.remove(place, head)
	if *head == 0 {
		o.empty++
	}
}

// sweep drops the keys without a session.
func (o *sessions[K, In, Acc, Out]) sweep() {
	old := o.heads
	o.heads, o.empty = table.New[K, int32](&o.rt.Counters.StateBytes), 0
	// The error is that of the function: there is none.
	_ = old.Each(func(k K, head *int32) error {
		if *head != 0 {
			n, _ := o.heads.Find(k, o.hash(k))
			*n = *head
		}
		return nil
	})
	old.Release()
	if o.heads.Len() == 0 {
		o.open, o.free, o.ends = make([]session[K, Acc], 1), 0, nil
	}
}

// account tells the size of the state, once per watermark.
func (o *sessions[K, In, Acc, Out]) account() {
	now := int64(cap(o.open))*int64(unsafe.Sizeof(session[K, Acc]{})) + int64(cap(o.ends))*int64(unsafe.Sizeof(ending{}))
	o.rt.Counters.StateBytes += now - o.bytes
	o.bytes = now
}

// Close drops the tables.
func (o *sessions[K, In, Acc, Out]) Close() error {
	o.heads.Release()
	o.open, o.ends = nil, nil
	o.account()
	return nil
}

// The queue is a binary heap.

func (o *sessions[K, In, Acc, Out]) enqueue(e ending) {
	o.ends = append(o.ends, e)
	i := len(o.ends) - 1
	for i > 0 && o.ends[i].at < o.ends[(i-1)/2].at {
		o.ends[i], o.ends[(i-1)/2] = o.ends[(i-1)/2], o.ends[i]
		i = (i - 1) / 2
	}
}

// requeue moves the first entry to a later time.
func (o *sessions[K, In, Acc, Out]) requeue(at element.Time) {
	o.ends[0].at = at
	o.sink()
}

func (o *sessions[K, In, Acc, Out]) dequeue() {
	n := len(o.ends) - 1
	o.ends[0] = o.ends[n]
	o.ends = o.ends[:n]
	o.sink()
}

func (o *sessions[K, In, Acc, Out]) sink() {
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(o.ends) && o.ends[c].at < o.ends[least].at {
				least = c
			}
		}
		if least == i {
			return
		}
		o.ends[i], o.ends[least] = o.ends[least], o.ends[i]
		i = least
	}
}
