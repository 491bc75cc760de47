package overflow_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/overflow"
)

func store(t testing.TB, dir string) *overflow.Store {
	t.Helper()
	s, err := overflow.New(overflow.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func key(a *overflow.Area, k string) []byte { return append(slices.Clone(a.Prefix()), k...) }

func records(t interface{ Fatal(...any) }, a *overflow.Area, prefix, from string) map[string]string {
	m, last := map[string]string{}, ""
	var start []byte
	if from != "" {
		start = key(a, from)
	}
	err := a.Scan(key(a, prefix), start, func(k, v []byte) (bool, error) {
		k = k[len(a.Prefix()):]
		if string(k) <= last && last != "" {
			t.Fatal("not in order: ", last, string(k))
		}
		last = string(k)
		m[last] = string(v)
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAnAreaIsAMap(t *testing.T) {
	s := store(t, "")
	rapid.Check(t, func(t *rapid.T) {
		a, other := s.Area(), s.Area()
		if err := other.Put(key(other, "a"), []byte("not mine")); err != nil {
			t.Fatal(err)
		}
		model := map[string]string{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			k := rapid.StringMatching(`[ab]{0,3}`).Draw(t, "key")
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0, 1:
				v := strings.Repeat("v", rapid.SampledFrom([]int{0, 1, 50_000, 96 << 10, 300_000}).Draw(t, "size"))
				if err := a.Put(key(a, k), []byte(v)); err != nil {
					t.Fatal(err)
				}
				model[k] = v
			case 2:
				if err := a.Delete(key(a, k)); err != nil {
					t.Fatal(err)
				}
				delete(model, k)
			case 3:
				v, ok, err := a.Get(key(a, k))
				want, known := model[k]
				if err != nil || ok != known || string(v) != want {
					t.Fatalf("Get(%q) = %d bytes, %v, %v; want %d, %v", k, len(v), ok, err, len(want), known)
				}
			case 4:
				if err := a.Sync(); err != nil {
					t.Fatal(err)
				}
				a.Idle()
			case 5:
				from := rapid.StringMatching(`[ab]{0,2}`).Draw(t, "from")
				want := map[string]string{}
				for mk, v := range model {
					if strings.HasPrefix(mk, k) && mk >= from {
						want[mk] = v
					}
				}
				if d := cmp.Diff(want, records(t, a, k, from)); d != "" {
					t.Fatal(d)
				}
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestManyRecordsAreWrittenAndRead(t *testing.T) {
	s := store(t, filepath.Join(t.TempDir(), "overflow"))
	a := s.Area()
	if s.Opened() {
		t.Error("Badger runs although nothing was written")
	}
	const n = 20_000
	for i := range n {
		if err := a.Put(key(a, fmt.Sprintf("%06d", i)), fmt.Appendf(nil, "value %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		v, ok, err := a.Get(key(a, fmt.Sprintf("%06d", i)))
		if err != nil || !ok || string(v) != fmt.Sprint("value ", i) {
			t.Fatalf("record %d: %q, %v, %v", i, v, ok, err)
		}
	}
	if st := a.Stats(); st.Written != n || st.Read == 0 || st.Absent != 0 || a.Bytes() == 0 {
		t.Errorf("%+v", st)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

// What a process left behind, by a crash say, is gone when the next one starts.
func TestTheDirectoryIsEmptiedAtTheStartAndAtTheEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "overflow")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "MANIFEST"), []byte("torn by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := store(t, dir)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory of the process before is still there: %v", err)
	}
	a := s.Area()
	if err := a.Put(key(a, "k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := a.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

func TestRecordsOfClosedAreasAreRemoved(t *testing.T) {
	s := store(t, "")
	a, b := s.Area(), s.Area()
	long := bytes.Repeat([]byte("x"), 200_000)
	for i := range 2000 {
		if err := a.Put(key(a, fmt.Sprint(i)), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []*overflow.Area{a, b} {
		if err := x.Put(key(x, "long"), long); err != nil {
			t.Fatal(err)
		}
		if err := x.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.Count(); n != 4 { // three pieces and their head
		t.Errorf("%d keys are left", n)
	}
	if v, ok, err := b.Get(key(b, "long")); err != nil || !ok || !bytes.Equal(v, long) {
		t.Errorf("another area lost its record: %d bytes, %v, %v", len(v), ok, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestALongKeyIsRefused(t *testing.T) {
	a := store(t, "").Area()
	if err := a.Put(key(a, strings.Repeat("k", overflow.MaxKey)), nil); err == nil {
		t.Error("accepted")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPiecesOfReplacedValuesAreRemoved(t *testing.T) {
	s := store(t, "")
	a := s.Area()
	for _, v := range [][]byte{make([]byte, 500_000), make([]byte, 200_000), []byte("short"), nil} {
		if err := a.Put(key(a, "k"), v); err != nil {
			t.Fatal(err)
		}
		if err := a.Sync(); err != nil {
			t.Fatal(err)
		}
		want := 1
		if len(v) > 96<<10 {
			want += (len(v) + 96<<10 - 1) / (96 << 10)
		}
		if n := s.Count(); n != want {
			t.Errorf("%d keys for a value of %d bytes, want %d", n, len(v), want)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAnOpenBadgerIsCounted(t *testing.T) {
	b := budget.New(64 << 20)
	s, err := overflow.New(overflow.Config{Budget: b})
	if err != nil {
		t.Fatal(err)
	}
	a := s.Area()
	if b.Used() != 0 {
		t.Errorf("%d bytes before anything was written", b.Used())
	}
	if err := a.Put(key(a, "k"), nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Sync(); err != nil {
		t.Fatal(err)
	}
	if b.Used() < 8<<20 {
		t.Errorf("an open Badger counts as %d bytes", b.Used())
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if b.Used() != 0 {
		t.Errorf("a closed one as %d", b.Used())
	}
}

func TestFilesKeepWhatTheirOwnersNeed(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "overflow")} {
		f, err := store(t, dir).File()
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range []string{"first", "", "second"} {
			at, n, err := f.Append(strings.NewReader(text))
			if err != nil || n != int64(len(text)) || i == 2 && at != 5 {
				t.Fatalf("%q lies at %d, %d bytes: %v", text, at, n, err)
			}
		}
		f.Retain()
		if err := f.Release(); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 6)
		if n, err := f.ReadAt(b, 5); n != 6 || string(b) != "second" {
			t.Errorf("read %q, %v", b[:n], err)
		}
		if n, err := f.ReadAt(b, 8); n != 3 || err == nil {
			t.Errorf("read %d bytes behind the end, %v", n, err)
		}
		if err := f.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheCleanerRunsUntilItIsStopped(t *testing.T) {
	s := store(t, "")
	g := run.NewGroup(t.Context(), "overflow")
	g.Go("clean", s.Run)
	for range 3 {
		a := s.Area()
		if err := a.Put(key(a, "k"), nil); err != nil {
			t.Fatal(err)
		}
		if err := a.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}
