package stored

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/exchangepb"
	"github.com/sluiceio/sluice/shuffle"
)

// cutConn breaks after so many bytes were received.
type cutConn struct {
	net.Conn
	left atomic.Int64
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.left.Add(-int64(n)) < 0 {
		return 0, errors.Join(errors.New("cut"), c.Conn.Close())
	}
	return n, err
}

// TestABrokenConnectionIsDialledAgainAndTheReadGoesOn: the connection is cut again and again, anywhere, and every record
// arrives once.
func TestABrokenConnectionIsDialledAgainAndTheReadGoesOn(t *testing.T) {
	w, _ := realWorld(t)
	const producers = 3
	var want got
	for p := range producers {
		cfg := w.writerConfig(p, 1)
		cfg.Compression = Compression(p)
		w.writeBy(cfg, 20_000, 100)
		want = append(want, withProducer(p, testTexts(p, 20_000, 100))...)
	}
	luck := rand.New(rand.NewPCG(7, 7))
	dial := *w.dial.Load()
	var dials atomic.Int64
	w.dialBy(func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		c := &cutConn{Conn: conn}
		c.left.Store(20_000 + luck.Int64N(400_000)) // one dial at a time
		dials.Add(1)
		return c, nil
	})
	r := w.reader(w.readerConfig(w.there, 0, producers))
	have, err := r.drain()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(have, want) {
		t.Fatal(difference(have, want))
	}
	if dials.Load() < 5 {
		t.Errorf("only %d connections were needed: nothing was cut", dials.Load())
	}
}

// withProducer puts texts of channel 0 on another one.
func withProducer(p int, texts got) (all got) {
	for _, s := range texts {
		all = append(all, fmt.Sprintf("%d%s", p, strings.TrimPrefix(s, "0")))
	}
	return all
}

// inBubble runs f in fake time, with a world whose agent is reached through memory.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, vfs.NewMem(), "results", 64<<20)) })
}

// TestALinkThatStaysBrokenIsNoLossOfTheResult: after the connect timeout the reader gives up and says where.
func TestALinkThatStaysBrokenIsNoLossOfTheResult(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.write(0, 1, 10, 10)
		dials := 0
		w.dialBy(func(context.Context) (net.Conn, error) {
			dials++
			return nil, errors.New("no route to host")
		})
		start := time.Now()
		_, err := w.reader(w.readerConfig(w.there, 0, 1)).drain()
		var link *LinkError
		if !errors.As(err, &link) || link.Name != testName(0) || errors.Is(err, ErrLost) {
			t.Fatalf("got %v", err)
		}
		for _, part := range []string{CodeLink, testWorker, "agent", "no route to host", "producer 0"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q lacks %q", err, part)
			}
		}
		if took := time.Since(start); took < 2*time.Second || took > 5*time.Second {
			t.Errorf("gave up after %v, the timeout is 2 s", took)
		}
		if dials < 3 {
			t.Errorf("dialled %d times", dials)
		}
	})
}

// TestAnAgentThatAcceptsAndSaysNothingIsGivenUp: the connection is there, and nobody speaks on it.
func TestAnAgentThatAcceptsAndSaysNothingIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		silent := bufconn.Listen(1 << 20)
		defer silent.Close()
		w.dialBy(func(ctx context.Context) (net.Conn, error) { return silent.DialContext(ctx) })
		_, err := w.reader(w.readerConfig(w.there, 0, 1)).drain()
		var link *LinkError
		if !errors.As(err, &link) {
			t.Fatalf("got %v", err)
		}
	})
}

// TestAnotherWorkerAtTheAddressIsNotTakenForTheHolder: ports are drawn again; what it does not have is not lost.
func TestAnotherWorkerAtTheAddressIsNotTakenForTheHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.peer = &shuffle.Peer{Worker: "w-gone", Address: "agent"}
		_, err := w.reader(w.readerConfig(w.there, 0, 1)).drain()
		var link *LinkError
		if !errors.As(err, &link) || !strings.Contains(err.Error(), "this is worker "+testWorker+", not w-gone") {
			t.Fatalf("got %v", err)
		}
	})
}

// TestAReadOfAnotherPlanIsRefusedAtOnce: the holder has the partition, and it is not for this consumer.
func TestAReadOfAnotherPlanIsRefusedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.write(0, 3, 10, 10)
		for name, x := range map[string]*Exchange{"here": w.here, "there": w.there} {
			start := time.Now()
			_, err := w.reader(w.readerConfig(x, 3, 1)).drain()
			var asked *AskedError
			if !errors.As(err, &asked) || errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "consumer 3 reads a partition for 3 consumers from 0 on") {
				t.Errorf("%s: %v", name, err)
			}
			if time.Since(start) > time.Second {
				t.Errorf("%s: asked for %v", name, time.Since(start))
			}
		}
	})
}

// TestAnUnfinishedPartitionIsWaitedFor: readers come before the producer ends, here, in another process of this worker,
// and on another one.
func TestAnUnfinishedPartitionIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		guest, err := Join(w.fs, "results")
		if err != nil {
			t.Fatal(err)
		}
		neighbour := w.exchange(Config{Store: guest, Memory: w.memory})
		var readers []*reader
		for _, x := range []*Exchange{w.here, neighbour, w.there} {
			cfg := w.readerConfig(x, 0, 2)
			cfg.Producers[0].Stored, cfg.Producers[1].Stored = false, false
			if x == neighbour {
				cfg.Producers[0].Peer, cfg.Producers[1].Peer = nil, nil
			}
			readers = append(readers, w.reader(cfg))
		}
		x := w.writer(w.writerConfig(0, 1))
		<-time.After(time.Hour) // far beyond every timeout of connections
		for _, r := range readers {
			if _, ok, err := r.Next(); ok || err != nil {
				t.Fatalf("a partition that is being written yields %v, %v", ok, err)
			}
		}
		finish(t, x)
		w.write(1, 1, 100, 50)
		want := append(testTexts(0, 0, 0), withProducer(1, testTexts(1, 100, 50))...)
		for i, r := range readers {
			if have, err := r.drain(); err != nil || !slices.Equal(have, want) {
				t.Errorf("reader %d: %v, %s", i, err, difference(have, want))
			}
		}
	})
}

// TestWhatTheFactsCallFinishedIsNotWaitedFor: if it is not there it is lost.
func TestWhatTheFactsCallFinishedIsNotWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, x := range []*Exchange{w.here, w.there} {
			_, err := w.reader(w.readerConfig(x, 0, 1)).drain()
			wantLost(t, err, testName(0))
		}
	})
}

// TestADropEndsTheWait: nobody will ever produce it.
func TestADropEndsTheWait(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for name, drop := range map[string]func() error{
			"by name": func() error { return w.store.Drop(testName(0)) },
			"by job":  func() error { return w.store.DropJob("flights-1") },
		} {
			var readers []*reader
			for _, x := range []*Exchange{w.here, w.there} {
				cfg := w.readerConfig(x, 0, 1)
				cfg.Producers[0].Stored = false
				readers = append(readers, w.reader(cfg))
			}
			synctest.Wait()
			if err := drop(); err != nil {
				t.Fatal(name, err)
			}
			for _, r := range readers {
				_, err := r.drain()
				wantLost(t, err, testName(0))
			}
		}
	})
}

// TestAReaderThatIsClosedLeavesNothingBehind: while it waits, while it reads, and before it has begun.
func TestAReaderThatIsClosedLeavesNothingBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.write(0, 1, 50_000, 100)
		before, _ := w.memory.Usage()
		for _, x := range []*Exchange{w.here, w.there} {
			cfg := w.readerConfig(x, 0, 2)
			cfg.Producers[1].Stored = false
			r := w.reader(cfg)
			r.Close(errors.New("cancelled")) // at once
			r = w.reader(cfg)
			synctest.Wait()
			in, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			r.Release(in)
			r.Close(nil)
			r.Close(nil)
		}
		synctest.Wait()
		if after, _ := w.memory.Usage(); after > before+connectionBytes { // the connection stays for a while
			t.Errorf("%d bytes are reserved, %d were before", after, before)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cfg := w.readerConfig(w.there, 0, 2)
		cfg.Ctx = ctx
		r := w.reader(cfg)
		reason := errors.New("the attempt was cancelled")
		cancel(reason)
		if _, err := r.drain(); !errors.Is(err, reason) {
			t.Errorf("after its context has ended: %v", err)
		}
	})
}

// raw calls the agent's service without a reader.
func raw(t *testing.T, dial func(context.Context) (net.Conn, error)) grpc.ClientStream {
	t.Helper()
	cc, err := wire.Policy{}.Client("agent",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(passThrough{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	st, err := cc.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, methodName)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestTheAgentJudgesWhatItIsAsked: a name is never a path out of the directory, and nonsense is refused with its reason.
func TestTheAgentJudgesWhatItIsAsked(t *testing.T) {
	w, _ := realWorld(t)
	w.write(0, 1, 1000, 100)
	good := func() *exchangepb.ReadRequest {
		n := testName(0)
		return &exchangepb.ReadRequest{
			Protocol: exchangepb.Protocol, Job: n.Job, JobEpoch: n.JobEpoch, Region: n.Region, RegionEpoch: n.RegionEpoch,
			Edge: n.Edge, Producer: n.Producer, Attempt: n.Attempt, Chunks: 100, Stored: true,
		}
	}
	ask := func(ms ...*exchangepb.FromReader) (chunks int, err error) {
		st := raw(t, *w.dial.Load())
		for _, m := range ms {
			if err := st.SendMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		for {
			var m inbound
			if err := st.RecvMsg(&m); err != nil {
				return chunks, err
			}
			chunks++
			m.data.Free()
		}
	}
	request := func(r *exchangepb.ReadRequest) *exchangepb.FromReader {
		return &exchangepb.FromReader{Message: &exchangepb.FromReader_Request{Request: r}}
	}
	if n, err := ask(request(good())); err.Error() != "EOF" || n < 2 {
		t.Fatalf("%d messages, %v", n, err)
	}
	for want, change := range map[string]func(*exchangepb.ReadRequest){
		"job id":                       func(r *exchangepb.ReadRequest) { r.Job = "../../etc" },
		`job id "flights\x00"`:         func(r *exchangepb.ReadRequest) { r.Job = "flights\x00" },
		"protocol 9":                   func(r *exchangepb.ReadRequest) { r.Protocol = 9 },
		"edge: -1":                     func(r *exchangepb.ReadRequest) { r.Edge = -1 },
		"attempt: 0":                   func(r *exchangepb.ReadRequest) { r.Attempt = 0 },
		"consumer 1 reads a partition": func(r *exchangepb.ReadRequest) { r.Consumer = 1 },
	} {
		r := good()
		change(r)
		if _, err := ask(request(r)); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a refusal that says %q", err, want)
		}
	}
	r := good()
	r.Attempt++
	if _, err := ask(request(r)); status.Code(err) != codes.DataLoss {
		t.Errorf("another attempt: %v", err)
	}
	r = good()
	r.Block = 1000
	if _, err := ask(request(r)); status.Code(err) != codes.DataLoss {
		t.Errorf("a block behind the end: %v", err)
	}
	more := &exchangepb.FromReader{Message: &exchangepb.FromReader_More{More: &exchangepb.ReadMore{Chunks: 1}}}
	if _, err := ask(more); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a grant before the request: %v", err)
	}
	r = good()
	r.Chunks = 0
	if _, err := ask(request(r), request(good())); status.Code(err) != codes.InvalidArgument {
		t.Errorf("two requests: %v", err)
	}
}

// agentOf answers every read by f.
func agentOf(t *testing.T, w *world, f func(st grpc.ServerStream) error) {
	l := bufconn.Listen(256 << 10)
	s := wire.Policy{}.Server(grpc.ForceServerCodecV2(passThrough{}))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: streamName, ServerStreams: true, ClientStreams: true, Handler: func(_ any, st grpc.ServerStream) error { return f(st) },
	}}}, nil)
	g := run.NewGroup(context.Background(), "other agent")
	g.Go("serve", func(context.Context) error { return s.Serve(l) })
	t.Cleanup(func() {
		s.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	w.dialBy(func(ctx context.Context) (net.Conn, error) { return l.DialContext(ctx) })
}

// TestAnAgentThatBreaksTheProtocolDoesNoHarm: nothing that it sends is believed, and trying again ends.
func TestAnAgentThatBreaksTheProtocolDoesNoHarm(t *testing.T) {
	send := func(st grpc.ServerStream, b ...byte) error {
		return st.SendMsg(&outbound{mem.BufferSlice{mem.SliceBuffer(b)}})
	}
	for what, f := range map[string]func(st grpc.ServerStream) error{
		"ends without saying so": func(grpc.ServerStream) error { return nil },
		"an unknown kind":        func(st grpc.ServerStream) error { return send(st, 9, 1, 2) },
		"an empty message":       func(st grpc.ServerStream) error { return send(st) },
		"an end that is none":    func(st grpc.ServerStream) error { return send(st, kindEnd, 0xff) },
		"blocks that are none": func(st grpc.ServerStream) error {
			return errors.Join(send(st, append([]byte{kindChunk}, make([]byte, 100)...)...), send(st, kindEnd))
		},
		"fewer blocks than it says": func(st grpc.ServerStream) error { return send(st, kindEnd, 0x10, 3) },
		"an empty chunk":            func(st grpc.ServerStream) error { return send(st, kindChunk) },
		"a message that is too long": func(st grpc.ServerStream) error {
			return send(st, append([]byte{kindChunk}, make([]byte, 100_000)...)...)
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, vfs.NewMem(), "results", 64<<20)
				agentOf(t, w, func(st grpc.ServerStream) error {
					var m exchangepb.FromReader
					if err := st.RecvMsg(&m); err != nil {
						return err
					}
					return errors.Join(st.SendHeader(metadata.MD{}), f(st))
				})
				have, err := w.reader(w.readerConfig(w.there, 0, 1)).drain()
				var link *LinkError
				if len(have) != 0 || !errors.As(err, &link) && !errors.Is(err, ErrLost) {
					t.Errorf("%d inputs, %v", len(have), err)
				}
			})
		})
	}
}

// TestAnAgentMayNotSendWhatWasNotGranted: what it sends beyond that has no place.
func TestAnAgentMayNotSendWhatWasNotGranted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.write(0, 1, 50_000, 100)
		o, err := w.store.open(testName(0))
		if err != nil {
			t.Fatal(err)
		}
		defer o.close()
		var sent atomic.Int64
		agentOf(t, w, func(st grpc.ServerStream) error {
			var m exchangepb.FromReader
			if err := st.RecvMsg(&m); err != nil {
				return err
			}
			if err := st.SendHeader(metadata.MD{}); err != nil {
				return err
			}
			scan, err := o.scan(0, m.GetRequest().GetBlock())
			if err != nil {
				return err
			}
			for range m.GetRequest().GetChunks() + 1 { // nobody reads, so nothing more is granted
				b := make([]byte, chunkBuffer)
				b[0] = kindChunk
				n, err := scan.Next(b[1:])
				if err != nil {
					return err
				}
				if err := st.SendMsg(&outbound{mem.BufferSlice{mem.SliceBuffer(b[:1+n])}}); err != nil {
					return err
				}
				sent.Add(1)
			}
			<-st.Context().Done()
			return nil
		})
		r := w.reader(w.readerConfig(w.there, 0, 1))
		<-time.After(time.Minute)
		_, err = r.drain()
		var link *LinkError
		if !errors.As(err, &link) || !strings.Contains(err.Error(), "without a grant") || sent.Load() == 0 {
			t.Errorf("after %d chunks: %v", sent.Load(), err)
		}
	})
}

// TestAnAgentWithoutTheServiceIsOfAnotherVersion: asking again is of no use.
func TestAnAgentWithoutTheServiceIsOfAnotherVersion(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := bufconn.Listen(64 << 10)
		s := wire.Policy{}.Server()
		w.group.Go("old agent", func(ctx context.Context) error {
			stop := context.AfterFunc(ctx, s.Stop)
			defer stop()
			return s.Serve(l)
		})
		w.dialBy(func(ctx context.Context) (net.Conn, error) { return l.DialContext(ctx) })
		_, err := w.reader(w.readerConfig(w.there, 0, 1)).drain()
		var asked *AskedError
		if !errors.As(err, &asked) {
			t.Errorf("got %v", err)
		}
	})
}
