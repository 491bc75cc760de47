package credit

import "github.com/sluiceio/sluice/internal/invariant"

// Ledger holds the accounts of the channels of one gate.
type Ledger struct {
	exclusive int
	free      int // floating buffers that no channel holds
	accounts  []account
	waiting   []int // channels with a backlog that found no floating buffer, in order of asking
	head      int   // of waiting
}

type account struct {
	out     int // buffers granted: unused, or carrying data until they are returned
	unused  int // of these, those that the producer has not used
	backlog int // buffers that the producer says it could fill at once
	queued  bool
	closed  bool
}

// Grant is further credit for a channel.
type Grant struct {
	Channel int
	Buffers int
}

// New opens the books: every channel starts with its exclusive credit granted.
func New(channels, exclusive, floating int) *Ledger {
	l := &Ledger{exclusive: exclusive, free: floating, accounts: make([]account, channels)}
	for i := range l.accounts {
		l.accounts[i].out, l.accounts[i].unused = exclusive, exclusive
	}
	return l
}

// Use spends one credit of channel c. False: it has none, so what arrived must not have been sent.
func (l *Ledger) Use(c int) bool {
	a := &l.accounts[c]
	if a.unused == 0 || a.closed {
		return false
	}
	a.unused--
	return true
}

// Unused is the credit that the producer of channel c has not used.
func (l *Ledger) Unused(c int) int { return l.accounts[c].unused }

// Out is the number of buffers that channel c holds.
func (l *Ledger) Out(c int) int { return l.accounts[c].out }

// Announce notes that the producer of channel c holds n buffers back, and returns the credit that it gets for them.
func (l *Ledger) Announce(c, n int) int {
	a := &l.accounts[c]
	if a.closed {
		return 0
	}
	a.backlog = n
	granted := 0
	for a.unused < a.backlog && l.free > 0 {
		l.lend(a)
		granted++
	}
	l.queue(c)
	return granted
}

// lend moves one floating buffer to a.
func (l *Ledger) lend(a *account) {
	if invariant.Enabled {
		invariant.That(l.free > 0, "a floating buffer is lent, and none is free")
	}
	l.free--
	a.out++
	a.unused++
}

func (l *Ledger) queue(c int) {
	if a := &l.accounts[c]; !a.queued && a.unused < a.backlog {
		a.queued = true
		l.waiting = append(l.waiting, c)
	}
}

// Return gives back a buffer of channel c that was used. The credit goes to c again if it is one of its own, else to
// the channel that has waited longest.
func (l *Ledger) Return(c int) (Grant, bool) {
	a := &l.accounts[c]
	if invariant.Enabled {
		invariant.That(a.out > a.unused, "channel %d returns a buffer, and has %d of which %d are unused", c, a.out, a.unused)
	}
	a.out--
	switch {
	case a.out >= l.exclusive:
		l.free++
		return l.serve()
	case a.closed:
		return Grant{}, false
	}
	a.out++
	a.unused++
	return Grant{Channel: c, Buffers: 1}, true
}

// serve lends a free floating buffer to the first channel that still needs one.
func (l *Ledger) serve() (Grant, bool) {
	for l.free > 0 && l.head < len(l.waiting) {
		c := l.waiting[l.head]
		if l.head++; l.head*2 > len(l.waiting) {
			l.waiting, l.head = append(l.waiting[:0], l.waiting[l.head:]...), 0
		}
		a := &l.accounts[c]
		a.queued = false
		if a.closed || a.unused >= a.backlog {
			continue
		}
		l.lend(a)
		l.queue(c)
		return Grant{Channel: c, Buffers: 1}, true
	}
	return Grant{}, false
}

// Close ends channel c: its unused credit is void. Buffers in hand are still returned. The floating buffers that this
// sets free go to those who wait; the grants are appended to dst.
func (l *Ledger) Close(c int, dst []Grant) []Grant {
	a := &l.accounts[c]
	if a.closed {
		return dst
	}
	before := max(0, a.out-l.exclusive)
	a.out -= a.unused
	a.unused, a.backlog, a.closed = 0, 0, true
	l.free += before - max(0, a.out-l.exclusive)
	for {
		g, ok := l.serve()
		if !ok {
			return dst
		}
		dst = append(dst, g)
	}
}
