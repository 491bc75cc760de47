package state

// blockBits is the number of elements of a block of a slab, as a power of two. Blocks never move: pointers to
// elements stay valid while the slab grows.
const (
	blockBits = 11
	blockLen  = 1 << blockBits
)

// slab is an array by id that grows by blocks.
type slab[T any] struct {
	blocks []*[blockLen]T
}

// at is element id; nil if its block does not exist.
func (s *slab[T]) at(id uint32) *T {
	if i := int(id >> blockBits); i < len(s.blocks) && s.blocks[i] != nil {
		return &s.blocks[i][id%blockLen]
	}
	return nil
}

// ensure is element id, of a new block if it has to be.
func (s *slab[T]) ensure(id uint32) *T {
	i := int(id >> blockBits)
	for i >= len(s.blocks) {
		s.blocks = append(s.blocks, nil)
	}
	if s.blocks[i] == nil {
		s.blocks[i] = new([blockLen]T)
	}
	return &s.blocks[i][id%blockLen]
}

// count is the number of blocks that exist.
func (s *slab[T]) count() int {
	n := 0
	for _, b := range s.blocks {
		if b != nil {
			n++
		}
	}
	return n
}

// logLen is the number of elements of a block of a log.
const logLen = 512

// log is an append-only sequence. It grows by blocks, so that no append copies what is there, and is dropped as a whole.
type log[T any] struct {
	blocks [][]T
}

func (l *log[T]) push(v T) {
	n := len(l.blocks)
	if n == 0 || len(l.blocks[n-1]) == logLen {
		l.blocks = append(l.blocks, make([]T, 0, logLen))
		n++
	}
	l.blocks[n-1] = append(l.blocks[n-1], v)
}

// backward calls f for every element, the newest first.
func (l *log[T]) backward(f func(*T)) {
	for i := len(l.blocks) - 1; i >= 0; i-- {
		for j := len(l.blocks[i]) - 1; j >= 0; j-- {
			f(&l.blocks[i][j])
		}
	}
}

// join appends those elements of o for which keep is true.
func (l *log[T]) join(o *log[T], keep func(*T) bool) {
	for _, b := range o.blocks {
		for j := range b {
			if keep(&b[j]) {
				l.push(b[j])
			}
		}
	}
}

// arenaLen is the size of a block of an arena, in bytes.
const arenaLen = 64 << 10

// arena copies byte strings into large blocks. Nothing is freed one by one.
type arena struct {
	free []byte
}

func (a *arena) copy(b []byte) []byte {
	if len(b) > arenaLen/4 {
		return append(make([]byte, 0, len(b)), b...)
	}
	if len(a.free) < len(b) {
		a.free = make([]byte, arenaLen)
	}
	c := a.free[:len(b):len(b)]
	copy(c, b)
	a.free = a.free[len(b):]
	return c
}
