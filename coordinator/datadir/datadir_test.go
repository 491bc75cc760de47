package datadir

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/internal/vfs"
)

func newDir(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	if err := vfs.MakeDir(mem, "/d"); err != nil {
		t.Fatal(err)
	}
	return mem
}

func TestIdentityIsDrawnOnceAndSurvivesACrash(t *testing.T) {
	mem := newDir(t)
	if ok, err := Exists(mem, "/d"); ok || err != nil {
		t.Errorf("an empty directory is a node's: %t, %v", ok, err)
	}
	first, err := Load(mem, "/d")
	if err != nil || len(first.ID) != 12 {
		t.Fatalf("identity %v, %v", first, err)
	}
	again, err := Load(mem.CrashClone(), "/d")
	if err != nil || again != first {
		t.Errorf("after a crash %v, %v, before %v", again, err, first)
	}
	first.Cluster, first.API, first.Raft = "c", "127.0.0.1:1", "[::1]:2"
	if err := Store(mem, "/d", first); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(mem, "/d"); err != nil || got != first {
		t.Errorf("stored %v, loaded %v, %v", first, got, err)
	}
	if ok, err := Exists(mem, "/d"); !ok || err != nil {
		t.Errorf("not a node's directory: %t, %v", ok, err)
	}
}

func TestDamagedIdentityIsRefused(t *testing.T) {
	good := Identity{ID: "abc", Cluster: "c", API: "a:1", Raft: "r:2"}.encode()
	lines := strings.SplitAfter(string(good), "\n")
	for name, bad := range map[string]string{
		"empty":      "",
		"no end":     string(good[:len(good)-1]),
		"one line":   lines[0],
		"no sum":     strings.Join(lines[:len(lines)-2], ""),
		"flipped":    strings.Replace(string(good), "abc", "abd", 1),
		"other kind": strings.Replace(string(good), "coordinator", "worker", 1),
		"longer":     string(good) + "x\n",
	} {
		mem := newDir(t)
		if err := vfs.Publish(mem, "/d/node", []byte(bad)); err != nil {
			t.Fatal(err)
		}
		if id, err := Load(mem, "/d"); !errors.Is(err, errIdentity) {
			t.Errorf("%s: loaded %v, %v", name, id, err)
		}
	}
	if _, err := decodeIdentity(Identity{}.encode()); !errors.Is(err, errIdentity) {
		t.Errorf("an identity without id: %v", err)
	}
}

func FuzzDecodeIdentity(f *testing.F) {
	f.Add(Identity{ID: "abc", Cluster: "c", API: "a:1", Raft: "r:2", HTTP: "h:3"}.encode())
	f.Add([]byte("sluice-coordinator 1\nid \ncrc32c 00000000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := decodeIdentity(data)
		if err != nil {
			return
		}
		if !bytes.Equal(id.encode(), data) {
			t.Errorf("%q was read as %v, which is written as %q", data, id, id.encode())
		}
	})
}

func TestHaltedNodeIsRefused(t *testing.T) {
	mem := newDir(t)
	if err := CheckHalted(mem, "/d"); err != nil {
		t.Fatal(err)
	}
	if err := Halt(mem, "/d", "the facts differ"); err != nil {
		t.Fatal(err)
	}
	if err := CheckHalted(mem.CrashClone(), "/d"); err == nil || !strings.Contains(err.Error(), "the facts differ") {
		t.Errorf("after a crash: %v", err)
	}
}

func TestDirectoryHasOneOwner(t *testing.T) {
	mem := newDir(t)
	lock, err := Lock(mem, "/d")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(mem, "/d"); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("locked twice: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if lock, err = Lock(mem, "/d"); err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSpoolIsReadTwiceAndLeavesNothing(t *testing.T) {
	mem := newDir(t)
	if err := ClearSpool(mem, "/d"); err != nil {
		t.Fatal(err)
	}
	s, err := NewSpool(mem, "/d", strings.NewReader("some stream"))
	if err != nil || s.Size != 11 {
		t.Fatalf("%v, %v", s, err)
	}
	for range 2 {
		if got, err := io.ReadAll(s.Reader()); err != nil || string(got) != "some stream" {
			t.Errorf("read %q, %v", got, err)
		}
	}
	if err := s.Discard(); err != nil {
		t.Fatal(err)
	}
	broken := io.MultiReader(strings.NewReader("some"), &failing{})
	if _, err := NewSpool(mem, "/d", broken); err == nil {
		t.Error("half a stream was spooled")
	}
	if left, err := mem.ReadDir("/d/spool"); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	// A crash in the middle leaves a file; the next start clears it.
	if _, err := NewSpool(mem, "/d", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if err := ClearSpool(mem, "/d"); err != nil {
		t.Fatal(err)
	}
	if left, err := mem.ReadDir("/d/spool"); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, errors.New("broken") }
