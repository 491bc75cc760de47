package slab

import "unsafe"

// NoID is the id of a place in a log that holds nothing.
const NoID = ^uint32(0)

// logLen is the number of entries of a block of a log.
const logLen = 512

// mark says of which unit a pre-image is, and its word.
type mark struct{ id, word uint32 }

// Log is a set of pre-images, one per unit at most. It grows by blocks, so that no addition copies what is there.
// Pre-images may be taken out again; then their places are reused.
type Log struct {
	meter *Meter
	kind  *Kind
	marks []*[logLen]mark
	was   []Place // blocks of logLen values
	end   uint32  // places from here on were never used
	free  []uint32
	// index finds the places of ids, once somebody has looked for one: places below indexed are in it.
	index   Index
	indexed uint32
	lookups Meter // the index, counted here to be given back as a whole
}

// NewLog makes an empty log.
func NewLog(m *Meter, k *Kind) Log { return Log{meter: m, kind: k} }

func (l *Log) mark(pos uint32) *mark { return &l.marks[pos/logLen][pos%logLen] }

func (l *Log) value(pos uint32) Place {
	return unsafe.Add(l.was[pos/logLen], uintptr(pos%logLen)*l.kind.Size())
}

// blockBytes is the size of a block.
func (l *Log) blockBytes() int { return logLen * (int(unsafe.Sizeof(mark{})) + int(l.kind.Size())) }

// Push adds a pre-image, and copies it.
func (l *Log) Push(id, word uint32, was Place) { l.kind.Move(l.place(id, word), was) }

// place is where the pre-image of a unit goes.
func (l *Log) place(id, word uint32) Place {
	if n := len(l.free); n > 0 {
		pos := l.free[n-1]
		l.free = l.free[:n-1]
		*l.mark(pos) = mark{id, word}
		if pos < l.indexed {
			l.index.Insert(spread(id), pos)
		}
		return l.value(pos)
	}
	if int(l.end/logLen) == len(l.marks) {
		l.marks, l.was = append(l.marks, new([logLen]mark)), append(l.was, l.kind.Make(logLen))
		l.meter.Add(l.blockBytes())
	}
	pos := l.end
	l.end++
	*l.mark(pos) = mark{id, word}
	return l.value(pos)
}

// spread makes a hash of an id.
func spread(id uint32) uint64 {
	x := uint64(id) * 0x9e3779b97f4a7c15
	return x ^ x>>32
}

// Take removes the pre-image of id; ok is false if there is none. The pre-image is valid until the next call of Push.
func (l *Log) Take(id uint32) (was Place, ok bool) {
	l.catchUp()
	h := spread(id)
	head, i := l.index.Head(h), h
	for pos, found := head.Find(h, &i); found; pos, found = head.Find(h, &i) {
		p := l.mark(pos)
		if p.id != id {
			continue
		}
		l.index.Remove(h, pos)
		*p = mark{id: NoID}
		l.free = append(l.free, pos)
		return l.value(pos), true
	}
	return nil, false
}

// catchUp indexes what was pushed since the last look: those who never look pay nothing.
func (l *Log) catchUp() {
	before := l.lookups.Bytes()
	if l.index.heads == nil {
		l.index = NewIndex(&l.lookups, func(pos uint32) uint64 { return spread(l.mark(pos).id) })
	}
	for ; l.indexed < l.end; l.indexed++ {
		if id := l.mark(l.indexed).id; id != NoID {
			l.index.Insert(spread(id), l.indexed)
		}
	}
	l.meter.Add(int(l.lookups.Bytes() - before))
}

// Each calls f for every pre-image.
func (l *Log) Each(f func(id, word uint32, was Place)) {
	for pos := range l.end {
		if m := l.mark(pos); m.id != NoID {
			f(m.id, m.word, l.value(pos))
		}
	}
}

// Len is the number of pre-images.
func (l *Log) Len() int { return int(l.end) - len(l.free) }

// Release stops counting the memory of the log, which must not be used again.
func (l *Log) Release() {
	l.meter.Add(-len(l.marks)*l.blockBytes() - int(l.lookups.Bytes()))
	l.marks, l.was = nil, nil
}

// encoded is the kind of what a ByteLog holds.
var encoded = KindOf[[]byte]()

// ByteLog is a log of encoded pre-images, whose bytes lie in an arena.
type ByteLog struct {
	log   Log
	arena arena
	live  int // bytes
}

// NewByteLog makes an empty log.
func NewByteLog(m *Meter) ByteLog {
	return ByteLog{log: NewLog(m, encoded), arena: arena{meter: m}}
}

// Push adds a pre-image; was is copied.
func (l *ByteLog) Push(id, word uint32, was []byte) {
	l.live += len(was)
	*(*[]byte)(l.log.place(id, word)) = l.arena.copy(was)
}

// Take is Log.Take; the bytes are valid until the next call of Push or Take.
func (l *ByteLog) Take(id uint32) (was []byte, ok bool) {
	if l.arena.used > 2*l.live+arenaLen {
		l.compact()
	}
	p, ok := l.log.Take(id)
	if !ok {
		return nil, false
	}
	was = *(*[]byte)(p)
	*(*[]byte)(p) = nil
	l.live -= len(was)
	return was, true
}

// Each is Log.Each.
func (l *ByteLog) Each(f func(id, word uint32, was []byte)) {
	l.log.Each(func(id, word uint32, was Place) { f(id, word, *(*[]byte)(was)) })
}

// Len is Log.Len.
func (l *ByteLog) Len() int { return l.log.Len() }

// compact moves the bytes together that are still needed.
func (l *ByteLog) compact() {
	old := l.arena
	l.arena = arena{meter: old.meter}
	l.log.Each(func(_, _ uint32, was Place) {
		p := (*[]byte)(was)
		*p = l.arena.copy(*p)
	})
	old.release()
}

// Release is Log.Release.
func (l *ByteLog) Release() {
	l.log.Release()
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
