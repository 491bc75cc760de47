package chunk

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func header(groups int) Header {
	return Header{MaxParallelism: groups, Key: "i64", States: []State{
		{Name: "count", Kind: Value, Value: "i64"},
		{Name: "seen", Kind: Map, Sub: "str", Value: `{"At":i64}`},
		{Name: "log", Kind: List, Sub: "u32", Value: "str"},
	}}
}

func write(t testing.TB, w *Writer) []byte {
	t.Helper()
	var out bytes.Buffer
	n, err := w.WriteTo(&out)
	if err != nil || n != int64(out.Len()) {
		t.Fatalf("wrote %d of %d bytes, %v", n, out.Len(), err)
	}
	return out.Bytes()
}

func read(b []byte, first, end int) (entries []Entry, err error) {
	r, err := NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	for e, err := range r.Read(first, end) {
		if err != nil {
			return entries, err
		}
		e.Key, e.Value = slices.Clone(e.Key), slices.Clone(e.Value)
		entries = append(entries, e)
	}
	return entries, nil
}

// entriesGen draws entries of all sizes: many small ones, a few beyond a block.
func entriesGen(groups int) *rapid.Generator[[]Entry] {
	return rapid.SliceOf(rapid.Custom(func(t *rapid.T) Entry {
		e := Entry{State: rapid.IntRange(0, 2).Draw(t, "state"), Group: rapid.IntRange(0, groups-1).Draw(t, "group"),
			Deleted: rapid.Bool().Draw(t, "deleted"), Key: rapid.SliceOf(rapid.Byte()).Draw(t, "key")}
		if !e.Deleted {
			size := rapid.SampledFrom([]int{0, 1, 10, 3000, blockSize - 10, blockSize + 1, 3 * blockSize}).Draw(t, "size")
			e.Value = bytes.Repeat([]byte{byte(size)}, size)
			if rapid.Bool().Draw(t, "random") {
				r := rand.NewChaCha8([32]byte{byte(size)})
				r.Read(e.Value)
			}
		}
		return e
	}))
}

func fill(t interface{ Fatal(...any) }, w *Writer, entries []Entry) {
	for _, e := range entries {
		var err error
		if e.Deleted {
			err = w.Delete(e.Group, e.State, e.Key)
		} else {
			err = w.Put(e.Group, e.State, e.Key, e.Value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestChunkReadsBackByKeyGroup(t *testing.T) {
	const groups = 16
	rapid.Check(t, func(rt *rapid.T) {
		entries := entriesGen(groups).Draw(rt, "entries")
		h := header(groups)
		w, err := NewWriter(h)
		if err != nil {
			rt.Fatal(err)
		}
		fill(rt, w, entries)
		var out bytes.Buffer
		if _, err := w.WriteTo(&out); err != nil {
			rt.Fatal(err)
		}
		slices.SortStableFunc(entries, func(a, b Entry) int { return a.Group - b.Group })
		first := rapid.IntRange(0, groups).Draw(rt, "first")
		end := rapid.IntRange(first, groups).Draw(rt, "end")
		got, err := read(out.Bytes(), first, end)
		if err != nil {
			rt.Fatal(err)
		}
		var want []Entry
		for _, e := range entries {
			if first <= e.Group && e.Group < end {
				want = append(want, e)
			}
		}
		eq := cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) })
		if d := cmp.Diff(want, got, eq); d != "" {
			rt.Fatal(d)
		}
		r, err := NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			rt.Fatal(err)
		}
		if n := r.Count(first, end); n != len(want) {
			rt.Fatalf("Count says %d, there are %d", n, len(want))
		}
		if n, err := r.Verify(); err != nil || n != len(entries) || n != w.Len() {
			rt.Fatalf("Verify counts %d of %d: %v", n, len(entries), err)
		}
		if d := cmp.Diff(&h, r.Header()); d != "" {
			rt.Fatal(d)
		}
	})
}

// sample is a chunk with several blocks in both forms.
func sample(t testing.TB) []byte {
	w, err := NewWriter(header(8))
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, blockSize)
	rand.NewChaCha8([32]byte{}).Read(noise)
	fill(t, w, []Entry{{Group: 3, Key: []byte("a"), Value: []byte("1")}, {Group: 3, State: 1, Key: []byte("b"), Deleted: true},
		{Group: 1, State: 2, Key: []byte("c"), Value: bytes.Repeat([]byte("x"), blockSize)}, {Group: 7, Key: []byte("d"), Value: noise},
		{Group: 7, Key: []byte("e"), Value: []byte{}}})
	return write(t, w)
}

func TestEveryDamagedByteIsFound(t *testing.T) {
	b := sample(t)
	for i := range b {
		if i > 400 && i < len(b)-400 && i%97 != 0 { // all of the structure, some of the noise
			continue
		}
		for _, flip := range []byte{1, 0x80} {
			bad := slices.Clone(b)
			bad[i] ^= flip
			if _, err := read(bad, 0, 8); err == nil {
				t.Fatalf("byte %d of %d changed and nobody noticed", i, len(b))
			}
		}
	}
	for _, n := range []int{0, 1, preambleSize, 100, len(b) / 2, len(b) - trailerSize, len(b) - 1} {
		if _, err := read(b[:n], 0, 8); !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut to %d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := read(append(slices.Clone(b), 0), 0, 8); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte too many: %v", err)
	}
}

const goldenV1 = "534c554943452d43" + "0100" + "34000000" + "12fb8830" + // magic, version, length and checksum of the header
	"0803693634030105636f756e74000369363403047365656e037374720a7b224174223a6936347d02036c6f670375333203737472" + // header
	"00" + "0a000000" + "0a000000" + "03c271fd" + "00010201540303040178" + // block
	"0203460001020005015d0000000000000009000000294638a1534c554943452d43"

// TestGolden: chunks of version 1 stay readable, byte for byte.
// An index longer than the chunk wraps its place around to behind the end of all numbers.
func TestAnIndexLongerThanTheChunkIsCorrupt(t *testing.T) {
	b := sample(t)
	trailer := b[len(b)-trailerSize:]
	n := uint32(len(b) + 1000)
	binary.LittleEndian.PutUint64(trailer, uint64(len(b))-uint64(trailerSize)-uint64(n))
	binary.LittleEndian.PutUint32(trailer[8:], n)
	if _, err := NewReader(bytes.NewReader(b), int64(len(b))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error is %v", err)
	}
}

func TestGolden(t *testing.T) {
	w, err := NewWriter(header(8))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, w, []Entry{{Group: 3, Key: []byte{2}, Value: []byte{84}}, {Group: 5, State: 1, Key: []byte{4, 1, 'x'}, Deleted: true}})
	got := hex.EncodeToString(write(t, w))
	if want := goldenV1; got != want {
		t.Errorf("the format changed without a new version:\ngot  %s\nwant %s", got, want)
	}
}

func TestEmptyChunk(t *testing.T) {
	w, err := NewWriter(header(1))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := read(write(t, w), 0, 1); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if err := w.Put(0, 0, []byte("k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	w.Reset()
	if w.Len() != 0 || w.Bytes() != 0 {
		t.Errorf("%d entries, %d bytes after Reset", w.Len(), w.Bytes())
	}
	if got, err := read(write(t, w), 0, 1); err != nil || len(got) != 0 {
		t.Errorf("%v, %v after Reset", got, err)
	}
}

func TestWriterRefusesWhatItCouldNotRead(t *testing.T) {
	for name, h := range map[string]Header{
		"no groups":   {MaxParallelism: 0},
		"many groups": {MaxParallelism: 1<<15 + 1},
		"kind":        {MaxParallelism: 1, States: []State{{Name: "a"}}},
		"name":        {MaxParallelism: 1, States: []State{{Kind: Value}}},
		"twice":       {MaxParallelism: 1, States: []State{{Name: "a", Kind: Value}, {Name: "a", Kind: Map}}},
	} {
		if _, err := NewWriter(h); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	w, err := NewWriter(header(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Put(0, 0, nil, make([]byte, MaxEntry+1)); err == nil || !strings.Contains(err.Error(), `"count"`) {
		t.Errorf("an entry beyond the limit: %v", err)
	}
}

func TestNewerVersionIsNamed(t *testing.T) {
	b := sample(t)
	b[len(magic)] = version + 1
	if _, err := read(b, 0, 8); err == nil || !strings.Contains(err.Error(), fmt.Sprint("version ", version+1)) {
		t.Errorf("got %v", err)
	}
}

// FuzzReader: any bytes are refused or read, without a panic.
func FuzzReader(f *testing.F) {
	f.Add(sample(f)[:200])
	w, err := NewWriter(header(8))
	if err != nil {
		f.Fatal(err)
	}
	fill(f, w, []Entry{{Group: 3, Key: []byte{2}, Value: []byte{84}}, {Group: 5, State: 1, Key: []byte{4, 1, 'x'}, Deleted: true}})
	f.Add(write(f, w))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for e, err := range r.Read(0, r.Header().MaxParallelism) {
			if err == nil && (e.State >= len(r.Header().States) || e.Group >= r.Header().MaxParallelism) {
				t.Fatalf("entry of state %d, group %d", e.State, e.Group)
			}
		}
	})
}

// FuzzParts: what a checksum would usually hide, header, index and entries, from any bytes.
func FuzzParts(f *testing.F) {
	h := header(8)
	f.Add(h.append(nil), appendIndex(nil, []span{{1, 20, 0, 1}, {7, 30, 9, 5}}), appendEntry(nil, 1, 0, []byte("k"), []byte("v")))
	f.Fuzz(func(t *testing.T, head, index, block []byte) {
		if h, err := parseHeader(head); err == nil {
			if again, err := parseHeader(h.append(nil)); err != nil || !cmp.Equal(h, again) {
				t.Fatalf("%+v reads back as %+v, %v", h, again, err)
			}
		}
		if spans, err := parseIndex(index, 8, 10, 1000); err == nil {
			for i, s := range spans {
				if s.block < 10 || s.block >= 1000 || s.group >= 8 || i > 0 && s.group <= spans[i-1].group {
					t.Fatalf("bad span %+v accepted", s)
				}
			}
		}
		hd := header(8)
		c := cursor{r: &Reader{header: &hd}, data: block}
		for {
			if _, err := c.entry(0); err != nil {
				return
			}
		}
	})
}

func BenchmarkChunk(b *testing.B) {
	const n = 1 << 18
	w, err := NewWriter(header(256))
	if err != nil {
		b.Fatal(err)
	}
	add := func() {
		w.Reset()
		var key [8]byte
		x := uint64(1)
		for range n {
			x = x*6364136223846793005 + 1442695040888963407
			for i := range key {
				key[i] = byte(x >> (8 * i))
			}
			if err := w.Put(int(x>>56), 0, key[:5], key[5:]); err != nil {
				b.Fatal(err)
			}
		}
	}
	per := func(b *testing.B, bytes int) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
		b.ReportMetric(float64(bytes)/n, "B/entry")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("put", func(b *testing.B) {
		for b.Loop() {
			add()
		}
		per(b, w.Bytes())
	})
	var out bytes.Buffer
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			out.Reset()
			if _, err := w.WriteTo(&out); err != nil {
				b.Fatal(err)
			}
		}
		per(b, out.Len())
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			r, err := NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
			if err != nil {
				b.Fatal(err)
			}
			if n, err := r.Verify(); err != nil || n != w.Len() {
				b.Fatal(n, err)
			}
		}
		per(b, out.Len())
	})
}
