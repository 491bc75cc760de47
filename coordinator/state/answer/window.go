package answer

import "sync"

// WindowSize is how many values of the chain are remembered.
const WindowSize = 4096

// Window remembers the newest values of the chain, so that nodes that are not equally far can be compared.
type Window struct {
	mu struct {
		sync.Mutex
		link [WindowSize]link
		n    uint64 // added so far
	}
}

type link struct {
	index uint64
	chain Chain
}

// Add appends the value behind an entry.
func (w *Window) Add(index uint64, c Chain) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.link[w.mu.n%WindowSize] = link{index: index, chain: c}
	w.mu.n++
}

// At is the value behind the newest entry that is remembered up to an index; false: that was never known, or is forgotten.
func (w *Window) At(index uint64) (Chain, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.n == 0 || w.mu.link[(w.mu.n-1)%WindowSize].index < index {
		return Chain{}, false
	}
	for i := uint64(1); i <= min(w.mu.n, WindowSize); i++ {
		if l := w.mu.link[(w.mu.n-i)%WindowSize]; l.index <= index {
			return l.chain, true
		}
	}
	return Chain{}, false
}
