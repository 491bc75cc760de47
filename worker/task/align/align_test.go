package align

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func TestAMemberIsWokenWhenItsGroupHasComeSoFar(t *testing.T) {
	g := New(time.Now)
	woken := 0
	fast, slow := g.Join("bids", func() { woken++ }), g.Join("bids", func() { t.Error("nobody waits for that") })
	other := g.Join("rates", func() { t.Error("another group") })
	other.Stand(1)
	fast.Stand(100)
	if at := slow.Stand(10); at != 10 {
		t.Errorf("the group stands at %d", at)
	}
	if _, wait := fast.Wait(50); !wait {
		t.Error("it need not wait")
	}
	slow.Stand(49)
	if woken != 0 {
		t.Error("woken too early")
	}
	slow.Stand(50)
	if woken != 1 {
		t.Errorf("woken %d times", woken)
	}
	if _, wait := fast.Wait(50); wait {
		t.Error("it waits for what is so")
	}
	fast.Wait(90)
	slow.Leave()
	if woken != 2 {
		t.Errorf("woken %d times when nobody else was left", woken)
	}
	fast.Leave()
	fast.Leave()
	if at := fast.Stand(3); at != element.MaxTime {
		t.Errorf("somebody who has left stands in a group at %d", at)
	}
}

// Without a leader nothing new is heard, and what runs goes on.
func TestWhatWasHeardOfOthersBecomesOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(time.Now)
		m := g.Join("bids", func() {})
		m.Stand(1000)
		g.Hear([]*taskpb.GroupClock{{Group: "bids", WatermarkUs: 10}, {Group: "rates", WatermarkUs: 1}})
		again, wait := m.Wait(500)
		if !wait || !again.Equal(time.Now().Add(StaleAfter)) {
			t.Errorf("waits: %t, until %v", wait, again)
		}
		<-time.After(StaleAfter)
		if _, wait := m.Wait(500); wait {
			t.Error("it waits for what was said long ago")
		}
		g.Hear(nil)
		if at := m.Stand(1000); at != 1000 {
			t.Errorf("others without an active split hold the group at %d", at)
		}
	})
}

// The group is the minimum over whoever is active, in any history; a waiting member is woken exactly when it has come so far.
func TestAGroupStandsAtItsLowestMember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		g := New(func() time.Time { return now })
		const members = 3
		type model struct {
			m       *Member
			at      element.Time
			need    element.Time
			waits   bool
			woken   bool
			present bool
		}
		all := make([]*model, members)
		far, heard := element.MaxTime, time.Time{}
		stand := func() element.Time {
			at := element.MaxTime
			for _, x := range all {
				if x.present {
					at = min(at, x.at)
				}
			}
			if !heard.IsZero() && now.Sub(heard) < StaleAfter {
				at = min(at, far)
			}
			return at
		}
		for i := range all {
			x := &model{at: element.MaxTime, present: true}
			x.m = g.Join("g", func() { x.woken = true })
			all[i] = x
		}
		moment := rapid.Map(rapid.Int64Range(0, 20), func(v int64) element.Time { return element.Time(v) })
		for range rapid.IntRange(1, 60).Draw(t, "changes") {
			x := all[rapid.IntRange(0, members-1).Draw(t, "member")]
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "seconds")) * time.Second)
				for _, x := range all {
					x.waits = x.waits && stand() < x.need // it has asked for a time to look again
				}
				continue
			case 1:
				far, heard = element.MaxTime, now
				var said []*taskpb.GroupClock
				if rapid.Bool().Draw(t, "far") {
					far = moment.Draw(t, "far at")
					said = []*taskpb.GroupClock{{Group: "g", WatermarkUs: int64(far)}}
				}
				if !allGone(all, func(x *model) bool { return x.present }) {
					g.Hear(said)
				} else {
					heard = time.Time{}
				}
			case 2:
				if x.present {
					x.m.Leave()
					x.present, x.waits = false, false
				}
			case 3:
				if !x.present {
					continue
				}
				need := moment.Draw(t, "need")
				_, wait := x.m.Wait(need)
				if want := stand() < need; wait != want {
					t.Fatalf("waits %t for %d, the group stands at %d", wait, need, stand())
				}
				x.need, x.waits, x.woken = need, wait, false
			default:
				if !x.present {
					continue
				}
				x.at = moment.Draw(t, "at")
				if rapid.Bool().Draw(t, "active") {
					x.at = element.MaxTime
				}
				if at := x.m.Stand(x.at); at != stand() {
					t.Fatalf("the group stands at %d, want %d", at, stand())
				}
			}
			for i, x := range all {
				if x.waits && stand() >= x.need && !x.woken && x.present {
					t.Fatalf("member %d waits for %d, and the group stands at %d", i, x.need, stand())
				}
				if x.woken {
					x.waits = false
				}
			}
			if allGone(all, func(x *model) bool { return x.present }) {
				heard = time.Time{} // a group ends with its last member
			}
		}
	})
}

func allGone[T any](all []T, present func(T) bool) bool {
	for _, x := range all {
		if present(x) {
			return false
		}
	}
	return true
}
