package shuffle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceio/sluice/bench/ratio"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/run"
)

// event is a record of about 100 encoded bytes.
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

// side is one end of the edges between two networks: where it is, and how the other end finds it.
type side struct {
	network *Network
	peer    *Peer // nil: in the same process
}

const width = 2 // producers, and consumers, of an edge

// transfer sends n records over an edge from two producers to two consumers, routed by a hash. It returns the CPU time of
// everything together, from the first record on, and the encoded bytes.
func transfer(b testing.TB, edge int32, n int, from, to side, compression Compression) (used time.Duration, bytes int64) {
	c, err := codec.Of[event](nil)
	if err != nil {
		b.Fatal(err)
	}
	ends := func(p *Peer) (e []End) {
		for i := range width {
			e = append(e, End{Index: int32(i), Attempt: 1, Peer: p})
		}
		return e
	}
	var writers [width]*Writer[event]
	var gates [width]*Gate[event]
	var bells [width]chan struct{}
	for i := range width {
		writers[i], err = NewWriter(from.network, WriterConfig[event]{
			Ctx: b.Context(), Edge: edge, Producer: int32(i), Consumers: ends(to.peer), Job: testJob, Attempt: 1, Codec: c, Compression: compression,
		})
		if err != nil {
			b.Fatal(err)
		}
		bells[i] = make(chan struct{}, 1)
		gates[i], err = NewGate(to.network, GateConfig[event]{
			Ctx: b.Context(), Edge: edge, Consumer: int32(i), Producers: ends(from.peer), Job: testJob, Attempt: 1, Codec: c,
			Notify: func() {
				select {
				case bells[i] <- struct{}{}:
				default:
				}
			},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	begin := cpuTime(b)
	g := run.NewGroup(b.Context(), "bench")
	sums := [width]int64{}
	for i := range width {
		g.Go("produce", func(context.Context) error { return benchProduce(writers[i], n/width) })
		g.Go("consume", func(context.Context) (err error) {
			sums[i], err = benchConsume(gates[i], bells[i], width)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	used = cpuTime(b) - begin
	for i := range width {
		bytes += writers[i].Stats().Bytes
		gates[i].Close(nil)
	}
	each := int64(n / width)
	if want := each * (each - 1) / 2 * width; sums[0]+sums[1] != want {
		b.Fatalf("sum %d, want %d", sums[0]+sums[1], want)
	}
	return used, bytes
}

func benchExchange(b *testing.B, from, to side, compression Compression) {
	b.ReportAllocs()
	b.ResetTimer()
	used, bytes := transfer(b, 1, b.N, from, to, compression)
	b.StopTimer()
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/record")
	b.ReportMetric(float64(bytes)/float64(b.N), "B/record")
}

func benchProduce(x *Writer[event], n int) error {
	for i := range n {
		v := benchEvent(i)
		if err := x.Add(int(v.User&1), v, element.Time(i)); err != nil {
			return err
		}
	}
	return errors.Join(x.Broadcast(endOfInput), x.Close(nil))
}

func benchConsume(g *Gate[event], bell <-chan struct{}, producers int) (sum int64, err error) {
	for left := producers; left > 0; {
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

func benchNetwork(b testing.TB, g *run.Group, l net.Listener, dial func(context.Context, Peer) (net.Conn, error)) *Network {
	process := uint64(1)
	if dial != nil {
		process = 2
	}
	return start(b, g, NetworkConfig{Process: process, Memory: 256 << 20, Listener: l, Dial: dial})
}

func BenchmarkExchangeBetweenProcesses(b *testing.B) {
	for name, c := range map[string]Compression{"plain": Uncompressed, "s2": S2} {
		b.Run(name, func(b *testing.B) {
			g := run.NewGroup(b.Context(), "bench")
			l, dial := tcp(b)
			benchExchange(b, side{benchNetwork(b, g, l, nil), &Peer{Process: 1}}, side{benchNetwork(b, g, nil, dial), &Peer{Process: 2}}, c)
			g.Stop()
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkExchangeWithinAProcess(b *testing.B) {
	g := run.NewGroup(b.Context(), "bench")
	n := benchNetwork(b, g, nil, nil)
	benchExchange(b, side{network: n}, side{network: n}, Uncompressed)
	g.Stop()
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

// The baselines, over the same records: two producers and two consumers joined by Go channels of recycled slices, and
// encoding, a TCP connection and decoding without any protocol.

func BenchmarkBaselineGoChannels(b *testing.B) {
	type batch struct {
		vals  []event
		times []element.Time
	}
	var full, empty [width][width]chan *batch
	for p := range width {
		for c := range width {
			full[p][c], empty[p][c] = make(chan *batch, 4), make(chan *batch, 8)
		}
	}
	b.ReportAllocs()
	begin := cpuTime(b)
	g := run.NewGroup(b.Context(), "bench")
	var sums [width]int64
	for p := range width {
		g.Go("produce", func(context.Context) error {
			var open [width]*batch
			for i := range b.N / width {
				v := benchEvent(i)
				to := int(v.User & 1)
				if open[to] == nil {
					select {
					case open[to] = <-empty[p][to]:
					default:
						open[to] = &batch{make([]event, 0, 512), make([]element.Time, 0, 512)}
					}
				}
				o := open[to]
				o.vals, o.times = append(o.vals, v), append(o.times, element.Time(i))
				if len(o.vals) == 256 {
					full[p][to] <- o
					open[to] = nil
				}
			}
			for to := range width {
				if open[to] != nil {
					full[p][to] <- open[to]
				}
				close(full[p][to])
			}
			return nil
		})
		g.Go("consume", func(context.Context) error {
			c0, c1 := full[0][p], full[1][p]
			for c0 != nil || c1 != nil {
				var o *batch
				var ok bool
				from := 0
				select {
				case o, ok = <-c0:
					if !ok {
						c0 = nil
					}
				case o, ok = <-c1:
					if from = 1; !ok {
						c1 = nil
					}
				}
				if !ok {
					continue
				}
				for i := range o.vals {
					sums[p] += o.vals[i].Seq
				}
				clear(o.vals)
				o.vals, o.times = o.vals[:0], o.times[:0]
				empty[from][p] <- o
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64((cpuTime(b)-begin).Nanoseconds())/float64(b.N), "cpu-ns/record")
}

func BenchmarkBaselineRawTCP(b *testing.B) {
	b.ReportAllocs()
	b.ReportMetric(float64(rawTCP(b, b.N).Nanoseconds())/float64(b.N), "cpu-ns/record")
}

// rawTCP encodes n records, sends them over a connection and decodes them. It returns the CPU time of that.
func rawTCP(b testing.TB, n int) time.Duration {
	c, err := codec.Of[event](nil)
	if err != nil {
		b.Fatal(err)
	}
	l, dial := tcp(b)
	begin := cpuTime(b)
	g := run.NewGroup(b.Context(), "bench")
	g.Go("produce", func(context.Context) error {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		buf := make([]byte, 4, 40<<10)
		var v event
		var prev element.Time
		records := 0
		for i := range n {
			v = benchEvent(i)
			if buf, err = c.AppendRecord(buf, &v, element.Time(i), prev); err != nil {
				return err
			}
			prev = element.Time(i)
			if records++; len(buf) > 32<<10 || i == n-1 {
				size := len(buf) - 4
				buf[0], buf[1], buf[2], buf[3] = byte(size), byte(size>>8), byte(records), byte(records>>8)
				if _, err := conn.Write(buf); err != nil {
					return err
				}
				buf, prev, records = buf[:4], 0, 0
			}
		}
		return conn.Close()
	})
	g.Go("consume", func(ctx context.Context) error {
		conn, err := dial(ctx, Peer{})
		if err != nil {
			return err
		}
		var head [4]byte
		buf := make([]byte, 64<<10)
		var batch element.Batch[event]
		var sum int64
		for {
			if _, err := io.ReadFull(conn, head[:]); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
			size, records := int(head[0])|int(head[1])<<8, int(head[2])|int(head[3])<<8
			if _, err := io.ReadFull(conn, buf[:size]); err != nil {
				return err
			}
			if err := c.DecodeRecords(buf[:size], records, &batch); err != nil {
				return err
			}
			for i := range batch.Vals {
				sum += batch.Vals[i].Seq
			}
			batch.Reset()
		}
		if want := int64(n) * int64(n-1) / 2; sum != want {
			return fmt.Errorf("sum %d, want %d", sum, want)
		}
		return conn.Close()
	})
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	return cpuTime(b) - begin
}

// TestSpeedExchangeBetweenProcesses: a keyed exchange of records of about 100 bytes, both sides together. On the machine of
// reference the limit is 400 ns of CPU per record, twice what encoding, a plain connection and decoding cost there.
func TestSpeedExchangeBetweenProcesses(t *testing.T) {
	g := run.NewGroup(t.Context(), "speed")
	defer func() { // also when the comparison is skipped
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}()
	l, dial := tcp(t)
	from, to := side{benchNetwork(t, g, l, nil), &Peer{Process: 1}}, side{benchNetwork(t, g, nil, dial), &Peer{Process: 2}}
	edge := int32(0)
	const atLeast = 100_000 // so that finding each other does not count
	ratio.AtMost(t, 2, ratio.CPU, func(n int) { rawTCP(t, n*atLeast) }, func(n int) {
		edge++
		transfer(t, edge, n*atLeast, from, to, Uncompressed)
	})
}
