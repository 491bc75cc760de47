package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Config says which store is tested.
type Config struct {
	// Open makes an empty store.
	Open func(t *testing.T) snapshot.Store
	// Lose takes an object away behind the store's back, as a disk does that acknowledged it. Nil: there is no such thing.
	Lose func(t *testing.T, s snapshot.Store, name snapshot.Name)
	// Forgets: a reader of an object that is deleted fails with ErrNotFound in the end, because the store keeps nothing for it.
	Forgets bool
}

// Run plays the whole suite.
func Run(t *testing.T, c Config) {
	for _, x := range []struct {
		name string
		f    func(*testing.T, Config)
	}{
		{"what was put is read", testReadBack}, {"the same content may come again", testTwiceEqual}, {"other content is refused", testTwiceOther},
		{"what is cut short is not there", testCutShort}, {"a reader outlives the deletion", testReadWhileDeleted},
		{"a write whose answer was lost is repeated", testFailedButHappened}, {"what was acknowledged and lost can be put again", testLost},
		{"names do not lead out", testNames}, {"lists are ordered and obey prefixes", testList}, {"many at once", testConcurrent},
		{"drafts show nothing before their commit", testDraft},
	} {
		t.Run(x.name, func(t *testing.T) { x.f(t, c) })
	}
}

func name(n int) snapshot.Name { return snapshot.Segment("job-1", 1, 7, 3, n) }

func content(n, size int) []byte {
	return bytes.Repeat([]byte{byte(n), byte(n >> 8), 'x'}, size/3+1)[:size]
}

// put stores an object and compares what the store says of it.
func put(t *testing.T, s snapshot.Store, n snapshot.Name, data []byte) *jobpb.Object {
	t.Helper()
	o, err := s.Put(t.Context(), n, int64(len(data)), bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(data); o.Name != string(n) || o.Size != int64(len(data)) || !bytes.Equal(o.Digest, sum[:]) {
		t.Fatalf("put %s is called %v", n, o)
	}
	return o
}

func want(t *testing.T, s snapshot.Store, n snapshot.Name, data []byte) {
	t.Helper()
	r, err := s.Open(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, r.Size())
	if _, err := r.ReadAt(got, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) {
		t.Fatalf("%s has %d other bytes than were put (%d)", n, len(got), len(data))
	}
}

func absent(t *testing.T, s snapshot.Store, n snapshot.Name) {
	t.Helper()
	if r, err := s.Open(t.Context(), n); !errors.Is(err, snapshot.ErrNotFound) {
		t.Fatalf("%s is there: %v, %v", n, r, err)
	}
}

func testReadBack(t *testing.T, c Config) {
	s := c.Open(t)
	absent(t, s, name(0))
	for i, size := range []int{0, 1, 64 << 10, 1<<20 + 1} {
		put(t, s, name(i), content(i, size))
		want(t, s, name(i), content(i, size))
	}
	put(t, s, snapshot.Manifest("job-1", 1, 3, 2), content(9, 100))
	want(t, s, snapshot.Manifest("job-1", 1, 3, 2), content(9, 100))
	r, err := s.Open(t.Context(), name(2))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := make([]byte, 10)
	if n, err := r.ReadAt(p, 60000); n != 10 || err != nil || !bytes.Equal(p, content(2, 64<<10)[60000:60010]) {
		t.Errorf("in the middle: %d, %v, %x", n, err, p)
	}
	if n, err := r.ReadAt(p, 64<<10-4); n != 4 || !errors.Is(err, io.EOF) {
		t.Errorf("over the end: %d, %v", n, err)
	}
}

func testTwiceEqual(t *testing.T, c Config) {
	s := c.Open(t)
	put(t, s, name(0), content(1, 1000))
	put(t, s, name(0), content(1, 1000))
	want(t, s, name(0), content(1, 1000))
}

func testTwiceOther(t *testing.T, c Config) {
	s := c.Open(t)
	put(t, s, name(0), content(1, 1000))
	for _, other := range [][]byte{content(2, 1000), content(1, 999), nil} {
		if o, err := s.Put(t.Context(), name(0), int64(len(other)), bytes.NewReader(other)); !errors.Is(err, snapshot.ErrExists) {
			t.Errorf("other content of %d bytes: %v, %v", len(other), o, err)
		}
	}
	want(t, s, name(0), content(1, 1000))
}

func testCutShort(t *testing.T, c Config) {
	s := c.Open(t)
	broken := errors.New("cable cut")
	for what, from := range map[string]io.Reader{
		"short":  bytes.NewReader(content(1, 999)),
		"long":   bytes.NewReader(content(1, 1001)),
		"broken": io.MultiReader(bytes.NewReader(content(1, 500)), failing{broken}),
	} {
		o, err := s.Put(t.Context(), name(0), 1000, from)
		if err == nil || what == "broken" && !errors.Is(err, broken) {
			t.Errorf("%s: %v, %v", what, o, err)
		}
		absent(t, s, name(0))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ctx, name(0), 1000, bytes.NewReader(content(1, 1000))); err == nil {
		t.Error("put after the end of its context")
	}
	put(t, s, name(0), content(1, 1000)) // the same name, whole
	want(t, s, name(0), content(1, 1000))
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func testReadWhileDeleted(t *testing.T, c Config) {
	s := c.Open(t)
	data := content(1, 300<<10)
	put(t, s, name(0), data)
	put(t, s, name(1), data)
	r, err := s.Open(t.Context(), name(0))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := s.Delete(t.Context(), name(0), name(5)); err != nil {
		t.Fatal(err)
	}
	absent(t, s, name(0))
	want(t, s, name(1), data)
	got := make([]byte, len(data))
	_, err = r.ReadAt(got, 0)
	switch {
	case c.Forgets && errors.Is(err, snapshot.ErrNotFound):
	case err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(got, data):
		t.Errorf("an open object has changed: %v", err)
	}
	if err := s.Delete(t.Context(), name(0)); err != nil {
		t.Errorf("deleted again: %v", err)
	}
}

func testFailedButHappened(t *testing.T, c Config) {
	s := c.Open(t)
	f := &faulty{Store: s, happens: true}
	if _, err := f.Put(t.Context(), name(0), 1000, bytes.NewReader(content(1, 1000))); !errors.Is(err, errAnswerLost) {
		t.Fatal(err)
	}
	put(t, s, name(0), content(1, 1000)) // what a caller does that was told of a failure
	want(t, s, name(0), content(1, 1000))
	f.happens = false
	if _, err := f.Put(t.Context(), name(1), 1000, bytes.NewReader(content(1, 1000))); !errors.Is(err, errAnswerLost) {
		t.Fatal(err)
	}
	absent(t, s, name(1))
	put(t, s, name(1), content(1, 1000))
}

var errAnswerLost = errors.New("the answer was lost")

// faulty reports a failure of every Put, whether it happens or not.
type faulty struct {
	snapshot.Store
	happens bool
}

func (f *faulty) Put(ctx context.Context, n snapshot.Name, size int64, from io.Reader) (*jobpb.Object, error) {
	if f.happens {
		if _, err := f.Store.Put(ctx, n, size, from); err != nil {
			return nil, err
		}
	}
	return nil, errAnswerLost
}

func testLost(t *testing.T, c Config) {
	if c.Lose == nil {
		t.Skip("nothing can be lost")
	}
	s := c.Open(t)
	put(t, s, name(0), content(1, 1000))
	c.Lose(t, s, name(0))
	absent(t, s, name(0))
	put(t, s, name(0), content(1, 1000))
	want(t, s, name(0), content(1, 1000))
}

func testNames(t *testing.T, c Config) {
	s := c.Open(t)
	for _, n := range []snapshot.Name{
		"", "/", "x", "../1/1/1-1.segment", "job/../1/1-1.segment", "/job/1/1/1-1.segment", "job/1/1/1-1.segment/..", `job\1/1/1/1-1.segment`,
		"job/1/1/01-1.segment", "job/1/1/1-1.segment@", "job/-1/1/1-1.segment", "./1/1/1-1.segment", "job/1/1/0-1.segment", "job/1/1/1-1.tmp",
		snapshot.Name(strings.Repeat("j", 300) + "/1/1/1-1.segment"), "job\x00/1/1/1-1.segment",
	} {
		if _, err := s.Put(t.Context(), n, 1, strings.NewReader("x")); err == nil {
			t.Errorf("%q was put", n)
		}
		if r, err := s.Open(t.Context(), n); err == nil {
			t.Errorf("%q was opened: %v", n, r)
		}
	}
	if got := list(t, s, ""); len(got) != 0 {
		t.Errorf("there is %v", got)
	}
}

func list(t *testing.T, s snapshot.Store, prefix string) (names []string) {
	t.Helper()
	err := s.List(t.Context(), prefix, func(o *jobpb.Object) error {
		names = append(names, o.Name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func testList(t *testing.T, c Config) {
	s := c.Open(t)
	var all []string
	for _, job := range []string{"a-1", "a-10", "a", "b-1"} {
		for _, n := range []snapshot.Name{
			snapshot.Segment(job, 1, 2, 10, 0), snapshot.Segment(job, 1, 2, 9, 0), snapshot.Segment(job, 1, 10, 9, 0), snapshot.Manifest(job, 1, 9, 4), snapshot.Manifest(job, 2, 10, 4),
		} {
			put(t, s, n, content(1, 5))
			all = append(all, string(n))
		}
	}
	slices.Sort(all)
	for _, prefix := range []string{"", "a", "a-1", "a-1/", "a-1/1/", "a-1/1/2", "a-1/1/2/", "a-1/1/2/10-0.segment", "c", "b-1/3"} {
		expected := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return !strings.HasPrefix(n, prefix) })
		if got := list(t, s, prefix); !slices.Equal(got, expected) {
			t.Errorf("%q:\ngot  %v\nwant %v", prefix, got, expected)
		}
	}
	enough := errors.New("enough")
	if err := s.List(t.Context(), "", func(*jobpb.Object) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("the end of a list: %v", err)
	}
}

func testConcurrent(t *testing.T, c Config) {
	s := c.Open(t)
	g := run.NewGroup(t.Context(), "test")
	for i := range 16 {
		g.Go("put", func(ctx context.Context) error {
			for k := range 8 { // two and two write the same name, with the same content
				n := i/2*8 + k
				o, err := s.Put(ctx, name(n), 10_000, bytes.NewReader(content(n, 10_000)))
				if err != nil {
					return err
				}
				r, err := s.Open(ctx, name(n))
				if err != nil {
					return err
				}
				if err := errors.Join(snapshot.Verify(ctx, r, o, "test"), r.Close()); err != nil {
					return fmt.Errorf("%d: %w", n, err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s, ""); len(got) != 64 {
		t.Errorf("%d objects", len(got))
	}
}

func testDraft(t *testing.T, c Config) {
	s := c.Open(t)
	for i, abort := range []bool{false, true} {
		d, err := snapshot.NewDraft(t.Context(), s, name(i))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := d.Write(content(1, 300)); err != nil {
				t.Fatal(err)
			}
		}
		absent(t, s, name(i))
		if abort {
			d.Abort()
			absent(t, s, name(i))
			continue
		}
		if o, err := d.Commit(t.Context()); err != nil || o.Size != 900 {
			t.Fatal(o, err)
		}
		d.Abort() // does nothing
		want(t, s, name(i), bytes.Repeat(content(1, 300), 3))
	}
	if got := list(t, s, ""); len(got) != 1 {
		t.Errorf("there is %v", got)
	}
}
