package shuffle

import (
	"testing"

	"pgregory.net/rapid"
)

func TestARequestIsAdmittedByWhatKindOfResultItAsksFor(t *testing.T) {
	for _, c := range []struct {
		result Result
		p      Progress
		reads  int
		want   Reason
	}{
		{Pipelined(), Producing, 0, none},
		{Pipelined(), Finished, 0, none},
		{Pipelined(), Producing, 1, Gone}, // what was read is gone
		{Blocking(), Producing, 0, notYet},
		{Blocking(), Finished, 0, none},
		{Blocking(), Finished, 5, none},
		{Result{WhenFinished, Once}, Producing, 1, notYet},
		{Result{WhenFinished, Once}, Finished, 1, Gone},
		{Result{WhileProduced, Again}, Producing, 3, none},
	} {
		if got := c.result.admit(c.p, c.reads); got != c.want {
			t.Errorf("%+v at %d after %d reads: %v, want %v", c.result, c.p, c.reads, got, c.want)
		}
	}
	if !Pipelined().JoinsRegion() || Blocking().JoinsRegion() {
		t.Error("only a pipelined result joins its producer and consumer into a region")
	}
}

// ending is an end of a channel that remembers how it was failed.
type ending struct{ reasons []Reason }

func (e *ending) lose(r Reason, _ error) { e.reasons = append(e.reasons, r) }

// Whatever the order in which attempts come and go: partners have equal fences, nobody older than one who was here
// sits down, and nobody newer is ever displaced.
func TestOnlyEqualFencesMeetAndAgeDecidesTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &meeting{}
		var newest Fence
		seated := [2]*ending{}
		fences := [2]Fence{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			s := side(rapid.IntRange(0, 1).Draw(t, "side"))
			if seated[s] != nil && rapid.IntRange(0, 4).Draw(t, "leave") == 0 {
				m.leave(s, fences[s])
				seated[s] = nil
				continue
			}
			f := Fence{
				JobEpoch: rapid.Uint64Range(1, 2).Draw(t, "job epoch"), RegionEpoch: rapid.Uint64Range(1, 3).Draw(t, "region epoch"),
				Producer: rapid.Uint32Range(1, 2).Draw(t, "producer"), Consumer: rapid.Uint32Range(1, 2).Draw(t, "consumer"),
			}
			e := &ending{}
			r, reason := m.enter(s, f, e)
			if older := f.compare(newest) < 0; older != (reason == Stale) {
				t.Fatalf("%+v after %+v: %v", f, newest, reason)
			}
			if reason != none {
				continue
			}
			if (r.partner != nil) != (seated[1-s] != nil && fences[1-s] == f) {
				t.Fatalf("%+v meets %v, the other is %+v", f, r.partner, fences[1-s])
			}
			for _, d := range r.displaced {
				for i, was := range seated {
					if d == endpoint(was) && fences[i].compare(f) >= 0 {
						t.Fatalf("%+v displaces %+v", f, fences[i])
					} else if d == endpoint(was) {
						seated[i] = nil
					}
				}
			}
			seated[s], fences[s], newest = e, f, f
			if found, reason := m.find(f); s == producing && (reason != none || found != endpoint(e)) {
				t.Fatalf("asked for %+v: %v", f, reason)
			}
		}
	})
}
