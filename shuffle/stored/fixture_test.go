package stored

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/budget"
)

type rec struct {
	Key  int64
	Text string
}

func codecOf[T any](t testing.TB) *codec.Codec[T] {
	t.Helper()
	c, err := codec.Of[T](nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// world is a worker that has the partitions, with its agent, and task processes that read them: one on the same worker,
// one on another.
type world struct {
	t      testing.TB
	group  *run.Group
	fs     vfs.FS
	store  *Store
	memory *budget.Account // of both exchanges
	here   *Exchange
	there  *Exchange
	peer   *shuffle.Peer // how there finds the agent
	codec  *codec.Codec[rec]
	dial   atomic.Pointer[func(context.Context) (net.Conn, error)]
	reads  atomic.Int64 // finished by the agent
}

const testWorker = "w-holder"

// newWorld makes a world over fsys; its agent is reached through memory.
func newWorld(t testing.TB, fsys vfs.FS, dir string, memory int64) *world {
	t.Helper()
	l := bufconn.Listen(256 << 10)
	w := newWorldOn(t, fsys, dir, memory, l)
	w.dialBy(func(ctx context.Context) (net.Conn, error) { return l.DialContext(ctx) })
	return w
}

func newWorldOn(t testing.TB, fsys vfs.FS, dir string, memory int64, l net.Listener) *world {
	t.Helper()
	w := &world{
		t: t, group: run.NewGroup(context.Background(), "test"), fs: fsys, memory: budget.New(memory),
		peer: &shuffle.Peer{Worker: testWorker, Address: "agent"}, codec: codecOf[rec](t),
	}
	var err error
	if w.store, err = Open(fsys, dir); err != nil {
		t.Fatal(err)
	}
	server := &Server{Store: w.store, Worker: testWorker, Note: func(string, int64) { w.reads.Add(1) }}
	w.group.Go("agent", func(ctx context.Context) error { return server.Serve(ctx, l) })
	w.here = w.exchange(Config{Store: w.store, Memory: w.memory})
	guest, err := Join(vfs.NewMem(), "other")
	if err != nil {
		t.Fatal(err)
	}
	w.there = w.exchange(Config{Store: guest, Memory: w.memory, ConnectTimeout: 2 * time.Second, Dial: func(ctx context.Context, p shuffle.Peer) (net.Conn, error) {
		if p != *w.peer {
			return nil, fmt.Errorf("nobody at %v", p)
		}
		return (*w.dial.Load())(ctx)
	}})
	t.Cleanup(func() {
		w.group.Stop()
		if err := w.group.Wait(); err != nil {
			t.Error(err)
		}
		if used, _ := w.memory.Usage(); used != 0 && !t.Failed() {
			t.Errorf("%d bytes of memory were not given back", used)
		}
	})
	return w
}

func (w *world) dialBy(f func(context.Context) (net.Conn, error)) { w.dial.Store(&f) }

func (w *world) exchange(cfg Config) *Exchange {
	w.t.Helper()
	x, err := NewExchange(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.group.Go("exchange", x.Run)
	return x
}

func testName(producer int) Name {
	return Name{Job: "flights-1", JobEpoch: 2, Region: 3, RegionEpoch: 4, Edge: 5, Producer: int32(producer), Attempt: 6}
}

func (w *world) writerConfig(producer, consumers int) WriterConfig[rec] {
	return WriterConfig[rec]{
		Ctx: w.t.Context(), Exchange: w.here, Name: testName(producer), Consumers: int32(consumers), Codec: w.codec,
	}
}

func (w *world) writer(cfg WriterConfig[rec]) *Writer[rec] {
	w.t.Helper()
	x, err := NewWriter(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

// write stores n records of about size bytes for each consumer.
func (w *world) write(producer, consumers, n, size int) *Writer[rec] {
	w.t.Helper()
	return w.writeBy(w.writerConfig(producer, consumers), n, size)
}

func (w *world) writeBy(cfg WriterConfig[rec], n, size int) *Writer[rec] {
	w.t.Helper()
	x := w.writer(cfg)
	consumers := int(cfg.Consumers)
	for i := range n * consumers {
		if err := x.Add(i%consumers, testRecord(int(cfg.Name.Producer), i, size), element.Time(i)); err != nil {
			w.t.Fatal(err)
		}
	}
	finish(w.t, x)
	return x
}

func testRecord(producer, i, size int) rec {
	text := fmt.Sprintf("%d/%d ", producer, i)
	return rec{Key: int64(i), Text: text + strings.Repeat("x", max(0, size-len(text)))}
}

func finish(t testing.TB, x *Writer[rec]) {
	t.Helper()
	if err := errors.Join(x.Broadcast(element.Event{Kind: element.End, Time: element.MaxTime}), x.Close(nil)); err != nil {
		t.Fatal(err)
	}
}

// reader is a Reader with what a loop has beside it.
type reader struct {
	*Reader[rec]
	bell chan struct{}
}

func (w *world) producers(n int, peer *shuffle.Peer) (p []Producer) {
	for i := range n {
		p = append(p, Producer{Name: testName(i), Peer: peer, Stored: true})
	}
	return p
}

// readerConfig reads from this worker, or from the other one.
func (w *world) readerConfig(x *Exchange, consumer, producers int) ReaderConfig[rec] {
	peer := w.peer
	if x == w.here {
		peer = nil
	}
	return ReaderConfig[rec]{Ctx: w.t.Context(), Exchange: x, Consumer: int32(consumer), Producers: w.producers(producers, peer), Codec: w.codec}
}

func (w *world) reader(cfg ReaderConfig[rec]) *reader {
	w.t.Helper()
	r := &reader{bell: make(chan struct{}, 1)}
	cfg.Notify = func() {
		select {
		case r.bell <- struct{}{}:
		default:
		}
	}
	var err error
	if r.Reader, err = NewReader(cfg); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { r.Close(nil) })
	return r
}

// next waits for the next input.
func (r *reader) next() (shuffle.Input[rec], error) {
	for {
		in, ok, err := r.Next()
		if ok || err != nil {
			return in, err
		}
		select {
		case <-r.bell:
		case <-time.After(time.Minute):
			return in, errors.New("nothing came for a minute")
		}
	}
}

// got is what arrived: records, events and ends in order, as text, each with its producer.
type got []string

// drain reads to the end of all producers, or to an error.
func (r *reader) drain() (all got, err error) {
	for left := len(r.cfg.Producers); left > 0; {
		in, err := r.next()
		if err != nil {
			return all, err
		}
		if in.Batch == nil {
			all = append(all, eventText(in.Channel, in.Event))
			if in.Event.Kind == element.End {
				left--
			}
			continue
		}
		for i, v := range in.Batch.Vals {
			all = append(all, recordText(in.Channel, v, in.Batch.Times[i]))
		}
		r.Release(in)
	}
	return all, nil
}

func recordText(producer int, v rec, at element.Time) string {
	text := v.Text
	if len(text) > 40 {
		text = fmt.Sprintf("%s… %d", text[:20], len(text))
	}
	return fmt.Sprintf("%d: %d@%d %s", producer, v.Key, at, text)
}

func eventText(producer int, ev element.Event) string {
	return fmt.Sprintf("%d: event %d time %d", producer, ev.Kind, ev.Time)
}
