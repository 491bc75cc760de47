package slab

import (
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/codec"
)

// TestIndexBeyondItsFirstWidth: ids that need more bits than a slot has at first.
func TestIndexBeyondItsFirstWidth(t *testing.T) {
	hash := func(id uint32) uint64 { return codec.Mix(uint64(id)) }
	x := NewIndex(new(Meter), hash)
	var ids []uint32
	for i := range uint32(2000) {
		ids = append(ids, i, 1<<24-2+i, 1<<27+i, 1<<30+i)
	}
	for _, id := range ids {
		x.Insert(hash(id), id)
	}
	for i, id := range ids {
		if i%2 == 0 {
			x.Remove(hash(id), id)
		}
	}
	for i, id := range ids {
		found := false
		l, at := x.Head(hash(id)), hash(id)
		for got, ok := l.Find(hash(id), &at); ok; got, ok = l.Find(hash(id), &at) {
			found = found || got == id
		}
		if found != (i%2 == 1) {
			t.Fatalf("id %d: found %v", id, found)
		}
	}
}

// TestIndexThatCannotBeSplit: hashes that agree in all bits by which a leaf is split.
func TestIndexThatCannotBeSplit(t *testing.T) {
	hash := func(id uint32) uint64 { return uint64(id) % (1 << leafBits) }
	x := NewIndex(new(Meter), hash)
	const n = 52_000 // more than a leaf takes
	for id := range uint32(n) {
		x.Insert(hash(id), id)
	}
	for id := range uint32(n) {
		found := false
		l, at := x.Head(hash(id)), hash(id)
		for got, ok := l.Find(hash(id), &at); ok && !found; got, ok = l.Find(hash(id), &at) {
			found = got == id
		}
		if !found {
			t.Fatalf("id %d is lost", id)
		}
	}
}

func holds(x *Index, hash uint64, id uint32) bool {
	l, at := x.Head(hash), hash
	for got, ok := l.Find(hash, &at); ok; got, ok = l.Find(hash, &at) {
		if got == id {
			return true
		}
	}
	return false
}

func TestIndexIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spread := rapid.Uint64Range(1, 1<<40).Draw(t, "distinct hashes")
		hash := func(id uint32) uint64 { return codec.Mix(uint64(id)) % spread }
		var m Meter
		x := NewIndex(&m, hash)
		if rapid.Bool().Draw(t, "reserve") {
			x.Reserve(rapid.IntRange(0, 200_000).Draw(t, "ids"))
		}
		model := map[uint32]bool{}
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			id := rapid.Uint32Range(0, 500).Draw(t, "id")
			if holds(&x, hash(id), id) != model[id] {
				t.Fatalf("%d is there: %v", id, !model[id])
			}
			if model[id] {
				x.Remove(hash(id), id)
				delete(model, id)
			} else {
				x.Insert(hash(id), id)
				model[id] = true
			}
		}
		for id := range uint32(501) {
			if holds(&x, hash(id), id) != model[id] {
				t.Fatalf("%d is there: %v", id, !model[id])
			}
		}
		if x.Len() != len(model) || m.Bytes() <= 0 {
			t.Fatalf("%d ids, %d bytes, want %d", x.Len(), m.Bytes(), len(model))
		}
	})
}

func TestBitmapIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b, o Bitmap
		model, other := map[uint32]bool{}, map[uint32]bool{}
		ids := rapid.Uint32Range(0, 3<<pageBits)
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			id := ids.Draw(t, "id")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				if b.Add(id) == model[id] {
					t.Fatalf("%d is new: %v", id, model[id])
				}
				model[id] = true
			case 1:
				if b.Remove(id) != model[id] {
					t.Fatalf("%d was there: %v", id, !model[id])
				}
				delete(model, id)
			case 2:
				o.Add(id)
				other[id] = true
			case 3:
				b.Merge(&o)
				for id := range other {
					model[id] = true
				}
			}
		}
		var got, want []uint32
		for id, ok := b.Next(0); ok; id, ok = b.Next(id + 1) {
			got = append(got, id)
		}
		for id := range model {
			want = append(want, id)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("members are %v, want %v", got, want)
		}
	})
}

func TestQueueHandsOutEachMember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		waiting := map[uint32]bool{}
		put, handed := 0, 0
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			id := rapid.Uint32Range(0, 9000).Draw(t, "id")
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				q.Add(id)
				waiting[id] = true
				put++
			case 1:
				var b Bitmap
				b.Add(id)
				b.Add(id + 1)
				q.Push(b)
				waiting[id], waiting[id+1] = true, true
				put += 2
			case 2:
				if id, ok := q.Pop(); ok {
					delete(waiting, id)
					handed++
				} else if len(waiting) > 0 {
					t.Fatalf("nothing to hand out, %v are waiting", waiting)
				}
			}
		}
		for id, ok := q.Pop(); ok; id, ok = q.Pop() {
			delete(waiting, id)
			handed++
		}
		if len(waiting) > 0 || handed > put {
			t.Fatalf("%v were not handed out; %d of %d were", waiting, handed, put)
		}
	})
}

func TestSlabsGrowWithoutMovingAndComeBack(t *testing.T) {
	for _, bits := range []uint{SmallBits, BlockBits} {
		var m Meter
		s := NewSlab(&m, KindOf[[3]int64](), bits)
		at := func(p Place) *[3]int64 { return (*[3]int64)(p) }
		if s.At(0) != nil || m.Bytes() != 0 {
			t.Fatal("something from nothing")
		}
		const n = 300_000
		first := s.Ensure(0)
		for id := range uint32(n) {
			at(s.Ensure(id))[0] = int64(id)
		}
		if first != s.At(0) || at(s.At(n - 1))[0] != n-1 {
			t.Error("elements have moved")
		}
		if b := m.Bytes(); b < n*24 || b > 2*n*24+maxExtent {
			t.Errorf("%d bytes for %d elements", b, n)
		}
		last := s.Extents() - 1
		from, end, live := s.Extent(last)
		if !live || end <= from || s.UnitBytes() != 24 {
			t.Errorf("extent %d: %d to %d, %v", last, from, end, live)
		}
		before := m.Bytes()
		s.Release(last)
		if _, _, live := s.Extent(last); live || s.At(from) != nil || m.Bytes() != before-int64(end-from)*24 {
			t.Error("the extent is still there")
		}
		if at(s.Ensure(from))[0] != 0 || m.Bytes() != before {
			t.Error("the extent did not come back empty")
		}
	}
}

// One element must not make a block of thousands if it is large.
func TestLargeElementsHaveSmallBlocks(t *testing.T) {
	var m Meter
	s := NewSlab(&m, KindOf[[1 << 20]byte](), BlockBits)
	s.Ensure(0)
	if m.Bytes() != 1<<20 {
		t.Errorf("%d bytes for an element of %d", m.Bytes(), 1<<20)
	}
}

func TestLimitBoundsExtents(t *testing.T) {
	var m Meter
	s := NewSlab(&m, KindOf[int64](), BlockBits)
	s.Limit(16 << 10)
	for id := range uint32(1 << 16) {
		s.Ensure(id)
	}
	for i := range s.Extents() {
		if first, end, _ := s.Extent(i); end-first > 2048 {
			t.Errorf("extent %d has %d elements", i, end-first)
		}
	}
	if s.Next() != 16<<10 || s.Span() != 2048 {
		t.Errorf("the next extent has %d bytes, %d elements", s.Next(), s.Span())
	}
}

func TestLogIsASetOfPreImages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Meter
		l := NewByteLog(&m)
		model := map[uint32]string{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			id := rapid.Uint32Range(0, 50).Draw(t, "id")
			if was, known := model[id]; known || rapid.Bool().Draw(t, "take") {
				got, ok := l.Take(id)
				if ok != known || ok && string(got) != was {
					t.Fatalf("took %v, %v of %d, want %q", got, ok, id, was)
				}
				delete(model, id)
				continue
			}
			was := string(make([]byte, rapid.SampledFrom([]int{0, 3, 5000, 40_000}).Draw(t, "size")))
			l.Push(id, id+1, []byte(was))
			model[id] = was
		}
		got := 0
		l.Each(func(id, word uint32, was []byte) {
			if model[id] != string(was) || word != id+1 {
				t.Fatalf("%d was %d bytes with word %d, want %d", id, len(was), word, len(model[id]))
			}
			got++
		})
		if got != len(model) || l.Len() != got {
			t.Fatalf("%d pre-images, %d by Len, want %d", got, l.Len(), len(model))
		}
		l.Release()
		if m.Bytes() != 0 {
			t.Fatalf("%d bytes of nothing", m.Bytes())
		}
	})
}

// Bytes of pre-images that were taken out do not stay.
func TestAByteLogGivesBackWhatWasTaken(t *testing.T) {
	var m Meter
	l := NewByteLog(&m)
	for id := range uint32(10_000) {
		l.Push(id, 1, make([]byte, 1000))
	}
	full := m.Bytes()
	for id := range uint32(9_900) {
		l.Take(id)
	}
	if m.Bytes() > full/4 {
		t.Errorf("%d of %d bytes are left for 100 of 10000 pre-images", m.Bytes(), full)
	}
}

func BenchmarkLogTake(b *testing.B) {
	l := NewLog(new(Meter), KindOf[int64]())
	id, was := uint32(0), int64(1)
	for b.Loop() {
		l.Push(id, 1, unsafe.Pointer(&was))
		if id >= 1000 {
			l.Take(id - 1000)
		}
		id++
	}
}
