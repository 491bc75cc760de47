package chunks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/fs"
	"github.com/sluiceio/sluice/snapshot/peer"
)

// node is an agent's store behind a real port.
type node struct {
	*Keeper
	fsys vfs.FS
	at   *taskpb.StoreAddress
	stop func()
}

func start(t *testing.T, id string, fsys vfs.FS) *node {
	t.Helper()
	return serve(t, Config{FS: fsys, Dir: "snapshots", Worker: id, Log: hclog.NewNullLogger()})
}

func serve(t *testing.T, cfg Config) *node {
	t.Helper()
	k, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := wire.Policy{}.Server()
	controlpb.RegisterObjectsServer(server, k.Service())
	g := run.NewGroup(context.Background(), "node")
	g.Go("serve", func(context.Context) error { return server.Serve(l) })
	g.Go("work", k.Work)
	n := &node{Keeper: k, fsys: cfg.FS, at: &taskpb.StoreAddress{Store: cfg.Worker, Address: l.Addr().String()}}
	n.stop = func() {
		server.Stop()
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		if n.stop != nil {
			n.stop()
		}
	})
	return n
}

// process is the Stores of a task process on the node's machine.
func (n *node) process(t *testing.T) *peer.Stores {
	t.Helper()
	own, err := fs.Join(n.fsys, "snapshots")
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, peer.New(peer.Config{Own: own, ID: n.at.Store, Shared: n.cfg.Shared, Stall: 5 * time.Second}))
}

func closing(t *testing.T, s *peer.Stores) *peer.Stores {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func store(t *testing.T, s snapshot.Stores, name snapshot.Name, data []byte, copies int, targets ...*taskpb.StoreAddress) (*jobpb.StoredObject, error) {
	t.Helper()
	u, err := s.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Abort()
	if _, err := u.Write(data); err != nil {
		t.Fatal(err)
	}
	return u.Commit(t.Context(), targets, copies)
}

func want(t *testing.T, s snapshot.Stores, o *jobpb.StoredObject, data []byte, at ...*taskpb.StoreAddress) {
	t.Helper()
	r, err := s.Open(t.Context(), o, at)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := make([]byte, r.Size())
	for i := 0; i < len(got); i += 100_000 { // small reads and the one over the end
		end := min(i+100_000, len(got))
		if _, err := r.ReadAt(got[i:end], int64(i)); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, data) {
		t.Error("other bytes")
	}
	whole := make([]byte, r.Size()+5)
	if n, err := r.ReadAt(whole, 0); n != len(data) || !errors.Is(err, io.EOF) || !bytes.Equal(whole[:n], data) {
		t.Errorf("all at once: %d, %v", n, err)
	}
}

var data = bytes.Repeat([]byte("0123456789abcde\n"), 100_000)

func TestCopiesLieOnOtherWorkersAndAreReadFromThere(t *testing.T) {
	a, b, c := start(t, "w-a", vfs.NewMem()), start(t, "w-b", vfs.NewMem()), start(t, "w-c", vfs.NewMem())
	name := snapshot.Segment("job-1", 1, 7, 3, 0)
	o, err := store(t, a.process(t), name, data, 2, b.at, c.at)
	if err != nil || len(o.Stores) != 2 || o.Stores[0] != "w-a" || o.Stores[1] != "w-b" {
		t.Fatalf("placed as %v, %v", o.GetStores(), err)
	}
	if inv := b.Inventory(); len(inv) != 1 || inv[0].Job != "job-1" || inv[0].Objects[0].Name != string(name) || len(c.Inventory()) != 0 {
		t.Errorf("inventories: %v, %v", inv, c.Inventory())
	}
	want(t, a.process(t), o, data, a.at, b.at)
	want(t, c.process(t), o, data, a.at, b.at)
	leader := closing(t, peer.New(peer.Config{}))
	want(t, leader, o, data, a.at, b.at)
	a.stop()
	a.stop = nil
	want(t, closing(t, peer.New(peer.Config{})), o, data, a.at, b.at) // the next place
	m, err := store(t, leader, snapshot.Manifest("job-1", 1, 3, 9), []byte("manifest"), 2, a.at, b.at, c.at)
	if err != nil || len(m.Stores) != 2 || m.Stores[0] != "w-b" || m.Stores[1] != "w-c" {
		t.Errorf("the manifest went to %v, %v", m.GetStores(), err)
	}
	if m, err := store(t, leader, snapshot.Manifest("job-1", 1, 4, 9), []byte("manifest"), 2, a.at, b.at); err == nil {
		t.Errorf("one of two targets is gone, and nobody says so: %v", m)
	}
}

func TestAnOwnCopyIsBelievedWhenItsDigestWasCompared(t *testing.T) {
	a, b := start(t, "w-a", vfs.NewMem()), start(t, "w-b", vfs.NewMem())
	name := snapshot.Segment("job-1", 1, 7, 3, 0)
	o, err := store(t, a.process(t), name, data, 2, b.at)
	if err != nil {
		t.Fatal(err)
	}
	damage(t, a.fsys, name)
	want(t, a.process(t), o, data, a.at, b.at) // b's
	_, err = a.process(t).Open(t.Context(), &jobpb.StoredObject{Object: o.Object, Stores: []string{"w-a"}}, nil)
	if !errors.Is(err, snapshot.ErrDamaged) || !strings.Contains(err.Error(), "E152") {
		t.Errorf("without b: %v", err)
	}
}

// TestADamagedCopyIsNotServed reads from elsewhere: who reads by ranges cannot compare the digest of the whole, and the other copy would do.
func TestADamagedCopyIsNotServed(t *testing.T) {
	a, b := start(t, "w-a", vfs.NewMem()), start(t, "w-b", vfs.NewMem())
	name := snapshot.Segment("job-1", 1, 7, 3, 0)
	o, err := store(t, a.process(t), name, data, 2, b.at)
	if err != nil {
		t.Fatal(err)
	}
	damage(t, a.fsys, name)
	want(t, closing(t, peer.New(peer.Config{})), o, data, a.at, b.at) // b's
	select {
	case r := <-a.Reports():
		if len(r.Damaged) != 1 || r.Damaged[0] != string(name) || len(a.Inventory()) != 0 {
			t.Errorf("reported %v, and still there: %v", r, a.Inventory())
		}
	default:
		t.Error("a damaged copy was served, or nobody was told of it")
	}
	damage(t, b.fsys, name)
	if _, err := closing(t, peer.New(peer.Config{})).Open(t.Context(), o, []*taskpb.StoreAddress{b.at}); !errors.Is(err, snapshot.ErrDamaged) {
		t.Errorf("no copy is sound: %v", err)
	}
}

// damage changes a byte of an object.
func damage(t *testing.T, fsys vfs.FS, name snapshot.Name) {
	t.Helper()
	dir := "snapshots/" + filepath.Dir(string(name))
	list, err := fsys.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	f, err := fsys.OpenFile(dir+"/"+list[0].Name(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("!"), 1000); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAFullDiskIsNamedAndTheNextTargetTaken(t *testing.T) {
	full := vfs.WithFaults(vfs.NewMem(), func(op vfs.Operation, path string) vfs.Fault {
		if op == vfs.OpWrite {
			return vfs.Fault{Err: syscall.ENOSPC}
		}
		return vfs.Fault{}
	})
	a, b, c := start(t, "w-a", vfs.NewMem()), start(t, "w-b", full), start(t, "w-c", vfs.NewMem())
	o, err := store(t, a.process(t), snapshot.Segment("job-1", 1, 7, 3, 0), data, 2, b.at, c.at)
	if err != nil || len(o.Stores) != 2 || o.Stores[1] != "w-c" {
		t.Errorf("placed as %v, %v", o.GetStores(), err)
	}
	_, err = store(t, a.process(t), snapshot.Segment("job-1", 1, 7, 4, 0), data, 2, b.at)
	var w *snapshot.WriteError
	if !errors.As(err, &w) || w.Bytes == 0 || !strings.Contains(err.Error(), "w-b") || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v", err)
	}
}

func TestOrdersAreAnswered(t *testing.T) {
	a, b := start(t, "w-a", vfs.NewMem()), start(t, "w-b", vfs.NewMem())
	o, err := store(t, a.process(t), snapshot.Segment("job-1", 1, 7, 3, 0), data, 1)
	if err != nil {
		t.Fatal(err)
	}
	wrong := &jobpb.StoredObject{Object: &jobpb.Object{Name: string(snapshot.Segment("job-1", 1, 7, 9, 0)), Size: 1, Digest: make([]byte, 32)}, Stores: o.Stores}
	b.Copy(&controlpb.CopyObjects{Job: "job-1", Objects: []*jobpb.StoredObject{wrong, o}, Stores: []*taskpb.StoreAddress{a.at}})
	if r := <-b.Reports(); r.Job != "job-1" || len(r.Stored) != 1 || r.Stored[0].Name != o.Object.Name || !bytes.Equal(r.Stored[0].Digest, o.Object.Digest) {
		t.Errorf("copied: %v", r)
	}
	a.Delete(&controlpb.DeleteObjects{Job: "job-1", Names: []string{o.Object.Name, "../../etc/passwd", string(snapshot.Segment("job-2", 1, 1, 1, 1)), wrong.Object.Name}})
	if r := <-a.Reports(); len(r.Deleted) != 2 || r.Deleted[0] != o.Object.Name || r.Deleted[1] != wrong.Object.Name {
		t.Errorf("deleted: %v", r)
	}
	if inv := a.Inventory(); len(inv) != 0 {
		t.Errorf("left: %v", inv)
	}
	o.Stores = append(o.Stores, "w-b")
	want(t, closing(t, peer.New(peer.Config{})), o, data, a.at, b.at)
	_, err = closing(t, peer.New(peer.Config{})).Open(t.Context(), o, []*taskpb.StoreAddress{a.at})
	if !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("gone from a: %v", err)
	}
}

func TestScrubbingRemovesAndReportsWhatIsDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := vfs.NewMem()
		k, err := Open(Config{FS: m, Dir: "snapshots", Worker: "w-a", Log: hclog.NewNullLogger(), Scrub: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		good, bad := snapshot.Segment("job-1", 1, 7, 3, 0), snapshot.Segment("job-1", 1, 8, 3, 0)
		for _, n := range []snapshot.Name{good, bad} {
			if _, err := k.store.Put(t.Context(), n, int64(len(data)), bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
		}
		damage(t, m, bad)
		g := run.NewGroup(t.Context(), "test")
		g.Go("scrub", k.Scrub)
		r := <-k.Reports()
		if len(r.Damaged) != 1 || r.Damaged[0] != string(bad) || r.Job != "job-1" {
			t.Errorf("reported: %v", r)
		}
		if inv := k.Inventory(); len(inv) != 1 || len(inv[0].Objects) != 1 || inv[0].Objects[0].Name != string(good) {
			t.Errorf("left: %v", inv)
		}
		g.Stop()
		if err := errors.Join(g.Wait(), k.peers.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestAnAgentThatDoesNotMoveIsGivenUp(t *testing.T) {
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := start(t, "w-b", vfs.NewMem())
	s := closing(t, peer.New(peer.Config{Stall: 200 * time.Millisecond}))
	o, err := store(t, s, snapshot.Manifest("job-1", 1, 3, 9), data, 1, &taskpb.StoreAddress{Store: "w-a", Address: l.Addr().String()}, b.at)
	if err != nil || len(o.Stores) != 1 || o.Stores[0] != "w-b" {
		t.Errorf("placed as %v, %v", o.GetStores(), err)
	}
}

// TestADirectoryThatWorkersShareOutlivesThem: what one has put is in the store of all, without being sent; it is read when its writer is
// gone, by task processes and by coordinators, and deleted once. A worker that starts removes nothing that another one is writing.
func TestADirectoryThatWorkersShareOutlivesThem(t *testing.T) {
	disk := vfs.NewMem()
	shared := func(id string) *node {
		return serve(t, Config{FS: disk, Dir: "snapshots", Worker: id, Shared: true, Log: hclog.NewNullLogger()})
	}
	a, b := shared("w-a"), shared("w-b")
	process := a.process(t)
	u, err := process.Create(t.Context(), snapshot.Segment("job-1", 1, 7, 3, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer u.Abort()
	if _, err := u.Write(data); err != nil {
		t.Fatal(err)
	}
	c := shared("w-c")
	second, err := u.Commit(t.Context(), []*taskpb.StoreAddress{b.at, c.at}, 2)
	if err != nil {
		t.Fatalf("another worker has started meanwhile: %v", err)
	}
	first, err := store(t, process, snapshot.Segment("job-1", 1, 7, 3, 0), data, 2, &taskpb.StoreAddress{Store: "w-b", Address: "127.0.0.1:1"}) // nobody is there
	if err != nil || len(first.Stores) != 2 || first.Stores[0] != "w-a" || first.Stores[1] != "w-b" {
		t.Fatalf("placed as %v, %v", first.GetStores(), err)
	}
	leader := closing(t, peer.New(peer.Config{}))
	manifest, err := store(t, leader, snapshot.Manifest("job-1", 1, 3, 9), []byte("manifest"), 2, a.at, b.at)
	if err != nil || len(manifest.Stores) != 2 {
		t.Fatalf("the manifest went to %v, %v", manifest.GetStores(), err)
	}
	a.stop()
	a.stop = nil
	alone := &jobpb.StoredObject{Object: first.Object, Stores: []string{"w-a"}}
	want(t, c.process(t), alone, data, a.at, b.at, c.at)
	want(t, c.process(t), manifest, []byte("manifest"), a.at, b.at, c.at)
	want(t, leader, first, data, a.at, b.at)
	want(t, leader, second, data, a.at, b.at)
	for _, n := range []*node{b, c} {
		n.Delete(&controlpb.DeleteObjects{Job: "job-1", Names: []string{first.Object.Name}})
		if r := <-n.Reports(); len(r.Deleted) != 1 {
			t.Errorf("deleted: %v", r)
		}
	}
	if inv := b.Inventory(); len(inv) != 1 || len(inv[0].Objects) != 2 {
		t.Errorf("left: %v", inv)
	}
}
