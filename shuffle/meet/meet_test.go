package meet

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the order in which attempts come and go: partners have equal fences, nobody older than one who was here
// sits down, and nobody newer is ever displaced.
func TestOnlyEqualFencesMeetAndAgeDecidesTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &Meeting[int]{}
		var newest Fence
		fences := map[int]Fence{} // of the ends that are here, by number
		seated := [2]int{-1, -1}
		for number := range rapid.IntRange(1, 40).Draw(t, "steps") {
			s := Side(rapid.IntRange(0, 1).Draw(t, "side"))
			if seated[s] >= 0 && rapid.IntRange(0, 4).Draw(t, "leave") == 0 {
				m.Leave(s, fences[seated[s]])
				seated[s] = -1
				continue
			}
			f := Fence{
				JobEpoch: rapid.Uint64Range(1, 2).Draw(t, "job epoch"), RegionEpoch: rapid.Uint64Range(1, 3).Draw(t, "region epoch"),
				Producer: rapid.Uint32Range(1, 2).Draw(t, "producer"), Consumer: rapid.Uint32Range(1, 2).Draw(t, "consumer"),
			}
			r, v := m.Enter(s, f, number)
			if older := f.Compare(newest) < 0; older != (v == Stale) {
				t.Fatalf("%+v after %+v: verdict %d", f, newest, v)
			}
			if v != Accepted {
				continue
			}
			if want := seated[1-s] >= 0 && fences[seated[1-s]] == f; r.Paired != want || want && r.Partner != seated[1-s] {
				t.Fatalf("%+v: %+v, the other seat has %d", f, r, seated[1-s])
			}
			for i, was := range seated {
				displaced := slices.Contains(r.Displaced, was)
				if displaced && fences[was].Compare(f) >= 0 {
					t.Fatalf("%+v displaces %+v", f, fences[was])
				}
				if displaced {
					seated[i] = -1
				}
			}
			seated[s], fences[number], newest = number, f, f
			if found, v := m.Find(f); s == Producing && (v != Accepted || found != number) {
				t.Fatalf("asked for %+v: %d, verdict %d", f, found, v)
			}
			here := m.Here()
			for _, e := range seated {
				if e >= 0 != slices.Contains(here, e) && e >= 0 {
					t.Fatalf("%v are here, %v should be", here, seated)
				}
			}
		}
	})
}

func TestARequestIsJudgedByAge(t *testing.T) {
	m := &Meeting[string]{}
	f := Fence{Job: "j", JobEpoch: 2, Region: 1, RegionEpoch: 5, Producer: 3, Consumer: 4}
	at := func(change func(*Fence)) Fence { g := f; change(&g); return g }
	if _, v := m.Find(f); v != NotYet {
		t.Errorf("before anyone came: %d", v)
	}
	if _, v := m.Enter(Producing, f, "writer"); v != Accepted {
		t.Fatal(v)
	}
	for name, c := range map[string]struct {
		f    Fence
		want Verdict
	}{
		"equal":                  {f, Accepted},
		"next region epoch":      {at(func(g *Fence) { g.RegionEpoch++; g.Producer = 0 }), NotYet},
		"next job, other region": {at(func(g *Fence) { g.JobEpoch++; g.Region = 9 }), NotYet},
		"last region epoch":      {at(func(g *Fence) { g.RegionEpoch--; g.Consumer = 99 }), Stale},
		"last job":               {at(func(g *Fence) { g.JobEpoch--; g.RegionEpoch = 99 }), Stale},
		"other region":           {at(func(g *Fence) { g.Region++ }), Foreign},
		"other job":              {at(func(g *Fence) { g.Job = "k" }), Foreign},
	} {
		if _, v := m.Find(c.f); v != c.want {
			t.Errorf("%s: verdict %d, want %d", name, v, c.want)
		}
	}
	if _, v := m.Enter(Producing, f, "again"); v != Foreign {
		t.Errorf("the same attempt twice: %d", v)
	}
	m.Leave(Producing, f)
	if _, v := m.Find(f); v != Gone {
		t.Errorf("after it has left: %d", v)
	}
	if _, v := m.Enter(Consuming, f, "late"); v != Gone {
		t.Errorf("a partner that comes late: %d", v)
	}
}
