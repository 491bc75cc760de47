package stored

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// realWorld has files on disk and an agent behind a TCP port.
func realWorld(t testing.TB) (w *world, dir string) {
	t.Helper()
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	w = newWorldOn(t, vfs.OS{}, dir, 64<<20, l)
	w.dialBy(func(ctx context.Context) (net.Conn, error) { return wire.Policy{}.Dial(ctx, l.Addr().String()) })
	return w, dir
}

// damages are what may befall a file, each with the bytes that it then has.
func damages(kind string, good []byte) map[string]func(path string) error {
	write := func(b []byte) func(string) error {
		return func(path string) error { return os.WriteFile(path, b, 0o644) }
	}
	all := map[string]func(path string) error{
		"deleted":           os.Remove,
		"emptied":           write(nil),
		"cut in the middle": write(good[:len(good)/2]),
		"one byte short":    write(good[:len(good)-1]),
		"one byte longer":   write(append(slices.Clone(good), 0)),
		"zeros":             write(make([]byte, len(good))),
		"a directory": func(path string) error {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o755))
		},
	}
	regions := map[string]int{"its first byte": 0, "its version": 9, "its middle": len(good) / 2, "its end": len(good) - 1}
	if kind == "data" {
		regions["the header of the first block"] = partition.FileHeader + 5
		regions["the first payload"] = partition.FileHeader + partition.BlockHeader + 100
	} else {
		regions["an extent"] = partition.FileHeader + 3
		regions["the sum of an extent"] = partition.FileHeader + 30
		regions["the footer"] = len(good) - 60
	}
	for name, at := range regions {
		bad := slices.Clone(good)
		bad[at] ^= 0x10
		all["a flipped bit in "+name] = write(bad)
	}
	return all
}

// TestDamageIsTheLossOfExactlyThatPartition: each file, each kind of damage, read here and from the agent. What is left
// of the other partitions is read.
func TestDamageIsTheLossOfExactlyThatPartition(t *testing.T) {
	w, dir := realWorld(t)
	const producers, victim = 3, 1
	for p := range producers {
		w.write(p, 1, 3000, 100)
	}
	base := filepath.Join(dir, filepath.FromSlash(testName(victim).Path()))
	for _, kind := range []string{"data", "index"} {
		path := base + "." + kind
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, damage := range damages(kind, good) {
			t.Run(kind+" "+what, func(t *testing.T) {
				if err := damage(path); err != nil {
					t.Fatal(err)
				}
				for where, x := range map[string]*Exchange{"here": w.here, "there": w.there} {
					r := w.reader(w.readerConfig(x, 0, producers))
					have, err := r.drain()
					r.Close(err)
					wantLost(t, err, testName(victim))
					if len(have) > 0 && !strings.HasPrefix(have[0], "0: ") {
						t.Errorf("%s: began with %s", where, have[0])
					}
					for _, p := range []int{0, 2} {
						cfg := w.readerConfig(x, 0, producers)
						cfg.Producers = cfg.Producers[p : p+1]
						r := w.reader(cfg)
						if have, err := r.drain(); err != nil || !slices.Equal(have, testTexts(p, 3000, 100)) {
							t.Errorf("%s: the sound partition of producer %d: %d inputs, %v", where, p, len(have), err)
						}
						r.Close(nil)
					}
				}
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, good, 0o644); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func wantLost(t testing.TB, err error, n Name) {
	t.Helper()
	var lost *LostError
	if !errors.Is(err, ErrLost) || !errors.As(err, &lost) || lost.Name != n {
		t.Fatalf("got %v, want the loss of %s", err, n)
	}
	if !strings.Contains(err.Error(), CodeLost) || !strings.Contains(err.Error(), fmt.Sprintf("producer %d", n.Producer)) {
		t.Errorf("%q does not say what was lost", err)
	}
}

// TestAWorkerThatStartsOffersOnlyWhatItCanRead: what is damaged is not in the inventory, and nobody removes it.
func TestAWorkerThatStartsOffersOnlyWhatItCanRead(t *testing.T) {
	w, dir := realWorld(t)
	for p := range 4 {
		w.write(p, 1, 100, 50)
	}
	path := func(p int, suffix string) string {
		return filepath.Join(dir, filepath.FromSlash(testName(p).Path())) + suffix
	}
	if err := errors.Join(
		os.Truncate(path(0, ".data"), 100), os.Truncate(path(1, ".index"), 100), os.Remove(path(2, ".index")),
		os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("not ours"), 0o644),
		os.WriteFile(filepath.Join(filepath.Dir(path(0, "")), "e1-p1-a1.bak"), []byte("not ours"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	s, err := Open(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if have := s.Inventory(); len(have) != 1 || have[0].Name != testName(3) || have[0].Bytes < 100*50 {
		t.Errorf("the inventory is %v", have)
	}
	if n, bytes := s.Usage(); n != 1 || bytes != s.Inventory()[0].Bytes {
		t.Errorf("%d partitions of %d bytes", n, bytes)
	}
	var bad []Name
	for _, l := range s.Damaged() {
		bad = append(bad, l.Name)
	}
	if !slices.Equal(bad, []Name{testName(0), testName(1)}) {
		t.Errorf("damaged are %v", bad)
	}
	for _, kept := range []string{path(0, ".data"), path(0, ".index"), path(1, ".data"), path(1, ".index"), filepath.Join(dir, "notes.txt"), filepath.Join(filepath.Dir(path(0, "")), "e1-p1-a1.bak")} {
		if _, err := os.Stat(kept); err != nil {
			t.Errorf("%v", err)
		}
	}
	if _, err := os.Stat(path(2, ".data")); !os.IsNotExist(err) {
		t.Errorf("data without index was left: %v", err)
	}
}

// TestAnIndexInTheWrongPlaceIsNoPartition: a copy under another name is not what it says.
func TestAnIndexInTheWrongPlaceIsNoPartition(t *testing.T) {
	w, dir := realWorld(t)
	w.write(0, 1, 100, 50)
	for _, suffix := range []string{".data", ".index"} {
		b, err := os.ReadFile(filepath.Join(dir, testName(0).Path()+suffix))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, testName(7).Path()+suffix), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cfg := w.readerConfig(w.here, 0, 1)
	cfg.Producers[0].Name = testName(7)
	_, err := w.reader(cfg).drain()
	wantLost(t, err, testName(7))
}

// TestAReaderThatHasBegunReadsOnWhateverIsRemoved: it holds the files.
func TestAReaderThatHasBegunReadsOnWhateverIsRemoved(t *testing.T) {
	for name, remove := range map[string]func(w *world, dir string) error{
		"dropped":          func(w *world, _ string) error { return w.store.Drop(testName(0)) },
		"dropped as a job": func(w *world, _ string) error { return w.store.DropJob("flights-1") },
		"deleted":          func(_ *world, dir string) error { return os.RemoveAll(filepath.Join(dir, "flights-1")) },
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := realWorld(t)
			w.write(0, 1, 50_000, 100) // more than any reader has room for
			var readers []*reader
			begun := map[*reader]int{}
			for _, x := range []*Exchange{w.here, w.there} {
				r := w.reader(w.readerConfig(x, 0, 1))
				in, err := r.next()
				if err != nil {
					t.Fatal(err)
				}
				readers, begun[r] = append(readers, r), in.Batch.Len()
				r.Release(in)
			}
			if err := remove(w, dir); err != nil {
				t.Fatal(err)
			}
			for _, r := range readers {
				rest, err := r.drain()
				if err != nil || len(rest) != 50_000-begun[r]+1 {
					t.Errorf("%d inputs, %v", len(rest), err)
				}
				_, err = w.reader(w.readerConfig(r.cfg.Exchange, 0, 1)).drain()
				wantLost(t, err, testName(0))
			}
		})
	}
}

// TestShortageIsNoLoss: a process without a free descriptor has lost nothing.
func TestShortageIsNoLoss(t *testing.T) {
	for _, cause := range scarce {
		if err := lossOf(testName(0), fmt.Errorf("open: %w", cause)); errors.Is(err, ErrLost) {
			t.Errorf("%v", err)
		}
	}
	if err := lossOf(testName(0), os.ErrPermission); !errors.Is(err, ErrLost) {
		t.Errorf("a file that may not be read: %v", err)
	}
}
