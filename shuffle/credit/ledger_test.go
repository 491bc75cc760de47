package credit

import (
	"testing"

	"pgregory.net/rapid"
)

// model is the producers' view: what they were granted and what they hold back.
type model struct {
	l                             *Ledger
	channels, exclusive, floating int
	credit, hand, backlog         []int
	closed                        []bool
}

func (m *model) check(t *rapid.T) {
	total := 0
	for c := range m.channels {
		if m.l.Unused(c) != m.credit[c] {
			t.Fatalf("channel %d: ledger says %d unused, producer has %d", c, m.l.Unused(c), m.credit[c])
		}
		own := m.credit[c] + m.hand[c]
		if !m.closed[c] && own < m.exclusive {
			t.Fatalf("channel %d holds %d buffers, %d are its own", c, own, m.exclusive)
		}
		total += max(own, m.exclusive)
		if !m.closed[c] && m.backlog[c] > m.credit[c] && m.l.free > 0 {
			t.Fatalf("channel %d waits with %d floating buffers free", c, m.l.free)
		}
	}
	if most := m.channels*m.exclusive + m.floating; total > most {
		t.Fatalf("%d buffers out, at most %d exist", total, most)
	}
	if free := m.channels*m.exclusive + m.floating - total; m.l.free != free {
		t.Fatalf("ledger thinks %d are free, %d are", m.l.free, free)
	}
}

func TestBuffersAreNeitherLostNorInvented(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{channels: rapid.IntRange(1, 6).Draw(t, "channels"), exclusive: rapid.IntRange(1, 3).Draw(t, "exclusive"), floating: rapid.IntRange(0, 4).Draw(t, "floating")}
		m.l = New(m.channels, m.exclusive, m.floating)
		m.hand, m.backlog, m.closed = make([]int, m.channels), make([]int, m.channels), make([]bool, m.channels)
		for range m.channels {
			m.credit = append(m.credit, m.exclusive)
		}
		channel := rapid.IntRange(0, m.channels-1)
		t.Repeat(map[string]func(*rapid.T){
			"use": func(t *rapid.T) {
				c := channel.Draw(t, "channel")
				if got, want := m.l.Use(c), m.credit[c] > 0; got != want {
					t.Fatalf("use on channel %d with credit %d: %v", c, m.credit[c], got)
				} else if got {
					m.credit[c]--
					m.hand[c]++
					m.backlog[c] = max(0, m.backlog[c]-1)
					m.credit[c] += m.l.Announce(c, m.backlog[c])
				}
			},
			"announce": func(t *rapid.T) {
				c := channel.Draw(t, "channel")
				if m.closed[c] {
					return
				}
				m.backlog[c] = rapid.IntRange(0, 5).Draw(t, "backlog")
				m.credit[c] += m.l.Announce(c, m.backlog[c])
			},
			"return": func(t *rapid.T) {
				c := channel.Draw(t, "channel")
				if m.hand[c] == 0 {
					return
				}
				m.hand[c]--
				if g, ok := m.l.Return(c); ok {
					m.credit[g.Channel] += g.Buffers
				}
			},
			"close": func(t *rapid.T) {
				c := channel.Draw(t, "channel")
				if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
					return
				}
				m.closed[c], m.credit[c], m.backlog[c] = true, 0, 0
				for _, g := range m.l.Close(c, nil) {
					m.credit[g.Channel] += g.Buffers
				}
			},
			"": m.check,
		})
	})
}

func TestAChannelThatWaitsIsServedInTurn(t *testing.T) {
	l := New(3, 1, 1)
	for c := range 3 {
		l.Use(c)
	}
	if l.Announce(0, 1) != 1 || l.Announce(1, 1) != 0 || l.Announce(2, 1) != 0 {
		t.Fatal("the one floating buffer goes to the first")
	}
	l.Use(0)
	var order []int
	for range 4 { // channel 0 returns its floating buffer; then 1 and 2 take turns
		c := 0
		if len(order) > 0 {
			c = order[len(order)-1]
			l.Use(c)
		}
		g, ok := l.Return(c)
		if !ok {
			t.Fatal("no grant while channels wait")
		}
		order = append(order, g.Channel)
		l.Announce(g.Channel, 1+l.Unused(g.Channel))
	}
	if order[0] != 1 || order[1] != 2 || order[2] != 1 || order[3] != 2 {
		t.Fatalf("served %v", order)
	}
}
