package spill

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
)

type rec struct {
	N    int64
	Text string
	List []string
}

func codecOf(t testing.TB) *codec.Codec[rec] {
	c, err := codec.Of[rec](nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tapped keeps the last file that was opened, to look into and to damage.
type tapped struct {
	vfs.FS
	last vfs.File
}

func (x *tapped) OpenFile(path string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := x.FS.OpenFile(path, flag, perm)
	x.last = f
	return f, err
}

type bench struct {
	area    *Area
	budget  *Budget
	space   *Space
	bytes   int64
	records int64
}

func newBench(t testing.TB, fsys vfs.FS, c Compression, block int) *bench {
	area, err := NewArea(Config{FS: fsys, Dir: "spill", Compression: c})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{area: area, budget: NewBudget(0)}
	b.space = area.NewSpace(b.budget, Counts{Bytes: &b.bytes, Records: &b.records}, block)
	return b
}

func (b *bench) close(t testing.TB) {
	t.Helper()
	if err := b.space.Close(); err != nil {
		t.Fatal(err)
	}
	if b.budget.Used() != 0 || b.area.Totals().Files != 0 {
		t.Fatalf("%d bytes and %d files are left after Close", b.budget.Used(), b.area.Totals().Files)
	}
}

func write(t testing.TB, f *File, c *codec.Codec[rec], rs []rec) Stream {
	t.Helper()
	w := NewWriter(f, c)
	for i := range rs {
		if err := w.Add(&rs[i], element.Time(rs[i].N*3)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(f *File, c *codec.Codec[rec], s Stream) (out []rec, err error) {
	r := NewReader(f, c, s)
	defer r.Close()
	for {
		var v rec
		at, ok, err := r.Next(&v)
		if err != nil || !ok {
			return out, err
		}
		if at != element.Time(v.N*3) {
			return out, fmt.Errorf("record %d came with time %d", v.N, at)
		}
		out = append(out, v)
	}
}

func drawRecord(t *rapid.T) rec {
	return rec{
		N:    rapid.Int64Range(-1<<40, 1<<40).Draw(t, "n"),
		Text: strings.Repeat(rapid.StringMatching(`[a-z]{0,5}`).Draw(t, "text"), rapid.SampledFrom([]int{1, 30, 700}).Draw(t, "times")),
		List: rapid.SliceOfN(rapid.StringN(0, 3, -1), 0, 3).Draw(t, "list"),
	}
}

func TestStreamsReadBackWhatWasWrittenSideBySide(t *testing.T) {
	c := codecOf(t)
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, vfs.NewMem(), Compression(rapid.IntRange(0, 2).Draw(rt, "compression")), minBlock)
		f := b.space.NewFile()
		n := rapid.IntRange(1, 4).Draw(rt, "streams")
		model, writers := make([][]rec, n), make([]*Writer[rec], n)
		for i := range writers {
			writers[i] = NewWriter(f, c)
		}
		total := 0
		for range rapid.IntRange(0, 150).Draw(rt, "records") {
			i, v := rapid.IntRange(0, n-1).Draw(rt, "stream"), drawRecord(rt)
			if err := writers[i].Add(&v, element.Time(v.N*3)); err != nil {
				rt.Fatal(err)
			}
			model[i] = append(model[i], v)
			total++
		}
		for i, w := range writers {
			s, err := w.Finish()
			if err != nil {
				rt.Fatal(err)
			}
			if s.Records != int64(len(model[i])) {
				rt.Fatalf("stream %d has %d records, want %d", i, s.Records, len(model[i]))
			}
			for range 2 {
				got, err := read(f, c, s)
				if err != nil || fmt.Sprint(got) != fmt.Sprint(model[i]) {
					rt.Fatalf("stream %d: %d records of %d, %v", i, len(got), len(model[i]), err)
				}
			}
		}
		if b.records != int64(total) || b.area.Totals().Records != b.records || b.area.Totals().Bytes != b.bytes {
			rt.Fatalf("counted %d records and %d bytes, the area %+v, want %d records", b.records, b.bytes, b.area.Totals(), total)
		}
		b.close(t)
	})
}

func TestLargeRecordsAreReadAgain(t *testing.T) {
	c := codecOf(t)
	for _, comp := range []Compression{None, S2, Zstd} {
		b := newBench(t, vfs.NewMem(), comp, minBlock)
		f := b.space.NewFile()
		long := strings.Repeat("0123456789", 5000)
		s := write(t, f, c, []rec{{N: 1, Text: "a"}, {N: 2, Text: long}, {N: 3, Text: long[1:]}, {N: 4, Text: "b"}})
		r := NewReader(f, c, s)
		for n := int64(1); n <= 4; n++ {
			var v, again rec
			if _, ok, err := r.Next(&v); !ok || err != nil || v.N != n {
				t.Fatalf("record %d: %v %v %v", n, v.N, ok, err)
			}
			if r.Large() != (n == 2 || n == 3) {
				t.Fatalf("record %d is large: %v", n, r.Large())
			}
			if !r.Large() {
				continue
			}
			if err := r.Again(&again); err != nil || again.N != n || again.Text != v.Text {
				t.Fatalf("record %d came again as %d, %v", n, again.N, err)
			}
		}
		r.Close()
		if peak := b.budget.Peak(); peak > b.space.Overhead()+2*minBlock+int64(len(long))+100 {
			t.Errorf("%d bytes were taken for a record of %d", peak, len(long))
		}
		b.close(t)
	}
}

func TestEveryDamageIsSeen(t *testing.T) {
	c := codecOf(t)
	for _, comp := range []Compression{None, S2, Zstd} {
		tap := &tapped{FS: vfs.NewMem()}
		b := newBench(t, tap, comp, minBlock)
		f := b.space.NewFile()
		var rs []rec
		for i := range 40 {
			rs = append(rs, rec{N: int64(i), Text: strings.Repeat("ab", i)})
		}
		rs = append(rs, rec{N: 99, Text: strings.Repeat("xyz", 400)})
		s := write(t, f, c, rs)
		info, err := tap.last.Stat()
		if err != nil {
			t.Fatal(err)
		}
		used := make([]byte, info.Size())
		if _, err := tap.last.ReadAt(used, 0); err != nil {
			t.Fatal(err)
		}
		for i, old := range used {
			if _, err := tap.last.WriteAt([]byte{old ^ 1<<(i%8)}, int64(i)); err != nil {
				t.Fatal(err)
			}
			got, err := read(f, c, s)
			if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeCorrupt || e.Path == "" {
				// A hole between extents belongs to nobody.
				if err != nil || fmt.Sprint(got) != fmt.Sprint(rs) {
					t.Fatalf("byte %d: %d records, %v", i, len(got), err)
				}
				if old != 0 {
					t.Fatalf("byte %d (%d) may be anything", i, old)
				}
			}
			if _, err := tap.last.WriteAt([]byte{old}, int64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := tap.last.Truncate(info.Size() / 2); err != nil {
			t.Fatal(err)
		}
		if _, err := read(f, c, s); !isCode(err, CodeCorrupt) {
			t.Errorf("a file that was cut reads as %v", err)
		}
		b.close(t)
	}
}

func isCode(err error, code string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code && strings.Contains(e.Error(), e.Path)
}

// TestABlockOfAnotherStreamIsNoneOfThisOne swaps two blocks that are sound by themselves.
func TestABlockOfAnotherStreamIsNoneOfThisOne(t *testing.T) {
	c := codecOf(t)
	tap := &tapped{FS: vfs.NewMem()}
	b := newBench(t, tap, None, minBlock)
	f := b.space.NewFile()
	x, y := write(t, f, c, []rec{{N: 1}}), write(t, f, c, []rec{{N: 2}})
	x.first, y.first = y.first, x.first
	if _, err := read(f, c, x); !isCode(err, CodeCorrupt) {
		t.Errorf("read as %v", err)
	}
	b.close(t)
}

func TestADiskThatTakesNothingNamesPathAndBytes(t *testing.T) {
	c := codecOf(t)
	for name, x := range map[string]struct {
		op      vfs.Operation
		err     error
		outcome vfs.Outcome
		fatal   bool
	}{
		"full":                 {vfs.OpWrite, syscall.ENOSPC, vfs.NotDone, false},
		"full in the middle":   {vfs.OpWrite, syscall.ENOSPC, vfs.Half, false},
		"full directory":       {vfs.OpOpen, syscall.ENOSPC, vfs.NotDone, false},
		"read-only":            {vfs.OpOpen, syscall.EROFS, vfs.NotDone, true},
		"forbidden":            {vfs.OpOpen, fs.ErrPermission, vfs.NotDone, true},
		"read-only directory":  {vfs.OpMkdir, syscall.EROFS, vfs.NotDone, true},
		"cannot be unlinked":   {vfs.OpRemove, syscall.EROFS, vfs.NotDone, true},
		"unlinked and unknown": {vfs.OpRemove, syscall.EIO, vfs.Done, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, vfs.WithFaults(vfs.NewMem(), func(op vfs.Operation, path string) vfs.Fault {
				if op == x.op && strings.HasPrefix(path, "spill") {
					return vfs.Fault{Err: x.err, Outcome: x.outcome}
				}
				return vfs.Fault{}
			}), S2, minBlock)
			w := NewWriter(b.space.NewFile(), c)
			var err error
			for i := 0; err == nil && i < 1000; i++ {
				err = w.Add(&rec{Text: "some text of a record"}, 0)
			}
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Code != CodeSpace || e.Fatal != x.fatal || e.Bytes == 0 || !errors.Is(err, x.err) {
				t.Fatalf("error is %#v", err)
			}
			if s := e.Error(); !strings.Contains(s, "spill") || !strings.Contains(s, fmt.Sprint(e.Bytes)) {
				t.Errorf("error reads %s", s)
			}
			w.Discard()
			b.close(t)
		})
	}
}

func TestAMissingParentIsFatal(t *testing.T) {
	area, err := NewArea(Config{FS: vfs.OS{}, Dir: filepath.Join(t.TempDir(), "no", "such"), Compression: None})
	if err != nil {
		t.Fatal(err)
	}
	var n, m int64
	b := NewBudget(0)
	s := area.NewSpace(b, Counts{Bytes: &n, Records: &m}, minBlock)
	w := NewWriter(s.NewFile(), codecOf(t))
	if err := w.Add(&rec{}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); !isCode(err, CodeSpace) || !err.(*Error).Fatal {
		t.Errorf("error is %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestFilesHaveNoNameWhileTheyAreUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spill")
	area, err := NewArea(Config{FS: vfs.OS{}, Dir: dir, Compression: S2})
	if err != nil {
		t.Fatal(err)
	}
	var n, m int64
	s := area.NewSpace(NewBudget(0), Counts{Bytes: &n, Records: &m}, minBlock)
	f := s.NewFile()
	c := codecOf(t)
	stream := write(t, f, c, []rec{{N: 1, Text: "x"}, {N: 2}})
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("the directory holds %v, %v", names, err)
	}
	if got, err := read(f, c, stream); err != nil || len(got) != 2 {
		t.Errorf("read %v, %v", got, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := read(f, c, stream); !isCode(err, CodeCorrupt) {
		t.Errorf("a closed file reads as %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTheFormatIsFrozen compares a file of one record and one link with docs/format/spill.md.
func TestTheFormatIsFrozen(t *testing.T) {
	tap := &tapped{FS: vfs.NewMem()}
	b := newBench(t, tap, None, minBlock)
	f := b.space.NewFile()
	write(t, f, codecOf(t), []rec{{N: 5, Text: "ab"}})
	got := make([]byte, 38)
	if _, err := tap.last.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	want := []byte{
		'S', 'P', 1, 1, // magic, version, kind and compression
		0, 0, 0, 0, 0, 0, 0, 0, // stream, sequence
		1, 0, 0, 0, 6, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, // records, raw, stored, reserved
		0, 0, 0, 0, // checksum, below
		30, 10, 2, 'a', 'b', 0,
	}
	copy(want[28:32], got[28:32])
	if !bytes.Equal(got, want) {
		t.Errorf("file holds\n%v, want\n%v", got, want)
	}
	if err := verify(got); err != nil {
		t.Error(err)
	}
	b.close(t)
}

func TestCompressionHasNames(t *testing.T) {
	for name, want := range map[string]Compression{"none": None, "s2": S2, "zstd": Zstd} {
		if got, err := ParseCompression(name); got != want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := ParseCompression("gzip"); err == nil {
		t.Error("gzip was taken")
	}
	if _, err := NewArea(Config{Compression: 9}); err == nil || !strings.Contains(err.Error(), "file system") || !strings.Contains(err.Error(), "directory") {
		t.Errorf("an area of nothing: %v", err)
	}
}

func TestABudgetGivesWhatItHas(t *testing.T) {
	b := NewBudget(100)
	b.Reserve(10)
	if b.Take(91) || !b.Take(90) || b.Take(1) || b.Free() != 0 {
		t.Errorf("used %d", b.Used())
	}
	b.Force(50)
	b.Give(140)
	if b.Used() != 0 || b.Peak() != 140 || b.Limit() != 100 {
		t.Errorf("used %d, peak %d", b.Used(), b.Peak())
	}
	if none := NewBudget(0); !none.Take(1<<60) || none.Free() < 1<<60 {
		t.Error("no limit was one")
	}
}

func TestBlocksAreASmallPartOfTheBudget(t *testing.T) {
	for _, limit := range []int64{0, 1, 64 << 10, 1 << 20, 8 << 20, 1 << 30} {
		b := BlockFor(limit)
		if b < minBlock || b > maxBlock || limit >= 64<<10 && int64(b)*64 > limit {
			t.Errorf("block of %d for %d", b, limit)
		}
	}
}

// picky does not read what it writes.
type picky struct{ N uint8 }

var errPicky = errors.New("no, thank you")

func (p picky) AppendBinary(b []byte) ([]byte, error) { return append(b, p.N), nil }
func (p *picky) UnmarshalBinary([]byte) error         { return errPicky }

// It is not the disk that somebody should look at.
func TestACodecThatDoesNotReadWhatItWritesIsNoCorruption(t *testing.T) {
	b := newBench(t, vfs.NewMem(), S2, minBlock)
	defer b.close(t)
	c, err := codec.Of[picky](nil)
	if err != nil {
		t.Fatal(err)
	}
	f := b.space.NewFile()
	w := NewWriter(f, c)
	if err := w.Add(&picky{1}, 0); err != nil {
		t.Fatal(err)
	}
	s, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(f, c, s)
	defer r.Close()
	var v picky
	_, _, err = r.Next(&v)
	if _, coded := errors.AsType[*Error](err); coded || !errors.Is(err, errPicky) {
		t.Errorf("%v", err)
	}
}
