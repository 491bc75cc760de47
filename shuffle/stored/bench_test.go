package stored

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceio/sluice/bench/ratio"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/budget"
)

// event is a record of about 100 encoded bytes, the same as in the benchmarks of the exchange between processes.
type event struct {
	User, Item, Price, Seq int64
	URL, Agent             string
}

var benchURLs = func() (r [256]string) {
	for i := range r {
		r[i] = fmt.Sprintf("https://www.example.com/items/detail?query=%06d&ref=front", i*257)
	}
	return r
}()

func benchEvent(i int) event {
	h := uint64(i) * 0x9e3779b97f4a7c15
	return event{User: int64(h >> 48), Item: int64(h>>32) & 0xffff, Price: int64(h>>20) & 0xfff, Seq: int64(i), URL: benchURLs[h>>56], Agent: benchURLs[(h>>48)&255][:24]}
}

func cpuTime(b testing.TB) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

const width = 2 // producers, and consumers, of an edge

// in and out are the ends of an edge, whichever kind it is.
type out interface {
	Add(to int, v event, at element.Time) error
	Broadcast(ev element.Event) error
	Close(err error) error
}

type in interface {
	Next() (shuffle.Input[event], bool, error)
	Release(shuffle.Input[event])
}

func produce(x out, n int) error {
	for i := range n {
		v := benchEvent(i)
		if err := x.Add(int(v.User&1), v, element.Time(i)); err != nil {
			return err
		}
	}
	return errors.Join(x.Broadcast(element.Event{Kind: element.End, Time: element.MaxTime}), x.Close(nil))
}

func consume(g in, bell <-chan struct{}) (sum int64, err error) {
	for left := width; left > 0; {
		in, ok, err := g.Next()
		switch {
		case err != nil:
			return 0, err
		case !ok:
			<-bell
		case in.Batch == nil:
			if in.Event.Kind == element.End {
				left--
			}
		default:
			for i := range in.Batch.Vals {
				sum += in.Batch.Vals[i].Seq
			}
			g.Release(in)
		}
	}
	return sum, nil
}

// bed is what the benchmarks run on: a store on disk with its agent, exchanges of stored results on the same worker and
// on another one, and networks of pipelined ones.
type bed struct {
	b       testing.TB
	codec   *codec.Codec[event]
	group   *run.Group
	here    *Exchange
	there   *Exchange
	agent   *shuffle.Peer
	local   *shuffle.Network
	from    *shuffle.Network
	to      *shuffle.Network
	edge    int32
	written int64 // bytes of the last result
}

func newBed(b testing.TB) *bed {
	x := &bed{b: b, codec: codecOf[event](b), group: run.NewGroup(context.Background(), "bench"), agent: &shuffle.Peer{Worker: "w", Address: "agent"}}
	store, err := Open(vfs.OS{}, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	listen := func() net.Listener {
		l, err := wire.Policy{}.Listen(b.Context(), "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	dial := func(l net.Listener) func(context.Context, shuffle.Peer) (net.Conn, error) {
		return func(ctx context.Context, _ shuffle.Peer) (net.Conn, error) {
			return wire.Policy{}.Dial(ctx, l.Addr().String())
		}
	}
	exchange := func(cfg Config) *Exchange {
		cfg.Store, cfg.Memory = store, budget.New(256<<20)
		e, err := NewExchange(cfg)
		if err != nil {
			b.Fatal(err)
		}
		x.group.Go("exchange", e.Run)
		return e
	}
	network := func(cfg shuffle.NetworkConfig) *shuffle.Network {
		cfg.Job, cfg.Memory = "bench-1", 256<<20
		n, err := shuffle.NewNetwork(cfg)
		if err != nil {
			b.Fatal(err)
		}
		x.group.Go("network", n.Run)
		return n
	}
	l := listen()
	x.group.Go("agent", func(ctx context.Context) error { return (&Server{Store: store}).Serve(ctx, l) })
	x.here, x.there = exchange(Config{}), exchange(Config{Dial: dial(l)})
	p := listen()
	x.local = network(shuffle.NetworkConfig{Process: 9})
	x.from = network(shuffle.NetworkConfig{Process: 1, Listener: p})
	x.to = network(shuffle.NetworkConfig{Process: 2, Dial: dial(p)})
	b.Cleanup(func() {
		x.group.Stop()
		if err := x.group.Wait(); err != nil {
			b.Error(err)
		}
	})
	return x
}

// pass runs the producers, and the consumers beside them or behind them, and returns the CPU time of all together.
func (x *bed) pass(n int, pipelined bool, outs [width]func() (out, error), ins [width]func(bell chan struct{}) (in, func(), error)) time.Duration {
	begin := cpuTime(x.b)
	g := run.NewGroup(x.b.Context(), "pass")
	sums := [width]int64{}
	for i := range width {
		o, err := outs[i]()
		if err != nil {
			x.b.Fatal(err)
		}
		g.Go("produce", func(context.Context) error { return produce(o, n/width) })
	}
	if !pipelined {
		if err := g.Wait(); err != nil {
			x.b.Fatal(err)
		}
		g = run.NewGroup(x.b.Context(), "pass")
	}
	for i := range width {
		bell := make(chan struct{}, 1)
		gate, done, err := ins[i](bell)
		if err != nil {
			x.b.Fatal(err)
		}
		g.Go("consume", func(context.Context) (err error) {
			sums[i], err = consume(gate, bell)
			done()
			return err
		})
	}
	if err := g.Wait(); err != nil {
		x.b.Fatal(err)
	}
	each := int64(n / width)
	if want := each * (each - 1) / 2 * width; sums[0]+sums[1] != want {
		x.b.Fatalf("sum %d, want %d", sums[0]+sums[1], want)
	}
	return cpuTime(x.b) - begin
}

func ring(bell chan struct{}) func() {
	return func() {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

// storedPass writes n records and reads them, here or from the agent.
func (x *bed) storedPass(n int, c Compression, reading *Exchange) time.Duration {
	x.edge++
	var outs [width]func() (out, error)
	var ins [width]func(bell chan struct{}) (in, func(), error)
	var producers []Producer
	var writers [width]*Writer[event]
	for i := range width {
		name := Name{Job: "bench-1", JobEpoch: 1, RegionEpoch: 1, Edge: x.edge, Producer: int32(i), Attempt: 1}
		p := Producer{Name: name, Stored: true}
		if reading == x.there {
			p.Peer = x.agent
		}
		producers = append(producers, p)
		outs[i] = func() (out, error) {
			w, err := NewWriter(WriterConfig[event]{Ctx: x.b.Context(), Exchange: x.here, Name: name, Consumers: width, Codec: x.codec, Compression: c})
			writers[i] = w
			return w, err
		}
		ins[i] = func(bell chan struct{}) (in, func(), error) {
			r, err := NewReader(ReaderConfig[event]{
				Ctx: x.b.Context(), Exchange: reading, Consumer: int32(i), Producers: producers, Codec: x.codec, Notify: ring(bell),
			})
			return r, func() { r.Close(nil) }, err
		}
	}
	used := x.pass(n, false, outs, ins)
	x.written = 0
	for _, w := range writers {
		x.written += w.Result().Bytes
	}
	if err := x.here.cfg.Store.DropJob("bench-1"); err != nil {
		x.b.Fatal(err)
	}
	return used
}

// pipelinedPass sends n records while they are produced, within a process or between two.
func (x *bed) pipelinedPass(n int, from, to *shuffle.Network) time.Duration {
	x.edge++
	ends := func(process uint64) (e []shuffle.End) {
		for i := range width {
			end := shuffle.End{Index: int32(i), Attempt: 1}
			if from != to {
				end.Peer = &shuffle.Peer{Process: process}
			}
			e = append(e, end)
		}
		return e
	}
	var outs [width]func() (out, error)
	var ins [width]func(bell chan struct{}) (in, func(), error)
	for i := range width {
		outs[i] = func() (out, error) {
			return shuffle.NewWriter(from, shuffle.WriterConfig[event]{
				Ctx: x.b.Context(), Edge: x.edge, Producer: int32(i), Consumers: ends(2), Job: "bench-1", Attempt: 1, Codec: x.codec,
			})
		}
		ins[i] = func(bell chan struct{}) (in, func(), error) {
			g, err := shuffle.NewGate(to, shuffle.GateConfig[event]{
				Ctx: x.b.Context(), Edge: x.edge, Consumer: int32(i), Producers: ends(1), Job: "bench-1", Attempt: 1, Codec: x.codec, Notify: ring(bell),
			})
			return g, func() { g.Close(nil) }, err
		}
	}
	return x.pass(n, true, outs, ins)
}

// BenchmarkExchanges compares what a record costs on each kind of edge: both ends together, and on disk.
func BenchmarkExchanges(b *testing.B) {
	x := newBed(b)
	report := func(b *testing.B, f func(n int) time.Duration) {
		b.ReportAllocs()
		x.written = 0
		n := max(b.N, width) / width * width
		used := f(n)
		b.ReportMetric(float64(used.Nanoseconds())/float64(n), "cpu-ns/record")
		if x.written > 0 {
			b.ReportMetric(float64(x.written)/float64(n), "B/record")
		}
	}
	b.Run("pipelined/local", func(b *testing.B) {
		report(b, func(n int) time.Duration { return x.pipelinedPass(n, x.local, x.local) })
	})
	b.Run("pipelined/remote", func(b *testing.B) {
		report(b, func(n int) time.Duration { return x.pipelinedPass(n, x.from, x.to) })
	})
	for _, c := range []Compression{Uncompressed, S2, Zstd} {
		b.Run("stored/local/"+c.String(), func(b *testing.B) {
			report(b, func(n int) time.Duration { return x.storedPass(n, c, x.here) })
		})
		b.Run("stored/remote/"+c.String(), func(b *testing.B) {
			report(b, func(n int) time.Duration { return x.storedPass(n, c, x.there) })
		})
	}
}

// TestSpeedStoredResults: to write a record of about 100 bytes and to read it on the same worker costs at most twice
// the CPU of the exchange between processes, with the default compression, too.
func TestSpeedStoredResults(t *testing.T) {
	x := newBed(t)
	const atLeast = 100_000 // so that files and finding each other do not count
	for _, c := range []Compression{Uncompressed, S2} {
		ratio.AtMost(t, 2, ratio.CPU, func(n int) { x.pipelinedPass(n*atLeast, x.from, x.to) }, func(n int) {
			x.storedPass(n*atLeast, c, x.here)
		})
	}
}
