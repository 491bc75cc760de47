package chunks

import (
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

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

// node is a worker's store that answers on a real port.
type node struct {
	*Keeper
	dir     string
	address string
	server  *grpc.Server
}

func (n *node) at() *taskpb.StoreAddress {
	return &taskpb.StoreAddress{Store: n.cfg.Worker, Address: n.address}
}

func dial(address string) (*grpc.ClientConn, error) { return wire.Policy{}.Client(address) }

func start(t *testing.T, id string) *node {
	t.Helper()
	n := &node{dir: t.TempDir()}
	var err error
	if n.Keeper, err = Open(Config{FS: vfs.OS{}, Dir: n.dir, Worker: id, Dial: dial, Log: hclog.NewNullLogger()}); err != nil {
		t.Fatal(err)
	}
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.address, n.server = l.Addr().String(), wire.Policy{}.Server()
	n.Register(n.server)
	g := run.NewGroup(context.Background(), id)
	g.Go("serve", func(context.Context) error {
		if err := n.server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil
	})
	g.Go("orders", n.Run)
	t.Cleanup(func() {
		n.server.Stop()
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// process is a task process of a worker, or a leader if that is nil.
func process(t *testing.T, n *node) *peer.Stores {
	t.Helper()
	c := peer.Config{Dial: dial}
	if n != nil {
		own, err := fs.Join(vfs.OS{}, n.dir)
		if err != nil {
			t.Fatal(err)
		}
		c.Own, c.ID = own, n.cfg.Worker
	}
	s := peer.New(c)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func commit(t *testing.T, s *peer.Stores, name snapshot.Name, content string, targets []*taskpb.StoreAddress, copies int) (*jobpb.StoredObject, error) {
	t.Helper()
	u, err := s.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Abort()
	if _, err := io.WriteString(u, content); err != nil {
		t.Fatal(err)
	}
	return u.Commit(t.Context(), targets, copies)
}

func content(t *testing.T, s *peer.Stores, o *jobpb.StoredObject, at ...*taskpb.StoreAddress) (string, error) {
	t.Helper()
	r, err := s.Open(t.Context(), o, at)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	return string(b), errors.Join(err, r.Close())
}

var (
	name = snapshot.Segment("job-1", 1, 2, 3, 0)
	text = strings.Repeat("0123456789abcdef", 200_000) // more than a window
)

func damage(t *testing.T, n *node, f func([]byte) []byte) {
	t.Helper()
	path := n.dir + "/" + string(name)
	b, err := vfs.ReadFile(vfs.OS{}, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := vfs.Publish(vfs.OS{}, path, f(b)); err != nil {
		t.Fatal(err)
	}
}

func flip(b []byte) []byte { b[len(b)/2] ^= 1; return b }

// TestObjectsHaveCopiesElsewhere: what is committed lies in as many stores as was asked for, going past those that are gone; fewer
// than that are an error only if one was there that did not take it.
func TestObjectsHaveCopiesElsewhere(t *testing.T) {
	a, b, c := start(t, "a"), start(t, "b"), start(t, "c")
	gone := start(t, "gone")
	gone.server.Stop()
	p := process(t, a)
	o, err := commit(t, p, name, text, []*taskpb.StoreAddress{gone.at(), b.at(), c.at()}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.Stores, " "); got != "a b" {
		t.Fatalf("stored at %s", got)
	}
	if got, err := content(t, process(t, nil), o, b.at()); err != nil || got != text {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	alone := snapshot.Segment("job-1", 1, 2, 3, 1)
	if o, err := commit(t, p, alone, "x", nil, 2); err != nil || len(o.Stores) != 1 {
		t.Fatal("the only store is enough for as many copies as there are stores", err)
	}
	if _, err := commit(t, p, snapshot.Segment("job-1", 1, 2, 3, 2), "x", []*taskpb.StoreAddress{gone.at()}, 2); err == nil {
		t.Fatal("a store that did not take its copy counts as one")
	} else if e, ok := errors.AsType[*snapshot.WriteError](err); !ok || e.Where != gone.address {
		t.Fatal(err)
	}
	leader := process(t, nil)
	if o, err := commit(t, leader, snapshot.Manifest("job-1", 1, 3, 1), "m", []*taskpb.StoreAddress{gone.at(), b.at(), c.at()}, 2); err != nil || strings.Join(o.Stores, " ") != "b c" {
		t.Fatal(o, err)
	}
	if _, err := commit(t, leader, snapshot.Manifest("job-1", 1, 4, 1), "m", nil, 2); err == nil {
		t.Fatal("an object that is nowhere was taken for stored")
	}
}

// TestADamagedCopyIsPassedOver: the next store is asked, the damaged copy is removed and told to the leader.
func TestADamagedCopyIsPassedOver(t *testing.T) {
	for _, how := range []struct {
		name string
		f    func([]byte) []byte
	}{{"a flipped bit", flip}, {"cut", func(b []byte) []byte { return b[:len(b)-1] }}, {"longer", func(b []byte) []byte { return append(b, 'x') }}, {"empty", func([]byte) []byte { return nil }}} {
		t.Run(how.name, func(t *testing.T) {
			a, b, c := start(t, "a"), start(t, "b"), start(t, "c")
			o, err := commit(t, process(t, a), name, text, []*taskpb.StoreAddress{b.at(), c.at()}, 3)
			if err != nil {
				t.Fatal(err)
			}
			damage(t, a, how.f)
			damage(t, b, how.f)
			if got, err := content(t, process(t, a), o, b.at(), c.at()); err != nil || got != text {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			select {
			case r := <-b.Reports():
				if len(r.Damaged) != 1 || r.Damaged[0] != string(name) || r.Job != "job-1" {
					t.Error(r)
				}
			case <-time.After(10 * time.Second):
				t.Error("the damage was not reported")
			}
			if _, err := b.store.Open(t.Context(), name); !errors.Is(err, snapshot.ErrNotFound) {
				t.Error("the damaged copy is still there", err)
			}
			damage(t, c, how.f)
			clear(c.mu.digests) // it has been restarted, or has scrubbed
			if _, err := content(t, process(t, nil), o, b.at(), c.at()); err == nil {
				t.Error("bytes that nobody wrote were read")
			}
		})
	}
}

// TestAStoreOutlivesItsAgent: what was put before a restart is in the inventory after it, and what was half written is not.
func TestAStoreOutlivesItsAgent(t *testing.T) {
	a := start(t, "a")
	p := process(t, a)
	o, err := commit(t, p, name, text, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(t.Context(), snapshot.Segment("job-2", 1, 2, 3, 0)); err != nil { // its process is killed
		t.Fatal(err)
	}
	again, err := Open(Config{FS: vfs.OS{}, Dir: a.dir, Worker: "a", Dial: dial, Log: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	all, err := again.Inventory(t.Context())
	if err != nil || len(all) != 1 || all[0].Job != "job-1" || len(all[0].Objects) != 1 || all[0].Objects[0].Name != o.Object.Name {
		t.Fatal(all, err)
	}
	if _, err := (vfs.OS{}).Stat(a.dir + "/job-2"); !errors.Is(err, iofs.ErrNotExist) {
		t.Fatal("what was half written is still there", err)
	}
}

// TestOrdersAreCarriedOutAndTold plays what leaders ask for: copies of what has too few, and deletions by plan, each of them twice.
func TestOrdersAreCarriedOutAndTold(t *testing.T) {
	a, b := start(t, "a"), start(t, "b")
	o, err := commit(t, process(t, a), name, text, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	take := func() *controlpb.ObjectsReport {
		select {
		case r := <-b.Reports():
			return r
		case <-time.After(10 * time.Second):
			t.Fatal("nothing was reported")
		}
		return nil
	}
	for range 2 {
		b.Copy(&controlpb.CopyObjects{Job: "job-1", Objects: []*jobpb.StoredObject{o}, Stores: []*taskpb.StoreAddress{a.at()}})
		if r := take(); len(r.Stored) != 1 || r.Stored[0].Name != string(name) {
			t.Fatal(r)
		}
	}
	o.Stores = []string{"b"}
	if got, err := content(t, process(t, nil), o, b.at()); err != nil || got != text {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for range 2 {
		b.Delete(&controlpb.DeleteObjects{Job: "job-1", Names: []string{string(name)}})
		if r := take(); len(r.Deleted) != 1 {
			t.Fatal(r)
		}
	}
	if all, err := b.Inventory(t.Context()); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
}

// TestScrubbingFindsDamageThatNobodyReads.
func TestScrubbingFindsDamageThatNobodyReads(t *testing.T) {
	a := start(t, "a")
	o, err := commit(t, process(t, a), name, text, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := content(t, process(t, nil), o, a.at()); err != nil { // its digest is known by that
		t.Fatal(err)
	}
	damage(t, a, flip)
	if err := a.scrub(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-a.Reports():
		if len(r.Damaged) != 1 {
			t.Fatal(r)
		}
	default:
		t.Fatal("the damage was not reported")
	}
}

// TestForeignRequestsAreRefused: names, sizes and ranges that come from elsewhere are data.
func TestForeignRequestsAreRefused(t *testing.T) {
	a := start(t, "a")
	o, err := commit(t, process(t, a), name, "0123456789", nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dial(a.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	client := controlpb.NewObjectsClient(conn)
	put := func(object *jobpb.Object, data string) error {
		call, err := client.Put(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := call.Send(&controlpb.PutObject{Part: &controlpb.PutObject_Object{Object: object}}); err != nil {
			t.Fatal(err)
		}
		_ = call.Send(&controlpb.PutObject{Part: &controlpb.PutObject_Data{Data: []byte(data)}}) // the answer tells
		_, err = call.CloseAndRecv()
		return err
	}
	second := string(snapshot.Segment("job-1", 1, 2, 3, 1))
	for what, err := range map[string]error{
		"a path":         put(&jobpb.Object{Name: "../../x.segment", Size: 1}, "x"),
		"no object":      put(nil, "x"),
		"too much":       put(&jobpb.Object{Name: second, Size: 1}, "xy"),
		"too little":     put(&jobpb.Object{Name: second, Size: 3}, "xy"),
		"another digest": put(&jobpb.Object{Name: second, Size: 2, Digest: o.Object.Digest}, "xy"),
		"a used name":    put(&jobpb.Object{Name: o.Object.Name, Size: 2}, "xy"),
	} {
		if err == nil {
			t.Errorf("%s was taken", what)
		}
	}
	for _, r := range [][2]int64{{-1, 2}, {9, 2}, {0, -1}, {11, 0}, {1 << 62, 1 << 62}} {
		call, err := client.Get(t.Context(), &controlpb.GetObject{Object: o.Object, Offset: r[0], Size: r[1]})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := call.Recv(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("range %v was answered: %v", r, err)
		}
	}
	if got, err := content(t, process(t, nil), o, a.at()); err != nil || got != "0123456789" {
		t.Fatal(got, err)
	}
}
