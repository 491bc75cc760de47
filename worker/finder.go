package worker

import (
	"slices"
	"sync"
	"time"
)

// finder knows where the leader may be: the last one, whom a follower named, and every coordinator that the worker was
// started with.
type finder struct {
	mu struct {
		sync.Mutex
		join  []string // in the order in which they are asked
		last  string   // the leader of the newest session
		hints []string // addresses named by followers since, newest first
	}
}

// maxHints bounds how long a chain of followers that point at each other is followed.
const maxHints = 4

func newFinder(join []string) *finder {
	f := &finder{}
	f.mu.join = slices.Clone(join)
	return f
}

// candidates is everyone who could be asked, the likeliest first, each once.
func (f *finder) candidates() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, addr := range slices.Concat(f.mu.hints, []string{f.mu.last}, f.mu.join) {
		if addr != "" && !slices.Contains(all, addr) {
			all = append(all, addr)
		}
	}
	return all
}

// hint notes whom a follower takes for the leader.
func (f *finder) hint(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.hints = append([]string{addr}, slices.DeleteFunc(f.mu.hints, func(h string) bool { return h == addr })...)
	f.mu.hints = f.mu.hints[:min(len(f.mu.hints), maxHints)]
}

// found notes the leader of a session.
func (f *finder) found(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.last, f.mu.hints = addr, nil
}

// suspect puts a coordinator that has stopped to answer behind all others: waiting for it once more would take the time
// in which its successor has to be found.
func (f *finder) suspect(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.last == addr {
		f.mu.last = ""
	}
	f.mu.hints = slices.DeleteFunc(f.mu.hints, func(h string) bool { return h == addr })
	if i := slices.Index(f.mu.join, addr); i >= 0 {
		f.mu.join = append(slices.Delete(f.mu.join, i, i+1), addr)
	}
}

// Pauses between two rounds through all candidates. They stay far below the loss timeout: a new leader gives every
// worker that long to come.
const (
	firstSearch = 50 * time.Millisecond
	lastSearch  = 500 * time.Millisecond
)
