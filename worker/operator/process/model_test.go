package process_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/state/handle"
	"github.com/sluiceio/sluice/worker/state/timer"
)

// act is one operation on the state or the timers of a key.
type act struct {
	Key string
	Op  operation
	N   int64
}

type operation int

const (
	countSet operation = iota
	countAdd
	countClear
	pathSet
	pathChange // through what a read gave
	pathAppend
	pathClear
	logAppend
	logClear
	hitsPut
	hitsAdd
	hitsDelete
	tagsPut
	tagsAppend // through what a read gave
	tagsDelete
	sumAdd
	sumClear
	meanAdd
	meanClear
	briefSet
	idleSet
	idleClear
	eachAdd
	eachRemove
	eachClear
	alarmSet
	alarmClear
	clearAll
	look
	operations // how many there are
)

// briefLife is the time to live of brief, in microseconds.
const briefLife = 30

type meanOf struct{ Sum, N int64 }

// everything is a processor with every kind of state and of timer, flat and not flat.
type everything struct {
	count *handle.Value[int64]
	path  *handle.Value[[]int64]
	log   *handle.List[int64]
	hits  *handle.Map[int32, int64]
	tags  *handle.Map[string, []string]
	sum   *handle.Reducing[int64]
	mean  *handle.Aggregating[int64, meanOf, int64]
	brief *handle.Value[int64]
	idle  *timer.Timer
	each  *timer.Timers
	alarm *process.ProcTimer
}

type (
	actSetup = process.KeySetup[string, string]
	actCtx   = process.KeyCtx[string, string]
)

func openEverything(s *actSetup) (func(*actCtx, act) error, error) {
	forever := process.Life{}
	e := &everything{
		count: s.Value[int64]("count", forever), path: s.Value[[]int64]("path", forever), log: s.List[int64]("log", forever),
		hits: s.Map[int32, int64]("hits", forever), tags: s.Map[string, []string]("tags", forever),
		sum: s.Reducing("sum", func(a, b int64) int64 { return a + b }, forever),
		mean: s.Aggregating("mean", handle.Aggregate[int64, meanOf, int64]{
			New:    func() meanOf { return meanOf{} },
			Add:    func(m meanOf, v int64) meanOf { return meanOf{m.Sum + v, m.N + 1} },
			Result: func(m meanOf) int64 { return m.Sum / max(1, m.N) },
		}, forever),
		brief: s.Value[int64]("brief", process.Life{After: micros(briefLife)}),
	}
	e.idle = s.EventTimer("idle", e.onIdle)
	e.each = s.EventTimers("each", e.onEach)
	e.alarm = s.ProcTimer("alarm", e.onAlarm)
	return e.do, nil
}

func (e *everything) onIdle(c *actCtx, at element.Time) error {
	*e.count.Ref()++
	c.Emit(fmt.Sprintf("%s idle at %d, count %d", c.Key(), at, e.count.Get()))
	if at%3 == 0 {
		e.idle.Set(at + 5)
	}
	return nil
}

func (e *everything) onEach(c *actCtx, at element.Time) error {
	e.log.Append(int64(at))
	c.Emit(fmt.Sprintf("%s each at %d, log %d", c.Key(), at, e.log.Len()))
	if at%4 == 0 {
		e.each.Add(at + 7)
	}
	return nil
}

func (e *everything) onAlarm(c *actCtx, at instant) error {
	*e.hits.Ref(9)++
	n := e.hits.Get(9)
	c.Emit(fmt.Sprintf("%s alarm at %d, hits %d", c.Key(), at.UnixMicro(), n))
	if n%2 == 0 {
		e.alarm.SetIn(micros(3))
	}
	return nil
}

func (e *everything) do(c *actCtx, a act) error {
	switch {
	case a.Op >= idleSet && a.Op <= alarmClear:
		e.doTimer(c, a)
	case a.Op >= logAppend && a.Op <= tagsDelete:
		e.doCollection(a)
	case a.Op == clearAll:
		e.clear()
	case a.Op == look:
		c.Emit(e.describe(c))
	default:
		e.doValue(a)
	}
	return nil
}

func (e *everything) doValue(a act) {
	switch a.Op {
	case countSet:
		e.count.Set(a.N)
	case countAdd:
		*e.count.Ref() += a.N
	case countClear:
		e.count.Clear()
	case pathSet:
		e.path.Set([]int64{a.N})
	case pathChange:
		if v := e.path.Get(); len(v) > 0 {
			v[0] = a.N
		}
	case pathAppend:
		p := e.path.Ref()
		*p = append(*p, a.N)
	case pathClear:
		e.path.Clear()
	case sumAdd:
		e.sum.Add(a.N)
	case sumClear:
		e.sum.Clear()
	case meanAdd:
		e.mean.Add(a.N)
	case meanClear:
		e.mean.Clear()
	case briefSet:
		e.brief.Set(a.N)
	}
}

func (e *everything) doCollection(a act) {
	switch a.Op {
	case logAppend:
		e.log.Append(added(a.N)...)
	case logClear:
		e.log.Clear()
	case hitsPut:
		e.hits.Put(int32(a.N%5), a.N)
	case hitsAdd:
		*e.hits.Ref(int32(a.N % 5)) += a.N
	case hitsDelete:
		e.hits.Delete(int32(a.N % 5))
	case tagsPut:
		e.tags.Put(tag(a.N), []string{fmt.Sprint(a.N)})
	case tagsAppend:
		for _, v := range e.tags.All() {
			v[0] = fmt.Sprint(a.N)
		}
	case tagsDelete:
		e.tags.Delete(tag(a.N))
	}
}

func (e *everything) doTimer(c *actCtx, a act) {
	at := c.Timestamp() + element.Time(a.N%20)
	switch a.Op {
	case idleSet:
		e.idle.Set(at)
	case idleClear:
		e.idle.Clear()
	case eachAdd:
		e.each.Add(at)
	case eachRemove:
		e.each.Remove(at)
	case eachClear:
		e.each.Clear()
	case alarmSet:
		e.alarm.SetIn(micros(a.N % 20))
	case alarmClear:
		e.alarm.Clear()
	}
}

func (e *everything) clear() {
	e.count.Clear()
	e.path.Clear()
	e.log.Clear()
	e.hits.Clear()
	e.tags.Clear()
	e.sum.Clear()
	e.mean.Clear()
	e.brief.Clear()
	e.idle.Clear()
	e.each.Clear()
	e.alarm.Clear()
}

func (e *everything) describe(c *actCtx) string {
	m := memory{hits: maps.Collect(e.hits.All()), tags: maps.Collect(e.tags.All()), log: slices.Collect(e.log.All()), each: map[element.Time]uint64{}}
	if v, ok := e.count.Load(); ok {
		m.count = &v
	}
	if v, ok := e.path.Load(); ok {
		m.path = &v
	}
	if v, ok := e.sum.Load(); ok {
		m.sum = &v
	}
	if e.mean.Exists() {
		v := e.mean.Get()
		m.meanValue = &v
	}
	if v, ok := e.brief.Load(); ok {
		m.briefValue = &v
	}
	if at, ok := e.idle.At(); ok {
		m.idle = &deadline{at: at}
	}
	for at := range e.each.All() {
		m.each[at] = 0
	}
	if at, ok := e.alarm.At(); ok {
		due := element.At(at)
		m.alarm = &due
	}
	if m.each[0] = 0; e.each.Len() != len(m.each)-1 || e.log.Len() != len(m.log) || e.hits.Len() != len(m.hits) || e.tags.Len() != len(m.tags) {
		return "a length is wrong: " + m.text(c.Key())
	}
	delete(m.each, 0)
	return m.text(c.Key())
}

func added(n int64) (vs []int64) {
	for i := range n % 40 {
		vs = append(vs, n+i)
	}
	return vs
}

func tag(n int64) string { return fmt.Sprint("t", n%4) }

// memory is the state of one key, as plain Go.
type memory struct {
	count *int64
	path  *[]int64
	log   []int64
	hits  map[int32]int64
	tags  map[string][]string
	sum   *int64
	mean  meanOf // N = 0: none
	brief *stamp
	idle  *deadline
	each  map[element.Time]uint64 // with the number of their setting
	alarm *element.Time

	meanValue, briefValue *int64 // as they are read
}

type stamp struct{ at, value int64 }

type deadline struct {
	at  element.Time
	seq uint64
}

func newMemory() *memory {
	return &memory{hits: map[int32]int64{}, tags: map[string][]string{}, each: map[element.Time]uint64{}}
}

func copyOf[V any](p *V) *V {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func (m *memory) clone() *memory {
	c := *m
	c.count, c.sum, c.brief, c.idle, c.alarm = copyOf(m.count), copyOf(m.sum), copyOf(m.brief), copyOf(m.idle), copyOf(m.alarm)
	if m.path != nil {
		v := slices.Clone(*m.path)
		c.path = &v
	}
	c.log, c.hits, c.tags, c.each = slices.Clone(m.log), maps.Clone(m.hits), maps.Clone(m.tags), maps.Clone(m.each)
	for k, v := range c.tags {
		c.tags[k] = slices.Clone(v)
	}
	return &c
}

func shown[V any](p *V) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprint(*p)
}

func (m *memory) text(key string) string {
	idle := "none"
	if m.idle != nil {
		idle = fmt.Sprint(m.idle.at)
	}
	var tags []string
	for _, k := range slices.Sorted(maps.Keys(m.tags)) {
		tags = append(tags, k+fmt.Sprint(m.tags[k]))
	}
	var alarm *int64
	if m.alarm != nil {
		v := int64(*m.alarm)
		alarm = &v
	}
	return fmt.Sprintf("%s: count %s, path %s, log %v, hits %v, tags %v, sum %s, mean %s, brief %s; idle %s, each %v, alarm %s", key, shown(m.count), shown(m.path), m.log,
		m.hits, tags, shown(m.sum), shown(m.meanValue), shown(m.briefValue), idle, slices.Sorted(maps.Keys(m.each)), shown(alarm))
}

// model is what the operator has to be: the state of every key.
type model struct {
	keys map[string]*memory
	seq  *uint64 // settings of timers, never taken back
	now  func() int64
}

func (m *model) clone() *model {
	c := &model{keys: map[string]*memory{}, seq: m.seq, now: m.now}
	for k, v := range m.keys {
		c.keys[k] = v.clone()
	}
	return c
}

func (m *model) at(k string) *memory {
	if m.keys[k] == nil {
		m.keys[k] = newMemory()
	}
	return m.keys[k]
}

func (m *model) next() uint64 {
	*m.seq++
	return *m.seq
}

// do is what the operator does, and what it emits.
func (m *model) do(a act, at element.Time) (out []string) {
	k := m.at(a.Key)
	switch {
	case a.Op >= idleSet && a.Op <= alarmClear:
		m.doTimer(k, a, at+element.Time(a.N%20))
	case a.Op >= logAppend && a.Op <= tagsDelete:
		k.doCollection(a)
	case a.Op == clearAll:
		delete(m.keys, a.Key)
	case a.Op == look:
		k.meanValue, k.briefValue = nil, nil
		if k.mean.N > 0 {
			v := k.mean.Sum / k.mean.N
			k.meanValue = &v
		}
		if k.brief != nil && m.now()-k.brief.at < briefLife {
			k.briefValue = copyOf(&k.brief.value)
		}
		out = append(out, k.text(a.Key))
	default:
		k.doValue(a, m.now())
	}
	return out
}

func (k *memory) doValue(a act, now int64) {
	switch a.Op {
	case countSet:
		k.count = &a.N
	case countAdd:
		k.addCount(a.N)
	case countClear:
		k.count = nil
	case pathSet:
		k.path = &[]int64{a.N}
	case pathChange:
		if k.path != nil && len(*k.path) > 0 {
			(*k.path)[0] = a.N
		}
	case pathAppend:
		if k.path == nil {
			k.path = &[]int64{}
		}
		*k.path = append(*k.path, a.N)
	case pathClear:
		k.path = nil
	case sumAdd:
		if k.sum == nil {
			k.sum = new(int64)
		}
		*k.sum += a.N
	case sumClear:
		k.sum = nil
	case meanAdd:
		k.mean = meanOf{k.mean.Sum + a.N, k.mean.N + 1}
	case meanClear:
		k.mean = meanOf{}
	case briefSet:
		k.brief = &stamp{now, a.N}
	}
}

func (k *memory) addCount(n int64) {
	if k.count == nil {
		k.count = new(int64)
	}
	*k.count += n
}

func (k *memory) doCollection(a act) {
	switch a.Op {
	case logAppend:
		k.log = append(k.log, added(a.N)...)
	case logClear:
		k.log = nil
	case hitsPut:
		k.hits[int32(a.N%5)] = a.N
	case hitsAdd:
		k.hits[int32(a.N%5)] += a.N
	case hitsDelete:
		delete(k.hits, int32(a.N%5))
	case tagsPut:
		k.tags[tag(a.N)] = []string{fmt.Sprint(a.N)}
	case tagsAppend:
		for _, v := range k.tags {
			v[0] = fmt.Sprint(a.N)
		}
	case tagsDelete:
		delete(k.tags, tag(a.N))
	}
}

func (m *model) doTimer(k *memory, a act, at element.Time) {
	switch a.Op {
	case idleSet:
		m.setIdle(k, at)
	case idleClear:
		k.idle = nil
	case eachAdd:
		m.addEach(k, at)
	case eachRemove:
		delete(k.each, at)
	case eachClear:
		clear(k.each)
	case alarmSet:
		due := element.Time(m.now() + a.N%20)
		k.alarm = &due
	case alarmClear:
		k.alarm = nil
	}
}

func (m *model) setIdle(k *memory, at element.Time) {
	if k.idle == nil || k.idle.at != at {
		k.idle = &deadline{at, m.next()}
	}
}

func (m *model) addEach(k *memory, at element.Time) {
	if _, ok := k.each[at]; !ok {
		k.each[at] = m.next()
	}
}

// watermark fires the timers of every key up to w, in the order of their times and of their setting. At the end of time what is set
// meanwhile waits for ever.
func (m *model) watermark(w element.Time) (out []string) {
	last := uint64(math.MaxUint64)
	if w == element.MaxTime {
		last = *m.seq
	}
	for name, k := range m.keys { // one by one: they do not see each other
		for {
			due := []deadline{}
			if k.idle != nil && k.idle.at <= w && k.idle.seq <= last {
				due = append(due, *k.idle)
			}
			for at, seq := range k.each {
				if at <= w && seq <= last {
					due = append(due, deadline{at, seq})
				}
			}
			if len(due) == 0 {
				break
			}
			d := slices.MinFunc(due, func(a, b deadline) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
			if k.idle != nil && d == *k.idle {
				k.idle = nil
				k.addCount(1)
				out = append(out, fmt.Sprintf("%s idle at %d, count %d", name, d.at, *k.count))
				if d.at%3 == 0 {
					m.setIdle(k, d.at+5)
				}
				continue
			}
			delete(k.each, d.at)
			k.log = append(k.log, int64(d.at))
			out = append(out, fmt.Sprintf("%s each at %d, log %d", name, d.at, len(k.log)))
			if d.at%4 == 0 {
				m.addEach(k, d.at+7)
			}
		}
	}
	return out
}

// clock fires the timers by the clock.
func (m *model) clock() (out []string) {
	for name, k := range m.keys {
		if k.alarm == nil || int64(*k.alarm) > m.now() {
			continue
		}
		at := *k.alarm
		k.alarm = nil
		k.hits[9]++
		out = append(out, fmt.Sprintf("%s alarm at %d, hits %d", name, int64(at), k.hits[9]))
		if k.hits[9]%2 == 0 {
			due := element.Time(m.now() + 1000) // and not 3
			k.alarm = &due
		}
	}
	return out
}
