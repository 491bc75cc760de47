package operator_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	win "github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/async"
	"github.com/sluiceio/sluice/worker/operator/batch/aggregate"
	batchjoin "github.com/sluiceio/sluice/worker/operator/batch/join"
	"github.com/sluiceio/sluice/worker/operator/batch/sample"
	"github.com/sluiceio/sluice/worker/operator/batch/sort"
	"github.com/sluiceio/sluice/worker/operator/batch/top"
	"github.com/sluiceio/sluice/worker/operator/either"
	"github.com/sluiceio/sluice/worker/operator/gather"
	"github.com/sluiceio/sluice/worker/operator/join"
	"github.com/sluiceio/sluice/worker/operator/keyed"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/operator/stateless"
	"github.com/sluiceio/sluice/worker/operator/window"
	"github.com/sluiceio/sluice/worker/task"
)

// rec is a record of every operator here.
type rec struct {
	Key string
	N   int64
}

func key(r rec) string { return r.Key }

type (
	subject = operatortest.Subject
	step    = operatortest.Step
	stage   = task.StageOf[rec, string]
)

func give(key string, n int64, at element.Time) step {
	return step{Kind: operatortest.Give, Value: rec{key, n}, At: at}
}

func right(key string, n int64, at element.Time) step {
	return step{Kind: operatortest.Give, Input: 1, Value: rec{key, n}, At: at}
}

func mark(at element.Time) step { return step{Kind: operatortest.Advance, At: at} }
func wait(d time.Duration) step { return step{Kind: operatortest.Wait, Pass: d} }
func ends(input int) step       { return step{Kind: operatortest.EndOf, Input: input} }

// disorder is a stream of three keys with disorder, equal records, a late one, and watermarks.
var disorder = []step{
	give("a", 1, 3), give("b", 2, 1), give("a", 3, 14), mark(2), give("c", 4, 9), give("a", 5, 5), mark(11), give("b", 6, 12),
	give("a", 7, 4), give("a", 7, 21), wait(3 * time.Hour), mark(25), give("c", 8, 40), give("b", 9, 33),
}

// both is a stream of two inputs.
var both = []step{
	give("a", 1, 3), right("a", 2, 4), right("b", 3, 1), mark(2), give("b", 4, 9), give("a", 5, 5), right("a", 6, 15), mark(11),
	right("c", 7, 12), give("c", 8, 21), wait(time.Hour), right("a", 9, 14), mark(25), give("a", 10, 26), right("b", 11, 33),
}

// one is an operator behind a keyed edge.
func one(covers string, stage func() stage) subject {
	s := operatortest.Keyed(operatortest.One(stage), key)
	s.Covers, s.Script = strings.Fields(covers), disorder
	return s
}

// two is an operator behind two keyed edges.
func two(covers string, stages func() (stage, stage)) subject {
	s := operatortest.KeyedBoth(operatortest.Two(stages), key, key)
	s.Covers, s.Script = strings.Fields(covers), both
	return s
}

// free is an operator without keys.
func free[In, Out any](covers string, stage func() task.StageOf[In, Out]) subject {
	s := operatortest.One(stage)
	s.Covers, s.Script, s.Order = strings.Fields(covers), disorder, operatortest.Exact
	return s
}

// whole is an operator without snapshots.
func whole(s subject) subject {
	s.Whole = true
	return s
}

func text(r rec) string { return fmt.Sprint(r.Key, r.N) }

func pair(l, r rec, emit func(string))   { emit(text(l) + "+" + text(r)) }
func onlyLeft(l rec, emit func(string))  { emit(text(l) + "+") }
func onlyRight(r rec, emit func(string)) { emit("+" + text(r)) }

// subjects are all operators, by the name of their test.
func subjects() map[string]subject {
	all := map[string]subject{}
	for _, of := range []func(map[string]subject){statelessSubjects, asyncSubjects, processSubjects, windowSubjects, joinSubjects, batchSubjects} {
		of(all)
	}
	return all
}

func half(r rec) (string, error) {
	if r.N%2 != 0 {
		return "", fmt.Errorf("%d is odd", r.N)
	}
	return text(r), nil
}

func twice(r rec, emit func(string)) {
	emit("first " + text(r))
	emit("second " + text(r))
}

func statelessSubjects(all map[string]subject) {
	skip := task.ErrorPolicy{Action: task.SkipOnError}
	again := task.ErrorPolicy{Action: task.SkipOnError, Retries: 2, Backoff: time.Millisecond}
	all["map"] = free("stateless.Map", func() stage { return stateless.Map(text) })
	all["timed"] = free("stateless.Timed", func() stage {
		return stateless.Timed(func(r rec, at element.Time) string { return fmt.Sprint(text(r), int64(at)) })
	})
	all["trymap"] = free("stateless.TryMap", func() stage { return stateless.TryMap(half, skip) })
	all["trymap, again"] = free("stateless.TryMap", func() stage { return stateless.TryMap(half, again) })
	all["mapwith"] = free("stateless.MapWith", func() stage {
		return stateless.MapWith(func(*connector.Task) (func(rec) (string, error), error) { return half, nil }, skip)
	})
	all["filter"] = free("stateless.Filter", func() task.StageOf[rec, rec] {
		return stateless.Filter(func(r rec) bool { return r.N > 3 })
	})
	all["flatmap"] = free("stateless.FlatMap", func() stage { return stateless.FlatMap(twice) })
	tryTwice := func(r rec, emit func(string)) error {
		twice(r, emit)
		_, err := half(r)
		return err
	}
	all["tryflatmap"] = free("stateless.TryFlatMap", func() stage { return stateless.TryFlatMap(tryTwice, skip) })
	all["tryflatmap, again"] = free("stateless.TryFlatMap", func() stage { return stateless.TryFlatMap(tryTwice, again) })
	all["flatmapseq"] = free("stateless.FlatMapSeq", func() stage {
		return stateless.FlatMapSeq(func(r rec) iter.Seq[string] { return strings.SplitSeq(text(r), "") })
	})
	all["peek"] = free("stateless.Peek", func() task.StageOf[rec, rec] { return stateless.Peek(func(rec) {}) })
	all["union"] = free("stateless.Pass", stateless.Pass[rec])
}

func asyncSubjects(all map[string]subject) {
	slow := func(ctx context.Context, r rec) (string, error) {
		t := time.NewTimer(time.Duration(10-r.N) * 10 * time.Millisecond) // later records answer sooner
		defer t.Stop()
		select {
		case <-t.C:
			return text(r), nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	for name, inFlight := range map[string]int{"async": 64, "async, two at a time": 2} {
		for unordered, order := range map[bool]operatortest.Order{false: operatortest.Exact, true: operatortest.BetweenEvents} {
			spec := async.Spec[rec, string]{Call: slow, InFlight: inFlight, Timeout: time.Minute, Unordered: unordered}
			s := free("async.Spec.Stage", spec.Stage)
			s.Order, s.Later = order, true
			all[fmt.Sprint(name, ", unordered ", unordered)] = s
		}
	}
	for name, most := range map[string]int{"batch of one": 1, "batch": 3, "batch that waits": 100} {
		s := free("gather.Spec.Stage", gather.Spec[rec]{Max: most, Linger: time.Hour}.Stage)
		s.Later = true
		all[name] = s
	}
}

type (
	keySetup = process.KeySetup[string, string]
	keyCtx   = process.KeyCtx[string, string]
	keyFn    = func(*keyCtx, rec) error
)

// full uses every kind of state and timer.
func full(s *keySetup) (keyFn, error) {
	var l process.Life
	sum, list, seen := s.Value[int64]("sum", l), s.List[int64]("list", l), s.Map[int64, element.Time]("seen", l)
	most := s.Reducing("most", func(a, b int64) int64 { return max(a, b) }, l)
	once := s.EventTimer("once", func(c *keyCtx, at element.Time) error {
		c.Emit(fmt.Sprint(c.Key(), " once at ", int64(at), ": ", sum.Get()))
		return nil
	})
	often := s.EventTimers("often", func(c *keyCtx, at element.Time) error {
		c.Emit(fmt.Sprint(c.Key(), " often at ", int64(at)))
		return nil
	})
	clock := s.ProcTimer("clock", func(c *keyCtx, _ time.Time) error {
		c.Emit(fmt.Sprint(c.Key(), " by the clock: ", most.Get()))
		return nil
	})
	records := s.Counter("records")
	s.OnEnd(func(c *keyCtx) error {
		c.Emit(fmt.Sprint(c.Key(), " ends with ", sum.Get()))
		return nil
	})
	return func(c *keyCtx, r rec) error {
		records.Inc(1)
		*sum.Ref() += r.N
		list.Append(r.N)
		if _, again := seen.Load(r.N); !again {
			seen.Put(r.N, c.Timestamp())
		}
		most.Add(r.N)
		once.Set(c.Timestamp() + 5)
		often.Add(c.Timestamp() + 2)
		clock.SetIn(time.Hour)
		c.Emit(fmt.Sprint(c.Key(), " has ", list.Len(), " records, ", seen.Len(), " kinds"))
		return nil
	}, nil
}

func processSubjects(all map[string]subject) {
	all["process"] = free("process.Process", func() stage {
		return process.Process(func(s *process.Setup[string]) (func(*process.Ctx[string], rec) error, error) {
			list := s.List[int64]("numbers")
			s.OnEnd(func(c *process.Ctx[string]) error {
				c.Emit("the end")
				return nil
			})
			return func(c *process.Ctx[string], r rec) error {
				list.Add(r.N)
				sum := int64(0)
				for n := range list.All() {
					sum += n
				}
				c.Emit(fmt.Sprint(sum))
				return nil
			}, nil
		}, process.Options{})
	})
	all["keyed process"] = one("process.Keyed", func() stage { return process.Keyed(key, full, process.Options{}) })
	all["map with state"] = one("process.WithState", func() stage {
		return process.WithState(key, process.Declared{Name: "n"}, func(c *process.Cell[string, int64], r rec, emit func(string)) error {
			*c.Ref() += r.N
			emit(fmt.Sprint(c.Key(), *c.Ref()))
			return nil
		}, process.Options{})
	})
	all["connect"] = two("process.Keyed either.Stages", func() (stage, stage) {
		return either.Stages(process.Keyed(either.Key(key, key), func(s *keySetup) (func(*keyCtx, either.Of[rec, rec]) error, error) {
			f, err := full(s)
			return func(c *keyCtx, v either.Of[rec, rec]) error {
				if v.IsRight {
					v.Left = rec{v.Right.Key, -v.Right.N}
				}
				return f(c, v.Left)
			}, err
		}, process.Options{}))
	})
	all["broadcast"] = broadcast()
	all["bootstrap"] = bootstrap()
}

// broadcast has the same rules in every subtask; the script gives them to the one that there is.
func broadcast() subject {
	s := operatortest.Two(func() (stage, stage) {
		return process.Broadcast(process.BroadcastSpec[string, rec, rec, string]{
			Key: key,
			Open: func(s *keySetup) (f process.BroadcastFuncs[string, rec, rec, string], err error) {
				rules, sum := s.Broadcast[string, int64]("rules"), s.Value[int64]("sum", process.Life{})
				f.Process = func(c *keyCtx, r rec) error {
					n, _ := rules.Get(r.Key)
					*sum.Ref() += n * r.N
					c.Emit(fmt.Sprint(c.Key(), sum.Get()))
					return nil
				}
				f.Broadcast = func(c *process.BroadcastCtx, r rec) error {
					rules.Put(c, r.Key, r.N)
					return nil
				}
				return f, nil
			},
		})
	})
	s.Covers, s.Script = []string{"process.Broadcast"}, both
	return s
}

// bootstrap loads before it processes.
func bootstrap() subject {
	s := two("process.Bootstrap", func() (stage, stage) {
		return process.Bootstrap(process.BootstrapSpec[string, rec, rec, string]{
			Key: key, InitKey: key,
			Open: func(s *keySetup) (f process.BootstrapFuncs[string, rec, rec, string], err error) {
				sum := s.Value[int64]("sum", process.Life{})
				f.Load = func(_ *process.LoadCtx[string], r rec) error {
					sum.Set(100 * r.N)
					return nil
				}
				f.Process = func(c *keyCtx, r rec) error {
					*sum.Ref() += r.N
					c.Emit(fmt.Sprint(c.Key(), sum.Get()))
					return nil
				}
				return f, nil
			},
		})
	})
	s.Script = []step{right("a", 1, 1), right("b", 2, 1), ends(1), give("a", 1, 3), mark(2), give("b", 2, 4), give("c", 3, 5), give("a", 4, 9)}
	return s
}

// grain is how exact windows are, in microseconds: the clock is moved by an output that takes its time.
func grain(by window.Timing) element.Time {
	if by == window.ByClock {
		return element.Time(time.Minute.Microseconds())
	}
	return 1
}

// sums is what windows aggregate; accumulators are not flat.
func sums(by window.Timing) window.Aggregation[string, rec, []int64, string] {
	return window.Aggregation[string, rec, []int64, string]{
		Key: key,
		Add: func(acc *[]int64, r rec) {
			if len(*acc) == 0 {
				*acc = make([]int64, 1)
			}
			(*acc)[0] += r.N
		},
		Merge: func(a, b []int64) []int64 {
			if len(a) == 0 {
				return b
			}
			if len(b) > 0 {
				a[0] += b[0]
			}
			return a
		},
		Clone: func(a []int64) ([]int64, error) { return append([]int64(nil), a...), nil },
		Result: func(k string, f window.Firing, acc *[]int64) string {
			return fmt.Sprintf("%s [%d, %d) #%d: %v", k, f.Start/grain(by), f.End/grain(by), f.Pane, *acc)
		},
		Lateness: 9, Timing: by,
	}
}

// listed is what windows gather.
func listed(by window.Timing) window.Gathering[string, rec, string] {
	return window.Gathering[string, rec, string]{
		Key: key,
		Each: func(k string, f window.Firing, vs iter.Seq[rec], emit func(string)) error {
			line := fmt.Sprintf("%s [%d, %d) #%d:", k, f.Start/grain(by), f.End/grain(by), f.Pane)
			for v := range vs {
				line += fmt.Sprint(" ", v.N)
			}
			emit(line)
			return nil
		},
		Lateness: 9, Timing: by,
	}
}

// windowSubjects by event time have windows of some microseconds; those by the clock have hours, of which a slow output takes
// little.
func windowSubjects(all map[string]subject) {
	count := window.Count[string, rec](2)
	for name, by := range map[string]window.Timing{"": window.ByEvent, ", by the clock": window.ByClock} {
		unit := time.Microsecond
		if by == window.ByClock {
			unit = 10 * time.Minute
		}
		us := element.Time(unit.Microseconds())
		tumbling, session := win.Tumbling{Size: 10 * us, Offset: 3 * us}, win.Session{Gap: 4 * us}
		sliding, err := win.NewSliding(20*unit, 10*unit, 0)
		if err != nil {
			panic(err)
		}
		all["tumbling"+name] = one("window.Tumbling", func() stage { return window.Tumbling(tumbling, sums(by)) })
		all["sliding"+name] = one("window.Sliding", func() stage { return window.Sliding(sliding, sums(by)) })
		all["gather"+name] = one("window.Gather", func() stage { return window.Gather(sliding, listed(by)) })
		for kind, w := range map[string]window.Windows{"tumbling": {Tumbling: &tumbling}, "sliding": {Sliding: &sliding}, "session": {Session: &session}, "global": {}} {
			for when, trigger := range map[string]window.Trigger[string, rec]{
				"at the end": window.AtEnd[string, rec](by), "early": window.Early[string, rec](by, 30*time.Minute), "by count": count, "purging": window.Purging(count),
			} {
				if by == window.ByClock && when != "at the end" && when != "early" {
					continue // such triggers know no clock
				}
				all[kind+" "+when+name] = one("window.Aggregated", func() stage { return window.Aggregated(w, trigger, sums(by)) })
				all[kind+" listed "+when+name] = one("window.Gathered", func() stage { return window.Gathered(w, trigger, listed(by)) })
			}
		}
	}
	for name, s := range all {
		if strings.HasSuffix(name, ", by the clock") || strings.HasPrefix(name, "global") && strings.HasSuffix(name, "early") {
			s.Grain = grain(window.ByClock)
			all[name] = s
		}
	}
	sliding, err := win.NewSliding(20*time.Microsecond, 10*time.Microsecond, 0)
	if err != nil {
		panic(err)
	}
	spec := window.SlidingSpec(20*time.Microsecond, 10*time.Microsecond)
	all["aggregated by a spec"] = one("window.Aggregate", func() stage { return must(window.Aggregate(spec, nil, sums(window.ByEvent))) })
	all["kept by a spec"] = one("window.Keep", func() stage { return must(window.Keep(spec, nil, listed(window.ByEvent))) })
	all["cogroup"] = two("window.Gather either.Stages", func() (stage, stage) {
		return either.Stages(window.Gather(sliding, window.Gathering[string, either.Of[rec, rec], string]{
			Key: either.Key(key, key),
			Each: func(k string, f window.Firing, vs iter.Seq[either.Of[rec, rec]], emit func(string)) error {
				line := fmt.Sprintf("%s [%d, %d):", k, f.Start, f.End)
				for v := range vs {
					line += fmt.Sprint(" ", v.Left.N, "|", v.Right.N)
				}
				emit(line)
				return nil
			},
		}))
	})
}

func joinSubjects(all map[string]subject) {
	for name, only := range map[string]func(rec, func(string)){"": nil, ", full": onlyRight} {
		s := join.Streaming[string, rec, rec, string]{LeftKey: key, RightKey: key, Match: pair, RightOnly: only, TTL: 2 * time.Hour}
		if only != nil {
			s.LeftOnly = onlyLeft
		}
		all["join"+name] = two("join.Streaming.Stages", s.Stages)
	}
	all["interval join"] = two("join.Interval.Stages",
		join.Interval[string, rec, rec, string]{LeftKey: key, RightKey: key, Match: pair, Lower: -10, Upper: 5}.Stages)
	all["join with the latest"] = two("join.Latest.Stages",
		join.Latest[string, rec, rec, string]{LeftKey: key, RightKey: key, Found: pair, Missing: onlyLeft, TTL: 2 * time.Hour}.Stages)
}

func batchSubjects(all map[string]subject) {
	total := keyed.Aggregation[string, rec, int64, string]{
		Key: key, State: "sum", First: func(r rec) int64 { return r.N }, Add: func(acc int64, r rec) int64 { return acc + r.N },
		Result: func(k string, acc int64) string { return fmt.Sprint(k, acc) },
	}
	all["rolling"] = one("keyed.Updates", func() stage { return keyed.Updates(total) })
	all["final"] = whole(one("aggregate.Final", func() stage { return aggregate.Final(total) }))
	all["distinct"] = whole(free("aggregate.Distinct", func() task.StageOf[rec, rec] {
		return aggregate.Distinct(func(r rec) rec { return r }, nil)
	}))
	byKey := sort.Spec[string, rec]{Key: key, Order: sort.Ascending[string]()}
	all["sort"] = whole(free("sort.Sorted", func() task.StageOf[rec, rec] { return sort.Sorted(byKey) }))
	first := top.Spec[rec]{N: 2, Compare: func(a, b rec) int { return int(b.N - a.N) }}
	all["top"] = whole(free("top.Overall", func() task.StageOf[rec, rec] { return top.Overall(first) }))
	perKey := free("top.PerKey", func() task.StageOf[rec, rec] { return top.PerKey(key, first) })
	perKey.Order = operatortest.Sets
	all["top by key"] = whole(perKey)
	all["sample"] = whole(free("sample.Keys", func() task.StageOf[rec, sample.Sample[string]] { return sample.Keys(key) }))
	quantiles := free("sample.Quantiles", func() task.StageOf[sample.Sample[string], sample.Bounds[string]] {
		return sample.Quantiles(sort.Ascending[string]())
	})
	quantiles.Script = []step{
		{Value: sample.Sample[string]{Keys: []string{"a", "c"}}, At: 1}, mark(1), {Value: sample.Sample[string]{Keys: []string{"b"}}, At: 2},
	}
	all["quantiles"] = whole(quantiles)
	all["ranges"] = whole(ranges())
	all["sort of ranges"] = whole(unwrapped(byKey))
	for kind, build := range map[string]batchjoin.Side{"left": batchjoin.Left, "right": batchjoin.Right} {
		spec := batchjoin.Spec[string, rec, rec, string]{
			LeftKey: key, RightKey: key, Match: pair, LeftOnly: onlyLeft, RightOnly: onlyRight, Build: build,
		}
		s := two("join.Stages", func() (stage, stage) { return batchjoin.Stages(spec) })
		s.Rests = true
		all["batch join, "+kind] = whole(s)
	}
}

// ranges routes records by bounds that come first.
func ranges() subject {
	s := operatortest.Two(func() (task.StageOf[sample.Bounds[string], sample.Ranged[rec]], task.StageOf[rec, sample.Ranged[rec]]) {
		return sample.Router(key, sort.Ascending[string](), nil)
	})
	s.Covers, s.Order, s.Least = []string{"sample.Router"}, operatortest.Exact, 2
	s.Script = []step{
		{Value: sample.Bounds[string]{}, At: 1}, ends(0), right("b", 1, 2), mark(1), right("a", 2, 3), right("c", 3, 1),
	}
	return s
}

// unwrapped sorts what a router has wrapped.
func unwrapped(spec sort.Spec[string, rec]) subject {
	s := free("sample.Unwrap", func() task.StageOf[sample.Ranged[rec], rec] { return sample.Unwrap(sort.Sorted(spec)) })
	s.Script = nil
	for _, x := range disorder {
		if r, is := x.Value.(rec); is {
			x.Value = sample.Ranged[rec]{Value: r}
		}
		s.Script = append(s.Script, x)
	}
	return s
}

// must is the operator for windows that exist.
func must(st stage, err error) stage {
	if err != nil {
		panic(err)
	}
	return st
}
