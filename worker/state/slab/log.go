package slab

// NoID is the id of a place in a log that holds nothing.
const NoID = ^uint32(0)

// logLen is the number of entries of a block of a log.
const logLen = 512

// Pre is the pre-image of unit ID: its word and what it was.
type Pre[P any] struct {
	ID, Word uint32
	Was      P
}

// Log is a set of pre-images, one per unit at most. It grows by blocks, so that no addition copies what is there.
// Pre-images may be taken out again; then their places are reused.
type Log[P any] struct {
	meter  *Meter
	size   int // of a block, in bytes
	blocks []*[logLen]Pre[P]
	end    uint32 // places from here on were never used
	free   []uint32
	// index finds the places of ids, once somebody has looked for one: places below indexed are in it.
	index   Index
	indexed uint32
	lookups Meter // the index, counted here to be given back as a whole
}

// NewLog makes an empty log.
func NewLog[P any](m *Meter, entryBytes int) Log[P] {
	return Log[P]{meter: m, size: entryBytes * logLen}
}

func (l *Log[P]) at(pos uint32) *Pre[P] { return &l.blocks[pos/logLen][pos%logLen] }

// Push adds a pre-image.
func (l *Log[P]) Push(id, word uint32, was P) {
	if n := len(l.free); n > 0 {
		pos := l.free[n-1]
		l.free = l.free[:n-1]
		*l.at(pos) = Pre[P]{id, word, was}
		if pos < l.indexed {
			l.index.Insert(spread(id), pos)
		}
		return
	}
	if int(l.end/logLen) == len(l.blocks) {
		l.blocks = append(l.blocks, new([logLen]Pre[P]))
		l.meter.Add(l.size)
	}
	*l.at(l.end) = Pre[P]{id, word, was}
	l.end++
}

// spread makes a hash of an id.
func spread(id uint32) uint64 {
	x := uint64(id) * 0x9e3779b97f4a7c15
	return x ^ x>>32
}

// Take removes the pre-image of id; ok is false if there is none.
func (l *Log[P]) Take(id uint32) (pre Pre[P], ok bool) {
	l.catchUp()
	h := spread(id)
	head, i := l.index.Head(h), h
	for pos, found := head.Find(h, &i); found; pos, found = head.Find(h, &i) {
		p := l.at(pos)
		if p.ID != id {
			continue
		}
		l.index.Remove(h, pos)
		pre = *p
		*p = Pre[P]{ID: NoID}
		l.free = append(l.free, pos)
		return pre, true
	}
	return pre, false
}

// catchUp indexes what was pushed since the last look: those who never look pay nothing.
func (l *Log[P]) catchUp() {
	before := l.lookups.Bytes()
	if l.index.heads == nil {
		l.index = NewIndex(&l.lookups, func(pos uint32) uint64 { return spread(l.at(pos).ID) })
	}
	for ; l.indexed < l.end; l.indexed++ {
		if id := l.at(l.indexed).ID; id != NoID {
			l.index.Insert(spread(id), l.indexed)
		}
	}
	l.meter.Add(int(l.lookups.Bytes() - before))
}

// Each calls f for every pre-image.
func (l *Log[P]) Each(f func(*Pre[P])) {
	for i, b := range l.blocks {
		for j := range b[:min(logLen, int(l.end)-i*logLen)] {
			if b[j].ID != NoID {
				f(&b[j])
			}
		}
	}
}

// Len is the number of pre-images.
func (l *Log[P]) Len() int { return int(l.end) - len(l.free) }

// Release stops counting the memory of the log, which must not be used again.
func (l *Log[P]) Release() {
	l.meter.Add(-len(l.blocks)*l.size - int(l.lookups.Bytes()))
	l.blocks = nil
}

// ByteLog is a log of encoded pre-images, whose bytes lie in an arena.
type ByteLog struct {
	Log[[]byte]
	arena arena
	live  int // bytes
}

// NewByteLog makes an empty log.
func NewByteLog(m *Meter) ByteLog {
	return ByteLog{Log: NewLog[[]byte](m, 32), arena: arena{meter: m}}
}

// Push adds a pre-image; was is copied.
func (l *ByteLog) Push(id, word uint32, was []byte) {
	l.live += len(was)
	l.Log.Push(id, word, l.arena.copy(was))
}

// Take is Log.Take; the bytes are valid until the next call of Push or Take.
func (l *ByteLog) Take(id uint32) (Pre[[]byte], bool) {
	if l.arena.used > 2*l.live+arenaLen {
		l.compact()
	}
	p, ok := l.Log.Take(id)
	l.live -= len(p.Was)
	return p, ok
}

// compact moves the bytes together that are still needed.
func (l *ByteLog) compact() {
	old := l.arena
	l.arena = arena{meter: old.meter}
	l.Each(func(p *Pre[[]byte]) { p.Was = l.arena.copy(p.Was) })
	old.release()
}

// Release is Log.Release.
func (l *ByteLog) Release() {
	l.Log.Release()
	l.arena.release()
}

// arenaLen is the size of a block of an arena, in bytes.
const arenaLen = 64 << 10

// arena copies byte strings into large blocks. Nothing is freed one by one.
type arena struct {
	meter *Meter
	free  []byte
	used  int // bytes of all blocks
}

func (a *arena) copy(b []byte) []byte {
	if len(b) > arenaLen/4 {
		a.count(len(b))
		return append(make([]byte, 0, len(b)), b...)
	}
	if len(a.free) < len(b) {
		a.free = make([]byte, arenaLen)
		a.count(arenaLen)
	}
	c := a.free[:len(b):len(b)]
	copy(c, b)
	a.free = a.free[len(b):]
	return c
}

func (a *arena) count(n int) {
	a.used += n
	a.meter.Add(n)
}

func (a *arena) release() { a.meter.Add(-a.used) }
