package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const seeds = 50

// tree is everything that is visible: path → content; directories end with a slash.
func tree(fsys FS) map[string]string {
	out := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		list, err := fsys.ReadDir(dir)
		if err != nil {
			panic(err)
		}
		for _, e := range list {
			name := path.Join(dir, e.Name())
			if e.IsDir() {
				out[name+"/"] = ""
				walk(name)
				continue
			}
			data, err := ReadFile(fsys, name)
			if err != nil {
				panic(err)
			}
			out[name] = string(data)
		}
	}
	walk("/")
	return out
}

func TestCrashForgetsWhatWasNotSynced(t *testing.T) {
	m := NewMem()
	put(t, m, "named", "lost bytes")
	put(t, m, "nameless", "x")
	must(t, m.SyncDir("/"))
	f, err := Create(m, "later")
	must(t, err)
	_, err = f.Write([]byte("synced bytes of a name that was not"))
	must(t, err)
	must(t, f.Sync())
	must(t, m.Remove("nameless"))
	must(t, m.Mkdir("dir", 0o755))

	equal(t, tree(m.CrashClone()), map[string]string{"/named": "", "/nameless": ""})
	equal(t, tree(m), map[string]string{"/named": "lost bytes", "/later": "synced bytes of a name that was not", "/dir/": ""})

	must(t, m.SyncDir("/"))
	equal(t, tree(m.CrashClone()), map[string]string{"/named": "", "/later": "synced bytes of a name that was not", "/dir/": ""})
}

func TestCrashKeepsTheFileThatANameLastSyncedPointedTo(t *testing.T) {
	m := NewMem()
	must(t, Publish(m, "f", []byte("old")))
	f, err := Create(m, "g")
	must(t, err)
	_, err = f.Write([]byte("new"))
	must(t, err)
	must(t, f.Sync())
	must(t, m.Rename("g", "f"))
	equal(t, tree(m.CrashClone()), map[string]string{"/f": "old"})
	must(t, m.SyncDir("/"))
	equal(t, tree(m.CrashClone()), map[string]string{"/f": "new"})
}

// A file published without the sync of its bytes is the classic bug; the twin must show it.
func TestCrashShowsARenameOvertakingTheBytes(t *testing.T) {
	m := NewMem()
	must(t, Publish(m, "f", []byte("old")))
	put(t, m, "g", "new")
	must(t, m.Rename("g", "f"))
	must(t, m.SyncDir("/"))
	equal(t, tree(m.CrashClone()), map[string]string{"/f": ""})
}

func TestRenameIsAtomicInEveryTornCrash(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(seeds) {
		m := NewMem()
		must(t, MakeDir(m, "a"))
		must(t, MakeDir(m, "b"))
		must(t, Publish(m, "a/f", []byte("x")))
		must(t, m.Rename("a/f", "b/g"))
		got := tree(m.TornClone(seed))
		seen[fmt.Sprint(got)] = true
		if _, old := got["/a/f"]; old == (got["/b/g"] == "x") {
			t.Fatalf("seed %d: %v", seed, got)
		}
	}
	if len(seen) != 2 {
		t.Errorf("%d seeds showed only %v", seeds, seen)
	}
}

func TestTornBytesAreOldOrNewBySector(t *testing.T) {
	const sectors = 5
	old, fresh := strings.Repeat("o", sectors*sectorBytes), strings.Repeat("n", sectors*sectorBytes+17)
	outcomes := map[string]bool{}
	for seed := range uint64(seeds) {
		m := NewMem()
		must(t, Publish(m, "f", []byte(old)))
		f, err := m.OpenFile("f", 2, 0)
		must(t, err)
		_, err = f.WriteAt([]byte(fresh), 0)
		must(t, err)
		got := tree(m.TornClone(seed))["/f"]
		outcomes[got] = true
		if len(got) < len(old) || len(got) > len(fresh) {
			t.Fatalf("seed %d: %d bytes", seed, len(got))
		}
		for at := 0; at < len(got); at += sectorBytes {
			sector := got[at:min(at+sectorBytes, len(got))]
			if strings.Trim(sector, sector[:1]) != "" || !strings.Contains("on\x00", sector[:1]) {
				t.Fatalf("seed %d: sector at %d mixes %q", seed, at, sector)
			}
		}
		equal(t, tree(m.TornClone(seed)), tree(m.TornClone(seed)))
	}
	if len(outcomes) < seeds/2 {
		t.Errorf("%d seeds gave %d outcomes", seeds, len(outcomes))
	}
}

// everyStep calls algorithm once per operation that it performs, with a hook before that operation, and once without.
func everyStep(t *testing.T, setup func(m *Mem), algorithm func(fsys FS) error, at func(m *Mem, op Operation, path string) Fault, after func(m *Mem, step string, err error)) {
	t.Helper()
	for stop := 0; ; stop++ {
		m := NewMem()
		setup(m)
		step, n := "", 0
		err := algorithm(WithFaults(m, func(op Operation, path string) Fault {
			n++
			if n-1 != stop {
				return Fault{}
			}
			step = fmt.Sprintf("%d: %s %s", stop, op, path)
			return at(m, op, path)
		}))
		if step == "" {
			must(t, err)
			after(m, "none", nil)
			if stop < 3 {
				t.Fatalf("only %d steps: the hook is not called", stop)
			}
			return
		}
		after(m, step, err)
	}
}

func TestPublishIsAllOrNothingWhereverItCrashes(t *testing.T) {
	old, fresh := strings.Repeat("old", 300), strings.Repeat("fresh", 900)
	check := func(step string, m *Mem) {
		for seed := range uint64(seeds) {
			if got := tree(m.TornClone(seed))["/d/f"]; got != old && got != fresh {
				t.Fatalf("crash before step %s, seed %d: %d bytes, neither old nor new", step, seed, len(got))
			}
		}
		if got := tree(m.CrashClone())["/d/f"]; got != old && got != fresh {
			t.Fatalf("crash before step %s: %d bytes, neither old nor new", step, len(got))
		}
	}
	everyStep(t,
		func(m *Mem) { must(t, MakeDir(m, "d")); must(t, Publish(m, "d/f", []byte(old))) },
		func(fsys FS) error { return Publish(fsys, "d/f", []byte(fresh)) },
		func(m *Mem, op Operation, path string) Fault { check(fmt.Sprint(op, " ", path), m); return Fault{} },
		func(m *Mem, step string, err error) {
			must(t, err)
			equal(t, tree(m.CrashClone()), map[string]string{"/d/": "", "/d/f": fresh})
		})
}

func TestPublishSurvivesEveryFault(t *testing.T) {
	broken := errors.New("broken disk")
	for _, outcome := range []Outcome{NotDone, Done, Half} {
		everyStep(t,
			func(m *Mem) { must(t, MakeDir(m, "d")); must(t, Publish(m, "d/f", []byte("old"))) },
			func(fsys FS) error { return Publish(fsys, "d/f", []byte("fresh")) },
			func(*Mem, Operation, string) Fault { return Fault{Err: broken, Outcome: outcome} },
			func(m *Mem, step string, err error) {
				if step != "none" && !errors.Is(err, broken) {
					t.Errorf("fault at %s was swallowed: %v", step, err)
				}
				if got := tree(m)["/d/f"]; got != "old" && got != "fresh" {
					t.Errorf("fault at %s: %q is visible", step, got)
				}
				must(t, Publish(m, "d/f", []byte("fresh"))) // the answer to any error
				equal(t, tree(m.CrashClone()), map[string]string{"/d/": "", "/d/f": "fresh"})
			})
	}
}

func TestMakeDirIsDurableAfterAnyInterruptedAttempt(t *testing.T) {
	broken := errors.New("broken")
	for _, outcome := range []Outcome{NotDone, Done} {
		everyStep(t, func(*Mem) {},
			func(fsys FS) error { return MakeDir(fsys, "a/b/c") },
			func(*Mem, Operation, string) Fault { return Fault{Err: broken, Outcome: outcome} },
			func(m *Mem, step string, err error) {
				must(t, MakeDir(m, "a/b/c"))
				equal(t, tree(m.CrashClone()), map[string]string{"/a/": "", "/a/b/": "", "/a/b/c/": ""})
			})
	}
}

func TestDiscardedStaysDiscarded(t *testing.T) {
	m := NewMem()
	must(t, MakeDir(m, "d/e"))
	must(t, Publish(m, "d/e/f", []byte("x")))
	must(t, m.RemoveAll("d"))
	equal(t, tree(m.CrashClone()), map[string]string{"/d/": "", "/d/e/": "", "/d/e/f": "x"})
	must(t, Discard(m, "d"))
	equal(t, tree(m.CrashClone()), map[string]string{})
}

func TestFaultsThatTheCallerCannotSeeAreDone(t *testing.T) {
	broken := errors.New("broken")
	m := NewMem()
	due := Fault{Err: broken, Outcome: Done}
	fsys := WithFaults(m, func(Operation, string) Fault { return due })
	_, err := Create(fsys, "f")
	want(t, err, broken)
	want(t, fsys.Mkdir("d", 0o755), broken)
	want(t, fsys.Rename("f", "g"), broken)
	_, err = fsys.Lock("lock")
	want(t, err, broken)
	equal(t, tree(m), map[string]string{"/d/": "", "/g": "", "/lock": ""})
	l, err := m.Lock("lock") // a lock whose taking failed is not held
	must(t, err)
	must(t, l.Close())

	due = Fault{}
	f, err := Create(fsys, "f")
	must(t, err)
	due = Fault{Err: broken, Outcome: Half}
	n, err := f.Write([]byte("abcdef"))
	want(t, err, broken)
	equal(t, n, 3)
	want(t, f.Close(), broken)
	due = Fault{}
	want(t, f.Close(), fs.ErrClosed)
	equal(t, content(t, m, "f"), "abc")
}

// TestFullySyncedStateSurvivesAnyCrash drives random operations; after syncing everything, no crash changes anything,
// and before it, every crash shows only names and bytes that were there at some time.
func TestFullySyncedStateSurvivesAnyCrash(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := NewMem()
		dirs := []string{"/", "/a", "/a/b"}
		for _, d := range dirs {
			if err := MakeDir(m, d); err != nil {
				rt.Fatal(err)
			}
		}
		paths := rapid.SampledFrom([]string{"/x", "/y", "/a/x", "/a/b/x", "/a/b/y"})
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			step(rt, m, paths)
		}
		before := tree(m)
		seed := rapid.Uint64().Draw(rt, "seed")
		_, _ = tree(m.TornClone(seed)), tree(m.CrashClone())
		if d := cmp.Diff(before, tree(m)); d != "" {
			rt.Fatalf("a clone changed the original (-before +after)\n%s", d)
		}
		syncAll(rt, m)
		for _, clone := range []*Mem{m.CrashClone(), m.TornClone(seed), m.CrashClone().TornClone(seed)} {
			if d := cmp.Diff(before, tree(clone)); d != "" {
				rt.Fatalf("synced state changed (-synced +found)\n%s", d)
			}
		}
	})
}

func step(rt *rapid.T, m *Mem, paths *rapid.Generator[string]) {
	name := paths.Draw(rt, "path")
	switch rapid.SampledFrom([]string{"write", "append", "rename", "remove", "sync"}).Draw(rt, "op") {
	case "write":
		if err := Publish(m, name, []byte(rapid.StringN(0, 20, -1).Draw(rt, "data"))); err != nil {
			rt.Fatal(err)
		}
	case "append":
		f, err := Append(m, name)
		if err != nil {
			rt.Fatal(err)
		}
		if _, err := f.Write(make([]byte, rapid.IntRange(0, 2*sectorBytes).Draw(rt, "zeros"))); err != nil {
			rt.Fatal(err)
		}
	case "rename":
		if err := m.Rename(name, paths.Draw(rt, "to")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			rt.Fatal(err)
		}
	case "remove":
		if err := m.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			rt.Fatal(err)
		}
	case "sync":
		if err := m.SyncDir(path.Dir(name)); err != nil {
			rt.Fatal(err)
		}
	}
}

func syncAll(rt *rapid.T, m *Mem) {
	for name := range tree(m) {
		if strings.HasSuffix(name, "/") {
			continue
		}
		f, err := Open(m, name)
		if err != nil {
			rt.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			rt.Fatal(err)
		}
	}
	for _, d := range []string{"/", "/a", "/a/b"} {
		if err := m.SyncDir(d); err != nil {
			rt.Fatal(err)
		}
	}
}
