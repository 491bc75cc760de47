package shuffle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/run"
)

const testJob = "j-1"

type rec struct {
	Key  uint64
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

// world is where producers and consumers meet: one process, or two that are joined by a pipe.
type world struct {
	t                    testing.TB
	producers, consumers *Network
	toProducers          *Peer // nil: the same process
	group                *run.Group
	codec                *codec.Codec[rec]
}

type worldConfig struct {
	memory   int64
	listener net.Listener
	dial     func(context.Context, Peer) (net.Conn, error)
}

func start(t testing.TB, g *run.Group, cfg NetworkConfig) *Network {
	t.Helper()
	cfg.Job = testJob
	n, err := NewNetwork(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g.Go("network", n.Run)
	return n
}

func (w *world) stop() {
	w.group.Stop()
	if err := w.group.Wait(); err != nil {
		w.t.Error(err)
	}
}

func newLocal(t testing.TB, cfg worldConfig) *world {
	w := &world{t: t, group: run.NewGroup(context.Background(), "test"), codec: codecOf[rec](t)}
	w.producers = start(t, w.group, NetworkConfig{Process: 1, Memory: cfg.memory})
	w.consumers = w.producers
	return w
}

func newRemote(t testing.TB, cfg worldConfig) *world {
	w := &world{t: t, group: run.NewGroup(context.Background(), "test"), codec: codecOf[rec](t)}
	if cfg.listener == nil {
		l := bufconn.Listen(64 << 10)
		cfg.listener = l
		cfg.dial = func(ctx context.Context, _ Peer) (net.Conn, error) { return l.DialContext(ctx) }
	}
	w.producers = start(t, w.group, NetworkConfig{Process: 1, Memory: cfg.memory, Listener: cfg.listener})
	w.consumers = start(t, w.group, NetworkConfig{Process: 2, Memory: cfg.memory, Dial: cfg.dial})
	w.toProducers = &Peer{Worker: "w1", Address: "pipe", Process: 1}
	return w
}

// both runs f in fake time, on channels within a process and between two.
func both(t *testing.T, f func(t *testing.T, w *world)) {
	for name, make := range map[string]func(testing.TB, worldConfig) *world{"local": newLocal, "remote": newRemote} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := make(t, worldConfig{memory: 64 << 20})
				f(t, w)
				w.stop()
			})
		})
	}
}

func remotely(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newRemote(t, worldConfig{memory: 64 << 20})
		f(t, w)
		w.stop()
	})
}

func (w *world) ends(n int, p *Peer) (ends []End) {
	for i := range n {
		ends = append(ends, End{Index: int32(i), Attempt: 1, Peer: p})
	}
	return ends
}

func (w *world) writerConfig(producer, consumers int) WriterConfig[rec] {
	var p *Peer
	if w.toProducers != nil {
		p = &Peer{Worker: "w2", Address: "pipe", Process: 2}
	}
	return WriterConfig[rec]{
		Ctx: w.t.Context(), Edge: 3, Producer: int32(producer), Consumers: w.ends(consumers, p),
		Job: testJob, JobEpoch: 1, RegionEpoch: 1, Attempt: 1, Codec: w.codec,
	}
}

func (w *world) writer(producer, consumers int) *Writer[rec] {
	w.t.Helper()
	return w.writerOf(w.writerConfig(producer, consumers))
}

func (w *world) writerOf(cfg WriterConfig[rec]) *Writer[rec] {
	w.t.Helper()
	x, err := NewWriter(w.producers, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

// reader is a gate with what a loop has beside it.
type reader struct {
	*Gate[rec]
	w     *world
	bell  chan struct{}
	rings atomic.Int64
}

func (r *reader) ring() {
	r.rings.Add(1)
	select {
	case r.bell <- struct{}{}:
	default:
	}
}

func (w *world) gateConfig(consumer, producers int) GateConfig[rec] {
	return GateConfig[rec]{
		Ctx: w.t.Context(), Edge: 3, Consumer: int32(consumer), Producers: w.ends(producers, w.toProducers),
		Job: testJob, JobEpoch: 1, RegionEpoch: 1, Attempt: 1, Codec: w.codec,
	}
}

func (w *world) gate(consumer, producers int) *reader {
	w.t.Helper()
	return w.gateOf(w.gateConfig(consumer, producers))
}

func (w *world) gateOf(cfg GateConfig[rec]) *reader {
	w.t.Helper()
	r, err := w.tryGate(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) tryGate(cfg GateConfig[rec]) (*reader, error) {
	r := &reader{w: w, bell: make(chan struct{}, 1)}
	cfg.Notify = r.ring
	g, err := NewGate(w.consumers, cfg)
	r.Gate = g
	return r, err
}

// next waits for the next input.
func (r *reader) next() (Input[rec], error) {
	for {
		in, ok, err := r.Next()
		if ok || err != nil {
			return in, err
		}
		select {
		case <-r.bell:
		case <-time.After(time.Minute):
			return Input[rec]{}, errors.New("nothing came for a minute")
		}
	}
}

// got is what arrived on one channel: records and events in order, as text.
type got [][]string

// drain reads until every channel has ended.
func (r *reader) drain() (got, error) {
	all := make(got, len(r.cfg.Producers))
	for left := len(all); left > 0; {
		in, err := r.next()
		if err != nil {
			return all, err
		}
		c := &all[in.Channel]
		if in.Batch == nil {
			*c = append(*c, eventText(in.Event))
			if in.Event.Kind == element.End {
				left--
			}
			continue
		}
		if in.Batch.Len() == 0 {
			return all, errors.New("empty batch")
		}
		for i, v := range in.Batch.Vals {
			*c = append(*c, recordText(v, in.Batch.Times[i]))
		}
		r.Release(in)
	}
	return all, nil
}

func recordText(v rec, at element.Time) string {
	if len(v.Text) > 40 {
		return fmt.Sprintf("%d@%d+%d", v.Key, at, len(v.Text))
	}
	return fmt.Sprintf("%d@%d %s", v.Key, at, v.Text)
}

func eventText(ev element.Event) string {
	return fmt.Sprintf("event %d time %d checkpoint %d", ev.Kind, ev.Time, ev.Checkpoint)
}

// do runs f beside the test. The returned function waits for it.
func (w *world) do(name string, f func() error) (wait func() error) {
	done := make(chan error, 1)
	w.group.Go(name, func(context.Context) error {
		done <- f()
		return nil
	})
	return func() error { return <-done }
}

func wantLoss(t testing.TB, err error, r Reason, producer, consumer int32) *LossError {
	t.Helper()
	var loss *LossError
	if !errors.As(err, &loss) {
		t.Fatalf("error %v, want a loss", err)
	}
	if loss.Edge != 3 || loss.Producer != producer || loss.Consumer != consumer || loss.Reason != r {
		t.Fatalf("loss %v, want %v between %d and %d of edge 3", loss, r, producer, consumer)
	}
	return loss
}
