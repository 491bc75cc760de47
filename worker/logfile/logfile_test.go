package logfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// failer is a testing.T or a rapid.T.
type failer interface {
	Helper()
	Fatal(...any)
}

func create(t failer, dir string, limit int64) *Writer {
	t.Helper()
	w, err := Create(dir, limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func read(t failer, r *Reader) string {
	t.Helper()
	var all strings.Builder
	b := make([]byte, 97)
	for {
		n, err := r.Read(b)
		all.Write(b[:n])
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever is written in whatever pieces, through any number of rotations and restarts: what is kept is the end of it,
// within the bound and at least half of it, and a reader that keeps up sees everything once.
func TestTheEndOfTheOutputIsKept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		limit := rapid.Int64Range(8, 200).Draw(rt, "limit")
		w := create(t, dir, limit)
		follower, err := Open(dir, 0)
		if err != nil {
			rt.Fatal(err)
		}
		var written, followed strings.Builder
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				p := rapid.StringMatching(`[a-z]{0,20}\n`).Draw(rt, "p")
				if _, err := w.Write([]byte(p)); err != nil {
					rt.Fatal(err)
				}
				written.WriteString(p)
				if w.Dropped() > 0 {
					rt.Fatalf("%d bytes dropped", w.Dropped())
				}
				if limit >= 8*21 { // otherwise one write may overtake the reader
					followed.WriteString(read(t, follower))
				}
			},
			"restart": func(rt *rapid.T) {
				if err := w.Close(); err != nil {
					rt.Fatal(err)
				}
				w = create(t, dir, limit)
			},
			"": func(rt *rapid.T) {
				all, err := Open(dir, 0)
				if err != nil {
					rt.Fatal(err)
				}
				kept := read(t, all)
				if !strings.HasSuffix(written.String(), kept) {
					rt.Fatalf("kept %q of %q", kept, written.String())
				}
				if n := int64(len(kept)); n > limit || n < min(int64(written.Len()), limit/2) {
					rt.Fatalf("%d of %d bytes are kept, the bound is %d", n, written.Len(), limit)
				}
				tail, err := Open(dir, 5)
				if err != nil {
					rt.Fatal(err)
				}
				if got := read(t, tail); got != kept[max(len(kept)-5, 0):] {
					rt.Fatalf("tail %q of %q", got, kept)
				}
				if limit >= 8*21 && followed.String() != written.String() {
					rt.Fatalf("followed %q of %q", followed.String(), written.String())
				}
			},
		})
		if err := w.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestAReaderThatWasOvertakenSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, 80)
	r, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if _, err := w.Write([]byte("123456789\n")); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, r)
	if !strings.Contains(got, "bytes of output were rotated away") || !strings.HasSuffix(got, "123456789\n") {
		t.Errorf("read %q", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// The disk is full, or the directory is gone: the task process goes on, and what is lost is counted.
func TestOutputThatCannotBeWrittenIsDroppedAndCounted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w := create(t, dir, 80)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	line := []byte("123456789\n")
	for range 30 {
		if n, err := w.Write(line); n != len(line) || err != nil {
			t.Fatalf("write: %d, %v", n, err)
		}
	}
	if w.Dropped() == 0 {
		t.Error("nothing was counted")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	before := w.Dropped()
	if n, err := w.Write(line); n != len(line) || err != nil || w.Dropped() != before+int64(n) {
		t.Errorf("write after close: %d, %v, %d dropped", n, err, w.Dropped())
	}
}

func TestForeignFilesAreNoOutput(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"README", "1.log", "-0000000000000000001.log", "00000000000000000000.log.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("foreign"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := create(t, dir, 80)
	if _, err := w.Write([]byte("mine")); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, r); got != "mine" {
		t.Errorf("read %q", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
