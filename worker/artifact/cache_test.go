package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
)

// failer is a testing.T or a rapid.T.
type failer interface {
	Helper()
	Fatal(...any)
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// store is a coordinator: it has everything that was put into it.
type store struct {
	data    map[string][]byte
	fetches int
	mangle  func(data []byte) ([]byte, error)
}

func (s *store) put(data string) string {
	if s.data == nil {
		s.data = map[string][]byte{}
	}
	d := digestOf([]byte(data))
	s.data[d] = []byte(data)
	return d
}

func (s *store) fetch(_ context.Context, digest string, w io.Writer) error {
	s.fetches++
	data, err := s.data[digest], error(nil)
	if s.mangle != nil {
		data, err = s.mangle(data)
	}
	for part := range slices.Chunk(data, 3) {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return err
}

func open(t failer, fsys vfs.FS, limit int64) *Cache {
	t.Helper()
	c, err := Open(fsys, "cache", limit)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnArtifactIsFetchedOnceAndStays(t *testing.T) {
	fsys, s := vfs.NewMem(), &store{}
	d := s.put("a binary")
	for range 2 { // the second time after a restart
		c := open(t, fsys, 1000)
		for range 2 {
			h, err := c.Acquire(t.Context(), d, s.fetch)
			if err != nil {
				t.Fatal(err)
			}
			data, err := vfs.ReadFile(fsys, h.Path())
			if err != nil || string(data) != "a binary" {
				t.Fatalf("%q, %v", data, err)
			}
			info, err := fsys.Stat(h.Path())
			if err != nil || info.Mode().Perm()&0o100 == 0 {
				t.Fatalf("not executable: %v, %v", info, err)
			}
			h.Release()
		}
	}
	if s.fetches != 1 {
		t.Errorf("fetched %d times", s.fetches)
	}
}

func TestNothingButTheRightBytesIsKept(t *testing.T) {
	for name, mangle := range map[string]func([]byte) ([]byte, error){
		"cut":     func(b []byte) ([]byte, error) { return b[:len(b)/2], nil },
		"longer":  func(b []byte) ([]byte, error) { return append(bytes.Clone(b), 'x'), nil },
		"flipped": func(b []byte) ([]byte, error) { return append([]byte{b[0] ^ 1}, b[1:]...), nil },
		"empty":   func([]byte) ([]byte, error) { return nil, nil },
		"broken":  func(b []byte) ([]byte, error) { return b, errors.New("connection lost") },
		"endless": func([]byte) ([]byte, error) { return make([]byte, 5000), nil },
	} {
		t.Run(name, func(t *testing.T) {
			fsys, s := vfs.NewMem(), &store{mangle: mangle}
			c := open(t, fsys, 1000)
			d := s.put("a binary")
			if _, err := c.Acquire(t.Context(), d, s.fetch); err == nil {
				t.Fatal("was accepted")
			}
			if files, err := fsys.ReadDir("cache"); err != nil || len(files) > 0 {
				t.Errorf("left behind: %v, %v", files, err)
			}
			if len(c.Digests()) > 0 || c.Size() != 0 {
				t.Errorf("the cache believes to hold %v, %d bytes", c.Digests(), c.Size())
			}
			s.mangle = nil // the next try is a fresh one
			h, err := c.Acquire(t.Context(), d, s.fetch)
			if err != nil {
				t.Fatal(err)
			}
			h.Release()
		})
	}
}

func TestANameThatIsNoDigestNeverBecomesAPath(t *testing.T) {
	c := open(t, vfs.NewMem(), 1000)
	for _, d := range []string{"", "../../etc/passwd", strings.Repeat("A", 64), strings.Repeat("a", 63), strings.Repeat("a", 63) + "/"} {
		if _, err := c.Acquire(t.Context(), d, (&store{}).fetch); err == nil {
			t.Errorf("%q was accepted", d)
		}
	}
}

func TestWhoeverWantsTheSameArtifactWaitsForOneTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		d := s.put("a binary")
		c := open(t, vfs.NewMem(), 1000)
		arrived := make(chan struct{})
		slow := func(ctx context.Context, digest string, w io.Writer) error {
			<-arrived
			return s.fetch(ctx, digest, w)
		}
		g := run.NewGroup(t.Context(), "test")
		for range 10 {
			g.Go("acquire", func(ctx context.Context) error {
				h, err := c.Acquire(ctx, d, slow)
				if err == nil {
					h.Release()
				}
				return err
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Acquire(ctx, d, slow); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has gone away: %v", err)
		}
		close(arrived)
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if s.fetches != 1 {
			t.Errorf("fetched %d times", s.fetches)
		}
	})
}

func TestAFullDiskIsSharedWithNothingThatIsIdle(t *testing.T) {
	mem, s := vfs.NewMem(), &store{}
	const capacity = 50
	c := open(t, vfs.WithFaults(mem, func(op vfs.Operation, name string) vfs.Fault {
		total := int64(3)
		files, err := mem.ReadDir("cache")
		if err != nil || op != vfs.OpWrite {
			return vfs.Fault{}
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			total += info.Size()
		}
		if total > capacity {
			return vfs.Fault{Err: syscall.ENOSPC}
		}
		return vfs.Fault{}
	}), 1000)
	idle, used, wanted, large := s.put(strings.Repeat("i", 20)), s.put(strings.Repeat("u", 20)), s.put(strings.Repeat("w", 20)), s.put(strings.Repeat("l", 40))
	for _, d := range []string{idle, used, wanted} {
		h, err := c.Acquire(t.Context(), d, s.fetch)
		if err != nil {
			t.Fatal(err)
		}
		if d == idle {
			h.Release()
		}
	}
	want := []string{used, wanted}
	slices.Sort(want)
	if got := c.Digests(); !slices.Equal(got, want) {
		t.Errorf("the cache holds %v, want %v", got, want)
	}
	// What does not fit beside the artifacts in use is refused, and nothing is left of it.
	_, err := c.Acquire(t.Context(), large, s.fetch)
	if !errors.Is(err, ErrLocal) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v", err)
	}
	if files, err := mem.ReadDir("cache"); err != nil || len(files) != 2 || !slices.Equal(c.Digests(), want) {
		t.Errorf("%d files, %v, %v", len(files), err, c.Digests())
	}
}

// A model of the cache: what is in use is there, the rest fits into the bound, the oldest goes first.
func TestTheBoundHoldsForWhatIsNotInUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 100
		fsys, s := vfs.NewMem(), &store{}
		c := open(t, fsys, limit)
		var digests []string
		for i := range 8 {
			digests = append(digests, s.put(strings.Repeat(fmt.Sprint(i), 10+10*i)))
		}
		held := map[string][]*Handle{}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				d := rapid.SampledFrom(digests).Draw(t, "digest")
				h, err := c.Acquire(context.Background(), d, s.fetch)
				if err != nil {
					t.Fatal(err)
				}
				held[d] = append(held[d], h)
			},
			"release": func(t *rapid.T) {
				d := rapid.SampledFrom(digests).Draw(t, "digest")
				if n := len(held[d]); n > 0 {
					held[d][0].Release()
					held[d][0].Release() // twice is once
					held[d] = held[d][1:]
				}
			},
			"": func(t *rapid.T) {
				inUse, all := int64(0), int64(0)
				for _, d := range digests {
					info, err := fsys.Stat(path.Join("cache", d))
					switch {
					case err == nil:
						all += info.Size()
					case len(held[d]) > 0:
						t.Fatalf("%s is in use and was removed", d)
					}
					if len(held[d]) > 0 {
						inUse += info.Size()
					}
				}
				if all != c.Size() {
					t.Fatalf("%d bytes on disk, %d known", all, c.Size())
				}
				// What was released since the last fetch may still be above the bound.
				if n := int64(len(c.Digests())); all > limit && inUse <= limit && n == 1 {
					t.Fatalf("%d bytes are kept, %d in use", all, inUse)
				}
			},
		})
		for _, hs := range held {
			for _, h := range hs {
				h.Release()
			}
		}
		h, err := c.Acquire(context.Background(), s.put("one more"), s.fetch)
		if err != nil {
			t.Fatal(err)
		}
		h.Release()
		if c.Size() > limit {
			t.Fatalf("%d bytes after everything was released", c.Size())
		}
	})
}

// Wherever the power goes during a transfer: what is found under a digest afterwards is either right or not run.
func TestACrashLeavesNoDamagedArtifact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys, s := vfs.NewMem(), &store{}
		d := s.put(strings.Repeat("a binary ", 50))
		at, n := rapid.IntRange(0, 30).Draw(t, "operation"), 0
		var after *vfs.Mem
		seed := rapid.Uint64().Draw(t, "seed")
		crashing := vfs.WithFaults(fsys, func(vfs.Operation, string) vfs.Fault {
			if n == at {
				after = fsys.TornClone(seed)
			}
			n++
			return vfs.Fault{}
		})
		c, err := Open(crashing, "cache", 1000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Acquire(context.Background(), d, s.fetch); err != nil {
			t.Fatal(err)
		}
		if after == nil {
			after = fsys.TornClone(seed)
		}
		c, err = Open(after, "cache", 1000)
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.Acquire(context.Background(), d, s.fetch)
		if err != nil {
			t.Fatal(err)
		}
		data, err := vfs.ReadFile(after, h.Path())
		if err != nil || digestOf(data) != d {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
	})
}
