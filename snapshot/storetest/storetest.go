// Package storetest is the suite that every snapshot.Store passes.
package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Run plays the contract of snapshot.Store. open makes an empty store.
func Run(t *testing.T, open func(*testing.T) snapshot.Store) {
	for _, c := range []struct {
		name string
		play func(*testing.T, snapshot.Store)
	}{
		{"what was put can be read", putAndRead},
		{"the same again is the same", putTwice},
		{"another content under a name is refused", putOther},
		{"an object that is cut short is not there", cutShort},
		{"what is not there is ErrNotFound", notThere},
		{"an open object stays readable when it is deleted", deletedWhileOpen},
		{"deleting is repeatable", deleteTwice},
		{"a list has what begins with the prefix, in order", list},
		{"a name is no path", foreignNames},
		{"many at once", many},
	} {
		t.Run(c.name, func(t *testing.T) { c.play(t, open(t)) })
	}
}

func put(t *testing.T, s snapshot.Store, name snapshot.Name, content string) *jobpb.Object {
	t.Helper()
	o, err := s.Put(t.Context(), name, int64(len(content)), strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256([]byte(content)); o.Name != string(name) || o.Size != int64(len(content)) || !bytes.Equal(o.Digest, sum[:]) {
		t.Fatalf("%v for %d bytes under %s", o, len(content), name)
	}
	return o
}

func read(t *testing.T, s snapshot.Store, name snapshot.Name) string {
	t.Helper()
	r, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(t *testing.T, s snapshot.Store, prefix string) string {
	t.Helper()
	var out []string
	if err := s.List(t.Context(), prefix, func(o *jobpb.Object) error {
		out = append(out, fmt.Sprintf("%s=%d", o.Name, o.Size))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

var one = snapshot.Segment("job-1", 1, 2, 3, 0)

func putAndRead(t *testing.T, s snapshot.Store) {
	for i, content := range []string{"", "x", strings.Repeat("0123456789", 300_000)} {
		name := snapshot.Segment("job-1", 1, 2, 3, i)
		o := put(t, s, name, content)
		if got := read(t, s, name); got != content {
			t.Fatalf("%d bytes came back of %d", len(got), len(content))
		}
		r, err := s.Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := snapshot.Verify(t.Context(), r, o, "here"); err != nil {
			t.Fatal(err)
		}
		if len(content) > 10 {
			var b [5]byte
			if n, err := r.ReadAt(b[:], 7); n != 5 || err != nil || string(b[:]) != "78901" {
				t.Fatalf("%q %d %v", b, n, err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func putTwice(t *testing.T, s snapshot.Store) {
	put(t, s, one, "abc")
	put(t, s, one, "abc")
	if got := read(t, s, one); got != "abc" {
		t.Fatal(got)
	}
}

func putOther(t *testing.T, s snapshot.Store) {
	put(t, s, one, "abc")
	if _, err := s.Put(t.Context(), one, 3, strings.NewReader("abd")); err == nil {
		t.Fatal("a name was used twice")
	}
	if got := read(t, s, one); got != "abc" {
		t.Fatal(got)
	}
}

func cutShort(t *testing.T, s snapshot.Store) {
	if _, err := s.Put(t.Context(), one, 4, strings.NewReader("abc")); err == nil {
		t.Error("three bytes were taken for four")
	}
	if _, err := s.Put(t.Context(), one, 2, strings.NewReader("abc")); err == nil {
		t.Error("three bytes were taken for two")
	}
	if _, err := s.Put(t.Context(), one, 6, io.MultiReader(strings.NewReader("abc"), brokenReader{})); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ctx, one, 3, strings.NewReader("abc")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := names(t, s, ""); got != "" {
		t.Error(got)
	}
	put(t, s, one, "abc")
}

var errBroken = errors.New("the source broke")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

func notThere(t *testing.T, s snapshot.Store) {
	if _, err := s.Open(t.Context(), one); !errors.Is(err, snapshot.ErrNotFound) {
		t.Fatal(err)
	}
	if got := names(t, s, "job-1/"); got != "" {
		t.Fatal(got)
	}
}

func deletedWhileOpen(t *testing.T, s snapshot.Store) {
	put(t, s, one, "abc")
	r, err := s.Open(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	var b [3]byte
	if n, err := r.ReadAt(b[:], 0); n != 3 || err != nil && !errors.Is(err, io.EOF) {
		t.Error(n, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	notThere(t, s)
}

func deleteTwice(t *testing.T, s snapshot.Store) {
	two := snapshot.Segment("job-1", 1, 2, 3, 1)
	put(t, s, one, "a")
	put(t, s, two, "b")
	for range 2 {
		if err := s.Delete(t.Context(), one, snapshot.Segment("job-9", 1, 1, 1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, s, ""); got != string(two)+"=1" {
		t.Fatal(got)
	}
}

func list(t *testing.T, s snapshot.Store) {
	for _, n := range []snapshot.Name{
		snapshot.Segment("job-10", 1, 2, 3, 0), snapshot.Segment("job-1", 1, 2, 4, 0), snapshot.Segment("job-1", 1, 2, 3, 0), snapshot.Manifest("job-1", 1, 3, 7),
	} {
		put(t, s, n, "ab")
	}
	if got, want := names(t, s, "job-1/"), "job-1/1/2/3-0.segment=2 job-1/1/2/4-0.segment=2 job-1/1/3-7.manifest=2"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := names(t, s, "job-1/1/2/3"); got != "job-1/1/2/3-0.segment=2" {
		t.Error(got)
	}
	stop := errors.New("enough")
	if err := s.List(t.Context(), "", func(*jobpb.Object) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

func foreignNames(t *testing.T, s snapshot.Store) {
	for _, n := range []snapshot.Name{
		"", "a.segment", "/a/b.segment", "a//b.segment", "../a.segment", "a/../../b.segment", "a/./b.segment", "a/.incoming/b.segment", "a/b", "a/b.segment/", "a\\b/c.segment", "a/b\x00.segment",
	} {
		if _, err := s.Put(t.Context(), n, 1, strings.NewReader("x")); err == nil {
			t.Errorf("%q was put", string(n))
		}
		if _, err := s.Open(t.Context(), n); err == nil {
			t.Errorf("%q was opened", string(n))
		}
	}
}

func many(t *testing.T, s snapshot.Store) {
	const writers = 8
	var wg sync.WaitGroup
	errs := make([]error, 2*writers)
	for i := range 2 * writers { // each name by two
		wg.Go(func() {
			content := strings.Repeat(fmt.Sprint(i%writers), 1000)
			_, errs[i] = s.Put(context.Background(), snapshot.Segment("job-1", 1, uint64(i%writers), 1, 0), 1000, strings.NewReader(content))
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i := range writers {
		if got := read(t, s, snapshot.Segment("job-1", 1, uint64(i), 1, 0)); got != strings.Repeat(fmt.Sprint(i), 1000) {
			t.Errorf("writer %d: %d bytes", i, len(got))
		}
	}
}
