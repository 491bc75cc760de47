package shuffle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/test/bufconn"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/invariant"
)

// 50 producers and 100 consumers in two processes: 5,000 channels, one connection, bounded memory.
func TestThousandsOfChannelsShareOneStream(t *testing.T) {
	const producers, consumers, records, memory = 50, 100, 300, 96 << 20
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 20)
		var dials atomic.Int64
		w := newRemote(t, worldConfig{memory: memory, listener: l, dial: func(ctx context.Context, _ Peer) (net.Conn, error) {
			dials.Add(1)
			return l.DialContext(ctx)
		}})
		var waits []func() error
		sent := make([]int64, consumers)
		for p := range producers {
			x := w.writer(p, consumers)
			waits = append(waits, w.do("produce", func() error {
				for i := range records {
					to := (i*7 + p) % consumers
					atomic.AddInt64(&sent[to], int64(i))
					if err := x.Add(to, rec{Key: uint64(i), Text: strings.Repeat("x", i%200)}, element.Time(i)); err != nil {
						return err
					}
					if i%50 == 0 {
						if err := x.Broadcast(element.Event{Kind: element.Watermark, Time: element.Time(i)}); err != nil {
							return err
						}
					}
				}
				return errors.Join(x.Broadcast(endOfInput), x.Close(nil))
			}))
		}
		got := make([]int64, consumers)
		for c := range consumers {
			g := w.gate(c, producers)
			waits = append(waits, w.do("consume", func() error {
				defer g.Close(nil)
				for left := producers; left > 0; {
					in, err := g.next()
					if err != nil {
						return err
					}
					if in.Event.Kind == element.End {
						left--
					}
					if in.Batch != nil {
						for _, v := range in.Batch.Vals {
							got[c] += int64(v.Key)
						}
						g.Release(in)
					}
				}
				return nil
			}))
		}
		for _, n := range []*Network{w.producers, w.consumers} {
			if used, limit := n.Memory(); used > limit || used < limit/4 {
				t.Errorf("%d of %d bytes are reserved", used, limit)
			}
		}
		for _, wait := range waits {
			if err := wait(); err != nil {
				t.Fatal(err)
			}
		}
		for c := range got {
			if got[c] != atomic.LoadInt64(&sent[c]) {
				t.Errorf("consumer %d: sum %d, want %d", c, got[c], sent[c])
			}
		}
		if dials.Load() != 1 {
			t.Errorf("%d connections", dials.Load())
		}
		w.stop()
	})
}

// What cannot be had is said before anything runs: a writer with 5,000 consumers in the least network memory that a task
// process has.
func TestThousandsOfChannelsThatDoNotFitAreRefusedWhenTheyAreDeployed(t *testing.T) {
	const least = 32 << 20
	for name, make := range map[string]func(testing.TB, worldConfig) *world{"local": newLocal, "remote": newRemote} {
		t.Run(name, func(t *testing.T) {
			w := make(t, worldConfig{memory: least})
			defer w.stop()
			_, err := NewWriter(w.producers, w.writerConfig(0, 5000))
			var short *MemoryError
			if !errors.As(err, &short) || short.Need < 2*5000*minUnit || short.Limit != least {
				t.Fatalf("got %v", err)
			}
			for _, part := range []string{CodeMemory, "producer 0 of edge 3 with 5000 consumers", "raise network.memory or lower the parallelism"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
			if used, _ := w.producers.Memory(); used != 0 {
				t.Errorf("%d bytes are reserved for what was refused", used)
			}
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Consumers that stand still hold no more memory than was promised, and the producers stand with them.
func TestAStalledConsumerHoldsNoMoreThanItsMemory(t *testing.T) {
	const producers, consumers, memory = 8, 8, 8 << 20
	synctest.Test(t, func(t *testing.T) {
		before := heapInUse()
		w := newRemote(t, worldConfig{memory: memory})
		ctx, cancel := context.WithCancel(t.Context())
		var writers []*Writer[rec]
		var gates []*reader
		for c := range consumers {
			gates = append(gates, w.gate(c, producers))
		}
		var waits []func() error
		for p := range producers {
			cfg := w.writerConfig(p, consumers)
			cfg.Ctx = ctx
			x := w.writerOf(cfg)
			writers = append(writers, x)
			waits = append(waits, w.do("produce", func() error {
				for i := 0; ; i++ {
					if err := x.Add(i%consumers, rec{Key: uint64(i), Text: "0123456789012345678901234567890123456789"}, 0); err != nil {
						return err
					}
				}
			}))
		}
		synctest.Wait() // all stand
		used := heapInUse() - before
		if most := int64(2*memory + 2<<20); used > most || used < most/10 { // both processes are in this one; gRPC has something as well
			t.Errorf("%d bytes are in use, %d are allowed", used, most)
		}
		for _, n := range []*Network{w.producers, w.consumers} {
			if used, limit := n.Memory(); used > limit {
				t.Errorf("%d of %d bytes are reserved", used, limit)
			}
		}
		cancel()
		for i, wait := range waits {
			if err := wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("producer %d: %v", i, err)
			}
			_ = writers[i].Close(context.Canceled)
		}
		for _, g := range gates {
			g.Close(errors.New("over"))
		}
		w.stop()
	})
}

// tcp is a listener on loopback and how to reach it.
func tcp(t testing.TB) (net.Listener, func(context.Context, Peer) (net.Conn, error)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l, func(ctx context.Context, _ Peer) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			return nil, fmt.Errorf("test: %w", err)
		}
		return c, nil
	}
}

// wide has numbers that take a byte each, and a codec that wants room for ten.
type wide struct {
	A, B, C, D, E, F, G, H, I, J, K, L int64
	Text                               string
}

// Frame buffers are network memory that was promised: none may grow, whatever room a codec asks for.
func TestFrameBuffersKeepTheirSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRemote(t, worldConfig{memory: 64 << 20})
		wc, rc := w.writerConfig(0, 1), w.gateConfig(0, 1)
		c := codecOf[wide](t)
		x, err := NewWriter(w.producers, WriterConfig[wide]{
			Ctx: wc.Ctx, Edge: wc.Edge, Consumers: wc.Consumers, Job: wc.Job, JobEpoch: 1, RegionEpoch: 1, Attempt: 1, Codec: c,
		})
		if err != nil {
			t.Fatal(err)
		}
		bell := newWakeup()
		g, err := NewGate(w.consumers, GateConfig[wide]{
			Ctx: rc.Ctx, Edge: rc.Edge, Producers: rc.Producers, Job: rc.Job, JobEpoch: 1, RegionEpoch: 1, Attempt: 1, Codec: c, Notify: bell.ring,
		})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("x", 64)
		wait := w.do("produce", func() error {
			for i := range int64(20_000) {
				if err := x.Add(0, wide{A: i, Text: text}, element.Time(i)); err != nil {
					return err
				}
			}
			return errors.Join(x.Broadcast(endOfInput), x.Close(nil))
		})
		for records := int64(0); ; {
			in, ok, err := g.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				<-bell
				continue
			}
			if in.Event.Kind == element.End {
				if records != 20_000 {
					t.Errorf("%d records", records)
				}
				break
			}
			for _, v := range in.Batch.Vals {
				if (v != wide{A: records, Text: text}) {
					t.Fatalf("record %d is %+v", records, v)
				}
				records++
			}
			g.Release(in)
		}
		g.Close(nil)
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		pool := x.sender.pool
		if len(pool.mu.free) == 0 {
			t.Error("no frame buffer was used")
		}
		for _, b := range pool.mu.free {
			if cap(*b) != pool.size {
				t.Errorf("a frame buffer of %d bytes has grown to %d", pool.size, cap(*b))
			}
		}
		w.stop()
	})
}

// Batches that come back are used again, however many events are sent between the records.
func TestEventsTakeNoBatchOutOfCirculation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLocal(t, worldConfig{memory: 64 << 20})
		x, g := w.writer(0, 1), w.gate(0, 1)
		burst := func() (batches []*element.Batch[rec]) {
			for i := range 2 {
				if err := errors.Join(x.Add(0, rec{Key: uint64(i)}, 0), x.Flush()); err != nil {
					t.Fatal(err)
				}
			}
			var ins []Input[rec]
			for range 2 {
				in, err := g.next()
				if err != nil || in.Batch == nil {
					t.Fatal(in, err)
				}
				ins = append(ins, in)
			}
			for _, in := range ins {
				batches = append(batches, in.Batch)
				g.Release(in)
			}
			return batches
		}
		known := append(burst(), burst()...) // the producer keeps one at hand
		for range 5 {
			for _, k := range []element.Kind{element.Idle, element.Watermark} {
				if err := errors.Join(x.Broadcast(element.Event{Kind: k, Time: 7}), x.Flush()); err != nil {
					t.Fatal(err)
				}
				if in, err := g.next(); err != nil || in.Event.Kind != k {
					t.Fatal(in, err)
				}
			}
		}
		for _, b := range burst() {
			if !slices.Contains(known, b) {
				t.Error("a batch was allocated while empty ones had come back")
			}
		}
		w.stop()
	})
}

// No record costs an allocation of its own, neither on its way into a frame nor out of one.
func TestRecordsCostNoAllocation(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the checks of this build allocate")
	}
	type flat struct {
		A, B, C int64
		D       uint32
	}
	for name, make := range map[string]func(testing.TB, worldConfig) *world{"local": newLocal, "remote": newRemote} {
		t.Run(name, func(t *testing.T) {
			const records = 200_000
			w := make(t, worldConfig{memory: 64 << 20})
			c := codecOf[flat](t)
			cfg, gcfg := w.writerConfig(0, 1), w.gateConfig(0, 1)
			x, err := NewWriter(w.producers, WriterConfig[flat]{Ctx: cfg.Ctx, Edge: 3, Consumers: cfg.Consumers, Job: testJob, Attempt: 1, Codec: c})
			if err != nil {
				t.Fatal(err)
			}
			bell := newWakeup()
			g, err := NewGate(w.consumers, GateConfig[flat]{Ctx: cfg.Ctx, Edge: 3, Producers: gcfg.Producers, Job: testJob, Attempt: 1, Codec: c, Notify: bell.ring})
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			wait := w.do("produce", func() error {
				for i := range records {
					if err := x.Add(0, flat{A: int64(i), B: 1 << 40, C: -7, D: 9}, element.Time(i)); err != nil {
						return err
					}
				}
				return errors.Join(x.Broadcast(endOfInput), x.Close(nil))
			})
			var sum int64
			for ended := false; !ended; {
				in, ok, err := g.Next()
				switch {
				case err != nil:
					t.Fatal(err)
				case !ok:
					<-bell
				case in.Batch == nil:
					ended = true
				default:
					for _, v := range in.Batch.Vals {
						sum += v.A
					}
					g.Release(in)
				}
			}
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			if sum != records*(records-1)/2 {
				t.Errorf("sum %d", sum)
			}
			if n := after.Mallocs - before.Mallocs; n > records/8 {
				t.Errorf("%d allocations for %d records", n, records)
			}
			g.Close(nil)
			w.stop()
		})
	}
}
