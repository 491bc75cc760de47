package join_test

import (
	"cmp"
	"fmt"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/join"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/task"
)

// rec is a record of either side: N tells records apart.
type rec struct{ Key, N int }

type (
	item    = operatortest.PairItem[rec, rec]
	stamped = operatortest.Stamped[string]
)

func key(r rec) int                      { return r.Key }
func pair(l, r rec, emit func(string))   { emit(fmt.Sprint(l.N, "+", r.N)) }
func onlyLeft(l rec, emit func(string))  { emit(fmt.Sprint(l.N, "+")) }
func onlyRight(r rec, emit func(string)) { emit(fmt.Sprint("+", r.N)) }
func text(f func(emit func(string))) (s string) {
	f(func(v string) { s += v })
	return s
}

var anyOrder = cmpopts.SortSlices(func(a, b stamped) bool { return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.At, b.At)) < 0 })

func record(it item) rec {
	if it.IsRight {
		return it.Right
	}
	return it.Left
}

// drawItems draws records of both sides, and watermarks that grow.
func drawItems(t *rapid.T, times *rapid.Generator[element.Time]) (items []item) {
	watermark := element.MinTime
	for n := range rapid.IntRange(0, 25).Draw(t, "items") {
		at := times.Draw(t, "at")
		if rapid.IntRange(0, 5).Draw(t, "watermark") == 0 {
			if watermark < at && at < element.MaxTime {
				watermark = at
				items = append(items, item{At: at, Watermark: true})
			}
			continue
		}
		r := rec{rapid.IntRange(0, 1).Draw(t, "key"), n}
		if it := (item{At: at, IsRight: rapid.Bool().Draw(t, "right")}); it.IsRight {
			it.Right = r
			items = append(items, it)
		} else {
			it.Left = r
			items = append(items, it)
		}
	}
	return items
}

// partners are the earlier records of the other side, with their pair in the order left, right.
func partners(done []item) func(yield func(l, r item) bool) {
	return func(yield func(l, r item) bool) {
		last := done[len(done)-1]
		for _, it := range done[:len(done)-1] {
			if it.Watermark || it.IsRight == last.IsRight || record(it).Key != record(last).Key {
				continue
			}
			l, r := it, last
			if !last.IsRight {
				l, r = last, it
			}
			if !yield(l, r) {
				return
			}
		}
	}
}

// onTime leaves out what was late when it came.
func onTime(done []item) (out []item) {
	watermark := element.MinTime
	for _, it := range done {
		switch {
		case it.Watermark:
			watermark = it.At
		case it.At > watermark || watermark == element.MinTime:
			out = append(out, it)
		}
	}
	return out
}

func TestIntervalJoinFindsEveryPairWithinItsLimitsOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		unit := rapid.SampledFrom([]element.Time{1, 30_000, 1_000_000}).Draw(rt, "unit")
		near := rapid.Map(rapid.Int64Range(-12, 12), func(n int64) element.Time { return element.Time(n) * unit })
		far := rapid.SampledFrom([]element.Time{element.MinTime, element.MinTime + 1, 0, element.MaxTime - 1, element.MaxTime})
		times := near
		if rapid.IntRange(0, 3).Draw(rt, "extremes") == 0 {
			times = rapid.OneOf(near, far)
		}
		spec := join.Interval[int, rec, rec, string]{LeftKey: key, RightKey: key, Match: pair}
		spec.Lower = element.Time(rapid.Int64Range(-8, 8).Draw(rt, "lower")) * unit
		spec.Upper = spec.Lower + element.Time(rapid.Int64Range(0, 8).Draw(rt, "width"))*unit
		operatortest.ConformPair(t, spec.Stages, drawItems(rt, times), func(done []item, end bool) (want []stamped) {
			if end {
				return nil
			}
			good := onTime(done)
			if last := done[len(done)-1]; last.Watermark || len(good) == 0 || good[len(good)-1] != last {
				return nil
			}
			for l, r := range partners(good) {
				if within(l, r, spec.Lower, spec.Upper) {
					want = append(want, stamped{Value: text(func(e func(string)) { pair(l.Left, r.Right, e) }), At: max(l.At, r.At)})
				}
			}
			return want
		}, anyOrder)
	})
}

// TestIntervalJoinKeepsRecordsFromBeforeAllTime, as long as no watermark has said anything.
func TestIntervalJoinKeepsRecordsFromBeforeAllTime(t *testing.T) {
	spec := join.Interval[int, rec, rec, string]{LeftKey: key, RightKey: key, Match: pair}
	l, r := spec.Stages()
	p := operatortest.NewPair(t, task.NewRuntime(t.Context(), operatortest.Name), l, r)
	p.PushLeft(t, rec{1, 1}, element.MinTime)
	p.PushRight(t, rec{1, 2}, element.MinTime)
	if out := p.Out(); len(out) != 1 {
		t.Errorf("one pair at the first instant of time: %v", out)
	}
}

// within compares in numbers that know no limits.
func within(l, r item, lower, upper element.Time) bool {
	d := new(big.Int).Sub(big.NewInt(int64(r.At)), big.NewInt(int64(l.At)))
	return d.Cmp(big.NewInt(int64(lower))) >= 0 && d.Cmp(big.NewInt(int64(upper))) <= 0
}

// state is what the tables of an operator take.
func state(rt *task.Runtime) int {
	n := 0
	for _, t := range rt.Tables() {
		n += t.Bytes()
	}
	return n
}

func TestIntervalJoinFreesWhatTheClockHasPassed(t *testing.T) {
	const second = element.Time(1_000_000)
	for name, limits := range map[string][2]element.Time{"before": {-10 * second, -5 * second}, "around": {-5 * second, 5 * second}, "after": {5 * second, 10 * second}} {
		spec := join.Interval[int, rec, rec, string]{LeftKey: key, RightKey: key, Match: pair, Lower: limits[0], Upper: limits[1]}
		l, r := spec.Stages()
		p := operatortest.NewPair(t, task.NewRuntime(t.Context(), operatortest.Name), l, r)
		empty, most := state(p.Runtime), 0
		for i := range element.Time(2000) {
			at := i * second / 10
			p.PushLeft(t, rec{int(i) % 100, int(i)}, at)
			p.PushRight(t, rec{int(i) % 100, int(i)}, at)
			if i%10 == 9 {
				p.Watermark(t, at)
			}
			if i == 500 {
				most = state(p.Runtime)
			}
		}
		if now := state(p.Runtime); most == empty || now > most*3/2 {
			t.Errorf("%s: %d bytes after 50 s, %d after 200 s", name, most, now)
		}
		p.Watermark(t, 300*second)
		if left := state(p.Runtime); left != empty {
			t.Errorf("%s: %d bytes are left, %d at first", name, left, empty)
		}
	}
}

func TestLateRecordsOfAnIntervalJoinAreCounted(t *testing.T) {
	l, r := join.Interval[int, rec, rec, string]{LeftKey: key, RightKey: key, Match: pair, Upper: 10}.Stages()
	p := operatortest.NewPair(t, task.NewRuntime(t.Context(), operatortest.Name), l, r)
	p.PushLeft(t, rec{1, 1}, 10)
	p.Watermark(t, 10)
	p.PushRight(t, rec{1, 2}, 10)
	p.PushRight(t, rec{1, 3}, 11)
	if out := p.Out(); len(out) != 1 || p.Runtime.Counters.Late != 1 {
		t.Errorf("emitted %v, %d late", out, p.Runtime.Counters.Late)
	}
}

func anyTime() *rapid.Generator[element.Time] {
	return rapid.Map(rapid.Int64Range(-20, 20), func(n int64) element.Time { return element.Time(n) })
}

func TestLatestIsTheNewestByEventTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := join.Latest[int, rec, rec, string]{LeftKey: key, RightKey: key, Found: pair, Missing: onlyLeft}
		operatortest.ConformPair(t, spec.Stages, drawItems(rt, anyTime()), func(done []item, end bool) []stamped {
			if end {
				return nil
			}
			last := done[len(done)-1]
			if last.Watermark || last.IsRight {
				return nil
			}
			var newest *item
			for _, r := range partners(done) {
				if newest == nil || r.At >= newest.At {
					newest = &r
				}
			}
			if newest == nil {
				return []stamped{{Value: text(func(e func(string)) { onlyLeft(last.Left, e) }), At: last.At}}
			}
			return []stamped{{Value: text(func(e func(string)) { pair(last.Left, newest.Right, e) }), At: last.At}}
		})
	})
}

func TestStreamingJoinPairsWhatLivesAndTakesNothingBack(t *testing.T) {
	for name, spec := range map[string]join.Streaming[int, rec, rec, string]{
		"inner": {},
		"left":  {LeftOnly: onlyLeft},
		"full":  {LeftOnly: onlyLeft, RightOnly: onlyRight},
	} {
		spec.LeftKey, spec.RightKey, spec.Match, spec.TTL = key, key, pair, time.Hour
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				operatortest.ConformPair(t, spec.Stages, drawItems(rt, anyTime()), func(done []item, end bool) (want []stamped) {
					if end {
						return nil
					}
					last := done[len(done)-1]
					if last.Watermark {
						return nil
					}
					for l, r := range partners(done) {
						want = append(want, stamped{Value: text(func(e func(string)) { pair(l.Left, r.Right, e) }), At: max(l.At, r.At)})
					}
					alone := spec.LeftOnly
					if last.IsRight {
						alone = spec.RightOnly
					}
					if len(want) == 0 && alone != nil {
						want = append(want, stamped{Value: text(func(e func(string)) { alone(record(last), e) }), At: last.At})
					}
					return want
				}, anyOrder)
			})
		})
	}
}

func TestRecordsOfAStreamingJoinAreForgottenAfterTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := join.Streaming[int, rec, rec, string]{LeftKey: key, RightKey: key, Match: pair, LeftOnly: onlyLeft, TTL: time.Minute}.Stages()
		rt := task.NewRuntime(t.Context(), operatortest.Name)
		p := operatortest.NewPair(t, rt, l, r)
		p.PushRight(t, rec{1, 1}, 0)
		<-time.After(59 * time.Second) // the bubble's time
		if err := rt.Maintain(); err != nil {
			t.Fatal(err)
		}
		p.PushLeft(t, rec{1, 2}, 0)
		<-time.After(time.Second)
		if err := rt.Maintain(); err != nil {
			t.Fatal(err)
		}
		p.PushLeft(t, rec{1, 3}, 0)
		p.PushRight(t, rec{1, 4}, 0)
		got := ""
		for _, s := range p.Out() {
			got += s.Value + " "
		}
		if got != "2+1 3+ 2+4 3+4 " {
			t.Errorf("emitted %q", got)
		}
		most := 0
		for round := range 10 {
			for range 1000 {
				p.PushLeft(t, rec{round, 5}, 0)
			}
			<-time.After(2 * time.Minute)
			for range 100 {
				if err := rt.Maintain(); err != nil {
					t.Fatal(err)
				}
			}
			if round == 1 {
				most = state(rt)
			}
		}
		if now := state(rt); now > most*3/2 {
			t.Errorf("%d bytes after two rounds, %d after ten, although everything has expired in between", most, now)
		}
	})
}

func TestJoinsAllocateNothingPerRecord(t *testing.T) {
	quiet := func(l, r rec, emit func(string)) {}
	alone := func(l rec, emit func(string)) {}
	for name, make := range map[string]func() (task.StageOf[rec, string], task.StageOf[rec, string]){
		"interval":  join.Interval[int, rec, rec, string]{LeftKey: key, RightKey: key, Match: quiet, Upper: 1}.Stages,
		"latest":    join.Latest[int, rec, rec, string]{LeftKey: key, RightKey: key, Found: quiet, Missing: alone}.Stages,
		"streaming": join.Streaming[int, rec, rec, string]{LeftKey: key, RightKey: key, Match: quiet, TTL: time.Hour}.Stages,
	} {
		l, r := make()
		rt := task.NewRuntime(t.Context(), operatortest.Name)
		p := operatortest.NewPair(t, rt, l, r)
		for i := range 4 * 32 { // so that lists have room
			p.PushLeft(t, rec{i % 4, i}, 1)
		}
		if n := testing.AllocsPerRun(500, func() { p.PushRight(t, rec{9, 1}, 1) }); n > 1 { // a list grows by runs
			t.Errorf("%s: %v allocations per record", name, n)
		}
	}
}
