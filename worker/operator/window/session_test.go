package window_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	win "github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
)

// sessionModel keeps the records of every session, and says what is emitted and how many records are late.
func sessionModel(spec win.Session, lateness element.Time, items []item) (all []refired, late int64) {
	type open struct {
		refired
		waits bool
		fired int
	}
	var sessions []open
	wm := element.MinTime
	over := func(w win.Window) bool { return w.End+lateness <= wm }
	for _, it := range append(items, item{At: element.MaxTime - 1, Watermark: true}) {
		if it.Watermark {
			var now []refired
			wm = it.At
			for i := range sessions {
				if s := &sessions[i]; s.waits && s.Win.End <= wm {
					now = append(now, refired{s.Key, s.Win, s.fired, s.Sum})
					s.waits = false
					s.fired++
				}
			}
			sessions = slices.DeleteFunc(sessions, func(s open) bool { return over(s.Win) })
			sort(now)
			all = append(all, now...)
			continue
		}
		merged := open{refired: refired{Key: it.Value.Key, Win: spec.Assign(it.At), Sum: it.Value.N}, waits: true}
		w := merged.Win
		rest := sessions[:0:0]
		for _, s := range sessions {
			if s.Key == merged.Key && s.Win.Meets(w) {
				merged.Win, merged.Sum, merged.fired = merged.Win.Cover(s.Win), merged.Sum+s.Sum, max(merged.fired, s.fired)
			} else {
				rest = append(rest, s)
			}
		}
		if over(merged.Win) {
			late++
			continue
		}
		if merged.Win.End <= wm {
			all = append(all, refired{merged.Key, merged.Win, merged.fired, merged.Sum})
			merged.waits = false
			merged.fired++
		}
		sessions = append(rest, merged)
	}
	return all, late
}

// checkSessions plays items, and compares what is emitted with the model.
func checkSessions(t *testing.T, rt *rapid.T, spec win.Session, lateness int64, items []item) {
	want, late := sessionModel(spec, element.Time(lateness), items)
	h := operatortest.New(t, sessions(spec, lateSums(lateness)))
	var got []refired
	take := func() {
		var now []refired
		for _, o := range h.Out() {
			now = append(now, o.Value)
		}
		sort(now)
		got = append(got, now...)
	}
	for _, it := range items {
		if it.Watermark {
			h.Watermark(t, it.At)
		} else {
			h.Push(t, it.Value, it.At)
		}
		take()
	}
	h.Watermark(t, element.MaxTime-1)
	take()
	if !slices.Equal(got, want) {
		rt.Fatalf("gap %d, lateness %d\ngot  %v\nwant %v", spec.Gap, lateness, got, want)
	}
	if h.Runtime.Counters.Late != late {
		rt.Fatalf("%d late records, want %d", h.Runtime.Counters.Late, late)
	}
}

func TestSessionsAreWhatTheModelSaysWithAndWithoutLateness(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := win.Session{Gap: element.Time(rapid.Int64Range(1, 20).Draw(rt, "gap_us"))}
		checkSessions(t, rt, spec, rapid.Int64Range(0, 30).Draw(rt, "lateness_us"), drawItems(rt))
	})
}

func TestCrowdsOfSessionsAreWhatTheModelSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := win.Session{Gap: element.Time(rapid.Int64Range(1, 20).Draw(rt, "gap_us"))}
		items := crowdItems(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(100, 600).Draw(rt, "records"))
		checkSessions(t, rt, spec, rapid.Int64Range(0, 2000).Draw(rt, "lateness_us"), items)
	})
}

func TestSessionStateIsGoneWhenTheSessionsAre(t *testing.T) {
	h := operatortest.New(t, sessions(win.Session{Gap: 10}, lateSums(0)))
	for i := range int64(20_000) {
		h.Push(t, event{i, 1}, element.Time(i%100))
	}
	h.Watermark(t, 1)
	h.Watermark(t, 1000)
	full := h.StateBytes()
	if full < 20_000*40 {
		t.Fatalf("%d bytes", full)
	}
	for wave := range int64(5) { // they take the places of those that are gone
		from := element.Time(2000 * (wave + 1))
		for i := range int64(20_000) {
			h.Push(t, event{1_000_000*wave + i, 1}, from+element.Time(i%100))
		}
		h.Watermark(t, from+1000)
	}
	if got := h.StateBytes(); got > full/10*15 {
		t.Errorf("%d bytes after %d: sessions that are over are kept", got, full)
	}
}

// TestKeysThatComeAndGoCostNothing: the tables do not grow with the number of keys ever seen.
func TestKeysThatComeAndGoCostNothing(t *testing.T) {
	h := operatortest.New(t, sessions(win.Session{Gap: 10}, lateSums(0)))
	h.Discard()
	for i := range int64(200_000) {
		h.Push(t, event{i, 1}, element.Time(i))
		if i%100 == 0 {
			h.Watermark(t, element.Time(i))
		}
	}
	if got := h.StateBytes(); got > 1<<20 {
		t.Errorf("%d bytes for about a hundred sessions", got)
	}
}

func BenchmarkSessionRecord(b *testing.B) {
	for _, keys := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%d keys", keys), func(b *testing.B) {
			h := operatortest.New(b, sessions(win.Session{Gap: 1_000_000}, lateSums(0)))
			h.Discard()
			b.ReportAllocs()
			for i := range b.N {
				h.Push(b, event{int64(i % keys), 1}, element.Time(i))
				if i%512 == 0 {
					h.Watermark(b, element.Time(i))
				}
			}
		})
	}
}
