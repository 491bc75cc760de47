package file

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	data := []byte(text)
	if strings.HasSuffix(name, ".gz") {
		var b strings.Builder
		z := gzip.NewWriter(&b)
		if _, err := z.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		data = []byte(b.String())
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func discover[T any](ctx context.Context, src connector.Source[T]) ([]connector.Split, error) {
	e, err := src.OpenEnumerator(ctx, 4, nil)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	splits, err := e.Next(ctx)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return splits, err
}

// outcome is what reading some splits gives.
type outcome[T any] struct {
	values []T
	places []string
	errs   []error
}

// read reads splits; with stops > 0 the reader is snapshotted, closed and opened again after so many records.
func read[T any](ctx context.Context, src connector.Source[T], splits []connector.Split, stops int) (o outcome[T], err error) {
	for {
		r, err := src.OpenReader(ctx, &connector.Task{Parallelism: 1})
		if err != nil {
			return o, err
		}
		if err := r.Assign(splits); err != nil {
			return o, err
		}
		out := connector.Records[T]{Max: 7}
		if stops > 0 {
			out.Max = stops
		}
		for {
			out.Reset()
			err := r.Poll(ctx, &out)
			o.values = append(o.values, out.Vals...)
			for i, pos := range out.Pos {
				o.places = append(o.places, r.Describe(out.Splits[i], pos))
			}
			for _, e := range out.Errors {
				o.errs = append(o.errs, e.Err)
			}
			if errors.Is(err, io.EOF) {
				return o, r.Close()
			}
			if err != nil {
				return o, errors.Join(err, r.Close())
			}
			if stops > 0 {
				break
			}
		}
		if splits, err = r.Snapshot(1); err != nil {
			return o, err
		}
		if err := r.Close(); err != nil {
			return o, err
		}
	}
}

func all[T any](t *testing.T, src connector.Source[T]) outcome[T] {
	t.Helper()
	splits, err := discover(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	o, err := read(t.Context(), src, splits, 0)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestFilesDirectoriesAndGlobsAreReadInOrderOfNames(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "b.txt", "b1\nb2\n")
	write(t, dir, "a.txt", "a1\r\na2")
	write(t, dir, "sub/c.txt.gz", "c1\n\nc3\n")
	write(t, dir, ".hidden", "no")
	write(t, dir, ".tmp/part", "no")
	write(t, dir, "empty.txt", "")
	for pattern, want := range map[string]string{
		dir:                                   "a1 a2 b1 b2 c1  c3",
		filepath.Join(dir, "*.txt"):           "a1 a2 b1 b2",
		filepath.Join(dir, "b.txt"):           "b1 b2",
		filepath.Join(dir, "sub", "c.txt.gz"): "c1  c3",
	} {
		if got := strings.Join(all(t, Lines(pattern)).values, " "); got != want {
			t.Errorf("%s: got %q, want %q", pattern, got, want)
		}
	}
}

func TestMissingInputFailsTheJobAtOnceAndNamesThePath(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{filepath.Join(dir, "none.csv"), filepath.Join(dir, "*.csv"), empty, filepath.Join(dir, "[")} {
		_, err := discover(t.Context(), Lines(pattern))
		if err == nil || !connector.IsFatal(err) || !strings.Contains(err.Error(), pattern) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	if _, err := discover(t.Context(), Lines("")); err == nil || !connector.IsFatal(err) || !strings.Contains(err.Error(), "no input is given") {
		t.Errorf("no path: %v", err)
	}
}

type row struct {
	Name string `csv:"name"`
	N    int64  `csv:"n"`
	At   int64  `csv:"at,time"`
}

func TestCSVFollowsItsHeader(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "x.csv", "\ufeffat,other,n,name\n2001-01-01 00:01:00,x,-5,ATL\n\n2001-01-01T00:00:00Z,\"a,b\",7,\"say \"\"hi\"\"\nthere\"\n")
	o := all(t, CSV[row](path))
	want := []row{{"ATL", -5, 978307260000000}, {"say \"hi\"\nthere", 7, 978307200000000}}
	if !slices.Equal(o.values, want) || len(o.errs) != 0 {
		t.Errorf("got %+v, errors %v", o.values, o.errs)
	}
	if o.places[1] != path+", line 4" {
		t.Errorf("second record is at %q", o.places[1])
	}
}

func TestAMalformedRowNamesFileLineAndColumn(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "x.csv", "name,n,at\nATL,1,2001-01-01 00:00:00\nJFK,many,2001-01-01 00:00:00\nSFO,2\nBOS,3,2001-02-30 00:00:00\nORD,4,2001-01-01 00:00:00,extra\nLAX,5,2001-01-01 00:00:00\n")
	for _, opts := range [][]Option{nil, {NoQuotes()}} {
		o := all(t, CSV[row](path, opts...))
		if len(o.values) != 2 || o.values[1].Name != "LAX" {
			t.Errorf("good rows %+v", o.values)
		}
		want := []string{
			path + `, line 3, column "n": "many": invalid syntax`,
			path + `, line 4: 2 fields, the header has 3`,
			path + `, line 5, column "at": "2001-02-30 00:00:00" is not a time like`,
			path + `, line 6: 4 fields, the header has 3`,
		}
		for i, w := range want {
			if i >= len(o.errs) || !strings.HasPrefix(o.errs[i].Error(), w) {
				t.Errorf("error %d of %v, want %s", i, o.errs, w)
			}
		}
	}
}

func TestAHeaderThatDoesNotFitIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"missing.csv": "name,n\na,1\n", "twice.csv": "name,n,at,n\n", "empty.csv": "\n"} {
		src := CSV[row](write(t, dir, name, text))
		splits, err := discover(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = read(t.Context(), src, splits, 0); err == nil || !connector.IsFatal(err) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := CSV[int](dir).OpenReader(t.Context(), nil); err == nil {
		t.Error("a record type that is no struct was accepted")
	}
}

func TestJSONLines(t *testing.T) {
	path := write(t, t.TempDir(), "x.jsonl", "{\"Name\":\"a\",\"N\":1}\n\n{\"N\":\nnull\n{\"Name\":\"b\"}\n")
	o := all(t, JSON[row](path))
	if len(o.values) != 3 || o.values[2].Name != "b" || len(o.errs) != 1 || !strings.Contains(o.errs[0].Error(), "line 3") {
		t.Errorf("got %+v, errors %v", o.values, o.errs)
	}
}

func TestAChangedFileIsRefused(t *testing.T) {
	path := write(t, t.TempDir(), "x.txt", "one\ntwo\n")
	src := Lines(path)
	splits, err := discover(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t.Context(), src, splits, 0); err == nil || !connector.IsFatal(err) || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("error %v", err)
	}
}

// Whatever the ranges, whatever the order in which they are read, and wherever a reader is stopped and continued, every
// record is delivered once.
func TestEveryRecordIsReadOnceHoweverTheFileIsCutAndTheReaderStopped(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOfN(rapid.StringMatching(`[a-z]{0,12}`), 1, 40).Draw(rt, "lines")
		text := strings.Join(lines, "\n")
		if rapid.Bool().Draw(rt, "break at the end") || lines[len(lines)-1] == "" {
			text += "\n"
		}
		path := write(t, dir, "x.txt", text)
		src := Lines(path, SplitSize(rapid.Int64Range(1, 50).Draw(rt, "split size")))
		splits, err := discover(t.Context(), src)
		if err != nil {
			rt.Fatal(err)
		}
		splits = rapid.Permutation(splits).Draw(rt, "order")
		o, err := read(t.Context(), src, splits, rapid.IntRange(0, 5).Draw(rt, "stops"))
		if err != nil {
			rt.Fatal(err)
		}
		slices.Sort(o.values)
		slices.Sort(lines)
		if !slices.Equal(o.values, lines) {
			rt.Fatalf("read %q, the file holds %q", o.values, lines)
		}
	})
}

func TestCSVRangesSkipTheHeaderOnce(t *testing.T) {
	var text strings.Builder
	text.WriteString("name,n,at\n")
	for i := range 500 {
		fmt.Fprintf(&text, "ATL,%d,2001-01-01 00:00:00\n", i)
	}
	path := write(t, t.TempDir(), "x.csv", text.String())
	var sum int64
	o := all(t, CSV[row](path, NoQuotes(), SplitSize(1000)))
	for _, r := range o.values {
		sum += r.N
	}
	if len(o.values) != 500 || sum != 500*499/2 || len(o.errs) > 0 {
		t.Errorf("%d rows, sum %d, errors %v", len(o.values), sum, o.errs)
	}
}

func TestAnInterruptedPollReturnsEarlyAndLosesNothing(t *testing.T) {
	path := write(t, t.TempDir(), "x.txt", strings.Repeat("line\n", 10))
	src := Lines(path, Rate(1))
	splits, err := discover(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	r, err := src.OpenReader(t.Context(), &connector.Task{Parallelism: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Assign(splits); err != nil {
		t.Fatal(err)
	}
	out := connector.Records[string]{Max: 100}
	if err := r.Poll(t.Context(), &out); err != nil || out.Len() != 1 {
		t.Fatalf("%d records at once, error %v", out.Len(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Poll(ctx, &out); err != nil || out.Len() != 1 {
		t.Errorf("interrupted: %d records, error %v", out.Len(), err)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(uint16(1), []byte(`{"path":"x","size":10,"first":0,"end":10,"next":0}`))
	f.Fuzz(func(t *testing.T, version uint16, data []byte) {
		s, err := decodeSpan(connector.Split{ID: "x", Version: version, Data: data})
		if err == nil && (s.First < 0 || s.End < s.First || s.Next < s.First) {
			t.Errorf("accepted %+v", s)
		}
	})
}

func BenchmarkCSV(b *testing.B) {
	var text strings.Builder
	text.WriteString("date,delay,distance,origin,destination\n")
	for i := range 100_000 {
		fmt.Fprintf(&text, "2001-01-01 00:01:00,%d,%d,ATL,JFK\n", i%300-20, i%4000)
	}
	type flight struct {
		Date        element.Time `csv:"date,time"`
		Delay       int64        `csv:"delay"`
		Distance    int64        `csv:"distance"`
		Origin      string       `csv:"origin"`
		Destination string       `csv:"destination"`
	}
	src := CSV[flight](write(b, b.TempDir(), "x.csv", text.String()), NoQuotes())
	splits, err := discover(b.Context(), src)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := src.OpenReader(b.Context(), &connector.Task{Parallelism: 1})
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Assign(splits); err != nil {
			b.Fatal(err)
		}
		out := connector.Records[flight]{Max: 512}
		for err == nil {
			out.Reset()
			err = r.Poll(b.Context(), &out)
		}
		if !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/record")
}
