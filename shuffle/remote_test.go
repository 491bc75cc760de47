package shuffle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/exchangepb"
	"github.com/sluiceio/sluice/shuffle/frame"
)

// consumer speaks the consumer's side of the protocol by hand.
type consumer struct {
	t  *testing.T
	st grpc.ClientStream
	cc *grpc.ClientConn
}

// byHand runs f against a network of producers, in fake time.
func byHand(t *testing.T, f func(t *testing.T, w *world, dial func() *consumer)) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 20)
		w := newRemote(t, worldConfig{memory: 64 << 20, listener: l, dial: func(context.Context, Peer) (net.Conn, error) {
			return nil, errors.New("not used")
		}})
		var all []*consumer
		f(t, w, func() *consumer {
			conn, err := l.DialContext(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cc, err := client(conn)
			if err != nil {
				t.Fatal(err)
			}
			st, err := cc.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, methodName)
			if err != nil {
				t.Fatal(err)
			}
			c := &consumer{t: t, st: st, cc: cc}
			all = append(all, c)
			return c
		})
		for _, c := range all {
			if err := c.cc.Close(); err != nil {
				t.Error(err)
			}
		}
		w.stop()
	})
}

func (c *consumer) say(m *exchangepb.FromConsumer) {
	c.t.Helper()
	if err := c.st.SendMsg(m); err != nil {
		c.t.Fatal(err)
	}
}

func (c *consumer) hear() (frame.Header, []byte, error) {
	var m inbound
	if err := c.st.RecvMsg(&m); err != nil {
		return frame.Header{}, nil, err
	}
	b := m.data.Materialize()
	m.data.Free()
	h, err := frame.Parse(b)
	if err != nil {
		c.t.Fatal(err)
	}
	return h, b[frame.HeaderLen:], nil
}

func ask(channel uint32, change func(*exchangepb.PartitionRequest)) *exchangepb.FromConsumer {
	r := &exchangepb.PartitionRequest{
		Protocol: exchangepb.Protocol, Job: testJob, JobEpoch: 1, RegionEpoch: 1, Edge: 3, ProducerAttempt: 1, ConsumerAttempt: 1,
		Channel: channel, Credit: 2, FrameBytes: minUnit,
	}
	change(r)
	return &exchangepb.FromConsumer{Message: &exchangepb.FromConsumer_Request{Request: r}}
}

func credits(channel uint32, frames int32) *exchangepb.FromConsumer {
	return &exchangepb.FromConsumer{Message: &exchangepb.FromConsumer_Credits{Credits: &exchangepb.Credits{Credits: []*exchangepb.Credit{{Channel: channel, Frames: frames}}}}}
}

func TestARequestIsAnsweredByItsFence(t *testing.T) {
	byHand(t, func(t *testing.T, w *world, dial func() *consumer) {
		cfg := w.writerConfig(0, 2)
		cfg.JobEpoch, cfg.RegionEpoch, cfg.Attempt = 3, 5, 7
		cfg.Consumers[0].Attempt = 8
		x := w.writerOf(cfg)
		local := w.writerConfig(1, 1)
		local.JobEpoch, local.RegionEpoch, local.Consumers[0].Peer = 3, 5, nil
		y := w.writerOf(local)
		c := dial()
		match := func(r *exchangepb.PartitionRequest) {
			r.JobEpoch, r.RegionEpoch, r.ProducerAttempt, r.ConsumerAttempt = 3, 5, 7, 8
		}
		for i, k := range []struct {
			name   string
			want   exchangepb.Refusal
			change func(*exchangepb.PartitionRequest)
		}{
			{"unknown producer", exchangepb.Refusal_REFUSAL_NOT_YET, func(r *exchangepb.PartitionRequest) { match(r); r.Producer = 9 }},
			{"newer job", exchangepb.Refusal_REFUSAL_NOT_YET, func(r *exchangepb.PartitionRequest) { match(r); r.JobEpoch++ }},
			{"newer job with other regions", exchangepb.Refusal_REFUSAL_NOT_YET, func(r *exchangepb.PartitionRequest) { match(r); r.JobEpoch++; r.Region = 4 }},
			{"newer region", exchangepb.Refusal_REFUSAL_NOT_YET, func(r *exchangepb.PartitionRequest) { match(r); r.RegionEpoch++; r.ProducerAttempt++ }},
			{"newer attempt", exchangepb.Refusal_REFUSAL_NOT_YET, func(r *exchangepb.PartitionRequest) { match(r); r.ConsumerAttempt++ }},
			{"older job", exchangepb.Refusal_REFUSAL_STALE, func(r *exchangepb.PartitionRequest) { match(r); r.JobEpoch--; r.RegionEpoch = 9 }},
			{"older region", exchangepb.Refusal_REFUSAL_STALE, func(r *exchangepb.PartitionRequest) { match(r); r.RegionEpoch--; r.ConsumerAttempt = 99 }},
			{"older attempt", exchangepb.Refusal_REFUSAL_STALE, func(r *exchangepb.PartitionRequest) { match(r); r.ProducerAttempt-- }},
			{"other job", exchangepb.Refusal_REFUSAL_PROTOCOL, func(r *exchangepb.PartitionRequest) { match(r); r.Job = "j-2" }},
			{"other region of the epoch", exchangepb.Refusal_REFUSAL_PROTOCOL, func(r *exchangepb.PartitionRequest) { match(r); r.Region = 4 }},
			{"other protocol", exchangepb.Refusal_REFUSAL_PROTOCOL, func(r *exchangepb.PartitionRequest) { match(r); r.Protocol = 2 }},
			{"local channel", exchangepb.Refusal_REFUSAL_PROTOCOL, func(r *exchangepb.PartitionRequest) {
				match(r)
				r.Producer, r.ProducerAttempt, r.ConsumerAttempt = 1, 1, 1
			}},
		} {
			c.say(ask(uint32(i+10), k.change))
			h, text, err := c.hear()
			if err != nil || h.Type != frame.Closed || h.Code != uint8(k.want) || h.Channel != uint32(i+10) {
				t.Errorf("%s: answered %+v %q %v, want %v", k.name, h, text, err, k.want)
			}
			if k.want == exchangepb.Refusal_REFUSAL_PROTOCOL && !strings.Contains(string(text), "this process speaks 1 for job j-1") {
				t.Errorf("%s: answered %q", k.name, text)
			}
		}
		c.say(ask(5, match))
		if h, _, err := c.hear(); err != nil || h.Type != frame.Opened || h.Channel != 5 {
			t.Fatalf("%+v, %v", h, err)
		}
		late := dial() // the same attempt once more, as from a process that was thought dead
		late.say(ask(1, match))
		if h, _, err := late.hear(); err != nil || h.Code != uint8(exchangepb.Refusal_REFUSAL_GONE) {
			t.Fatalf("%+v, %v", h, err)
		}
		_, _ = x.Close(errors.New("failed here")), y.Close(errors.New("over"))
		if h, text, err := c.hear(); err != nil || h.Type != frame.Closed || h.Code != uint8(exchangepb.Refusal_REFUSAL_FAILED) || string(text) != "failed here" {
			t.Fatalf("%+v %q %v", h, text, err)
		}
		c.say(ask(6, match))
		if h, _, err := c.hear(); err != nil || h.Code != uint8(exchangepb.Refusal_REFUSAL_GONE) {
			t.Fatalf("%+v, %v", h, err)
		}
	})
}

// What no consumer sends ends the stream, and with it the channels that it had.
func TestAConsumerThatBreaksTheProtocolLosesItsStream(t *testing.T) {
	for name, bad := range map[string][]*exchangepb.FromConsumer{
		"invalid":         {credits(1, -1)},
		"empty":           {{}},
		"number in use":   {ask(1, func(r *exchangepb.PartitionRequest) { r.Consumer = 1 })},
		"too much credit": {credits(1, exchangepb.MaxCredit), credits(1, exchangepb.MaxCredit)},
	} {
		t.Run(name, func(t *testing.T) {
			byHand(t, func(t *testing.T, w *world, dial func() *consumer) {
				x := w.writer(0, 2)
				c := dial()
				c.say(ask(1, func(*exchangepb.PartitionRequest) {}))
				if h, _, err := c.hear(); err != nil || h.Type != frame.Opened {
					t.Fatalf("%+v, %v", h, err)
				}
				for _, m := range bad {
					c.say(m)
				}
				if h, _, err := c.hear(); status.Code(err) != codes.InvalidArgument {
					t.Fatalf("%+v, %v", h, err)
				}
				synctest.Wait()
				wantLoss(t, x.Flush(), Broken, 0, 0)
				_ = x.Close(errors.New("over"))
				if len(c.st.Trailer()) > 10 {
					t.Error("a chatty trailer")
				}
			})
		})
	}
}

func TestTheProducerSendsNothingWithoutCreditAndAnnouncesItsBacklog(t *testing.T) {
	byHand(t, func(t *testing.T, w *world, dial func() *consumer) {
		x := w.writer(0, 1)
		c := dial()
		c.say(ask(1, func(*exchangepb.PartitionRequest) {}))
		wait := w.do("fill", func() error {
			for i := range 1000 {
				if err := x.Add(0, rec{Key: uint64(i), Text: strings.Repeat("x", 500)}, 0); err != nil {
					return err
				}
			}
			return nil
		})
		var heard []frame.Header
		w.group.Go("hear", func(context.Context) error {
			for {
				h, _, err := c.hear()
				if err != nil {
					return nil
				}
				heard = append(heard, h)
			}
		})
		for credit := 2; credit < 5; credit++ {
			synctest.Wait()
			last := heard[len(heard)-1]
			data := 0
			for _, h := range heard {
				if h.Type == frame.Data {
					data++
				}
			}
			if data != credit || last.Backlog != 1 {
				t.Fatalf("for %d credits heard %+v", credit, heard)
			}
			c.say(credits(1, 1))
		}
		for _, h := range heard {
			if frame.HeaderLen+h.Payload+grpcPrefix > minUnit {
				t.Errorf("a frame of %d bytes for a credit of %d", frame.HeaderLen+h.Payload, minUnit)
			}
		}
		c.say(&exchangepb.FromConsumer{Message: &exchangepb.FromConsumer_Cancel{Cancel: &exchangepb.Closed{Channel: 1, Refusal: exchangepb.Refusal_REFUSAL_CORRUPT, Message: "frame 3"}}})
		loss := wantLoss(t, wait(), Corrupt, 0, 0)
		if !strings.Contains(loss.Error(), "frame 3") {
			t.Error(loss)
		}
		_ = x.Close(loss)
	})
}

// A stream lives as long as the two processes have any channel, through all restarts of others: it must not keep what it
// once carried.
func TestAStreamForgetsTheChannelsThatItHasServed(t *testing.T) {
	s := &serverStream{wake: newWakeup(), room: newWakeup()}
	s.mu.isReady = map[*remoteOut]bool{}
	for range 3 {
		s.enqueue(&remoteOut{sender: &sender{wake: newWakeup()}})
	}
	var m outbound
	if s.next(&m) {
		t.Fatal("an empty channel has sent something")
	}
	if n := len(s.mu.isReady); n != 0 {
		t.Errorf("%d channels are kept", n)
	}
}

// Answers pile up only so far for a consumer that does not read them.
func TestAConsumerThatOnlyAsksDoesNotFillTheMemory(t *testing.T) {
	byHand(t, func(t *testing.T, w *world, dial func() *consumer) {
		c := dial()
		asked := 0
		w.group.Go("ask", func(context.Context) error {
			for i := range 500_000 {
				if c.st.SendMsg(ask(uint32(i), func(r *exchangepb.PartitionRequest) { r.Job = strings.Repeat("j", 200) })) != nil {
					return nil
				}
				asked++
			}
			return nil
		})
		synctest.Wait()
		if asked < maxControl || asked > 50_000 {
			t.Errorf("%d requests were taken from a consumer that reads no answer", asked)
		}
	})
}

// byHandProducing runs a gate against a producer that sends just these frames, and returns how the gate fails.
func byHandProducing(t *testing.T, frames func(number uint32) [][]byte) error {
	var result error
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 20)
		server := grpc.NewServer(grpc.ForceServerCodecV2(passThrough{}))
		server.RegisterService(&grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
			StreamName: streamName, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, st grpc.ServerStream) error {
				var m exchangepb.FromConsumer
				if err := st.RecvMsg(&m); err != nil {
					return err
				}
				for _, b := range frames(m.GetRequest().GetChannel()) {
					if err := st.SendMsg(&outbound{mem.BufferSlice{mem.SliceBuffer(b)}}); err != nil {
						return err
					}
				}
				<-st.Context().Done()
				return nil
			},
		}}}, nil)
		w := newRemote(t, worldConfig{memory: 64 << 20, listener: bufconn.Listen(1), dial: func(ctx context.Context, _ Peer) (net.Conn, error) {
			return l.DialContext(ctx)
		}})
		w.group.Go("serve", func(context.Context) error { return server.Serve(l) })
		g := w.gate(0, 1)
		result = errOf(g)
		g.Close(result)
		<-time.After(time.Minute) // fake; the session ends
		server.Stop()
		w.stop()
	})
	return result
}

func events(number uint32, sequence uint64, kind element.Kind) []byte {
	b := frame.AppendTable(make([]byte, frame.HeaderLen), []frame.Segment{{Event: element.Event{Kind: kind}}})
	h := frame.Header{Type: frame.Data, Channel: number, Sequence: sequence, Segments: 1, Payload: frame.SegmentLen, Raw: frame.SegmentLen, Sum: frame.Sum(b[frame.HeaderLen:])}
	if kind == element.End {
		h.Flags = frame.Ended
	}
	h.Put(b)
	return b
}

func TestAProducerThatBreaksTheProtocolIsALossThatSaysHow(t *testing.T) {
	big := func(number uint32) []byte {
		b := make([]byte, maxUnit)
		h := frame.Header{Type: frame.Data, Flags: frame.Piece, Channel: number, Sequence: 1, Payload: maxUnit - frame.HeaderLen, Raw: maxUnit - frame.HeaderLen, Total: 1 << 20}
		h.Put(b)
		return b
	}
	piece := func(number uint32, sequence uint64, total int, records uint32, data string) []byte {
		b := append(make([]byte, frame.HeaderLen), data...)
		h := frame.Header{Type: frame.Data, Flags: frame.Piece, Channel: number, Sequence: sequence, Records: records, Payload: uint32(len(data)), Raw: uint32(len(data)), Total: uint32(total), Sum: frame.Sum([]byte(data))}
		h.Put(b)
		return b
	}
	data := func(number uint32, payload []byte, change func(*frame.Header)) []byte {
		s := []frame.Segment{{Records: 1, Bytes: uint32(len(payload))}}
		b := frame.AppendTable(append(make([]byte, frame.HeaderLen), payload...), s)
		h := frame.Header{Type: frame.Data, Channel: number, Sequence: 1, Records: 1, Segments: 1, Payload: uint32(len(b) - frame.HeaderLen), Raw: uint32(len(b) - frame.HeaderLen), Sum: frame.Sum(b[frame.HeaderLen:])}
		change(&h)
		h.Put(b)
		return b
	}
	for name, c := range map[string]struct {
		reason Reason
		text   string
		frames func(n uint32) [][]byte
	}{
		"without credit": {Protocol, "frame 3 has no credit", func(n uint32) [][]byte {
			return [][]byte{events(n, 1, element.Idle), events(n, 2, element.Idle), events(n, 3, element.Idle)}
		}},
		"gap": {Protocol, "frame 3 follows frame 1", func(n uint32) [][]byte {
			return [][]byte{events(n, 1, element.Idle), events(n, 3, element.Idle)}
		}},
		"repeated": {Protocol, "frame 1 follows frame 1", func(n uint32) [][]byte {
			return [][]byte{events(n, 1, element.Idle), events(n, 1, element.Idle)}
		}},
		"too long": {Protocol, "credit is for 32763", func(n uint32) [][]byte { return [][]byte{big(n)} }},
		"no frame": {Broken, "corrupt frame", func(n uint32) [][]byte { return [][]byte{events(n, 1, element.Idle), []byte("hello, world")} }},
		"wrong length": {Broken, "corrupt frame", func(n uint32) [][]byte {
			return [][]byte{events(n, 1, element.Idle), append(events(n, 2, element.Idle), 0)}
		}},
		"undecodable": {Corrupt, "decode", func(n uint32) [][]byte {
			return [][]byte{data(n, []byte{0x80, 0xff, 0xff}, func(*frame.Header) {})}
		}},
		"payload checksum": {Corrupt, "payload checksum", func(n uint32) [][]byte {
			return [][]byte{data(n, []byte("xyz"), func(h *frame.Header) { h.Sum++ })}
		}},
		"compressed nonsense": {Corrupt, "frame 1", func(n uint32) [][]byte {
			return [][]byte{data(n, []byte("xyz"), func(h *frame.Header) { h.Flags, h.Raw = frame.Compressed, 5000 })}
		}},
		"unpacks to more than credit": {Corrupt, "unpacks to", func(n uint32) [][]byte {
			return [][]byte{data(n, []byte{0xff, 0xff, 0xff, 0x7f}, func(h *frame.Header) { h.Flags, h.Raw = frame.Compressed, 1<<28-1 })}
		}},
		"piece beyond the record": {Corrupt, "piece 2 of 4 bytes at 4 of 6", func(n uint32) [][]byte {
			return [][]byte{piece(n, 1, 6, 0, "abcd"), piece(n, 2, 6, 0, "efgh")}
		}},
		"pieces of different records": {Corrupt, "piece 2", func(n uint32) [][]byte {
			return [][]byte{piece(n, 1, 6, 0, "abcd"), piece(n, 2, 7, 0, "e")}
		}},
		"event inside a record": {Protocol, "stands inside a record", func(n uint32) [][]byte {
			return [][]byte{piece(n, 1, 6, 0, "abcd"), events(n, 2, element.Idle)}
		}},
		"strange closing": {Protocol, "closed with refusal 0", func(n uint32) [][]byte {
			b := make([]byte, frame.HeaderLen)
			(&frame.Header{Type: frame.Closed, Channel: n}).Put(b)
			return [][]byte{b}
		}},
		"record without memory": {0, CodeMemory, func(n uint32) [][]byte {
			return [][]byte{piece(n, 1, frame.MaxRecord, 0, "abcd")}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			err := byHandProducing(t, c.frames)
			if c.reason != 0 {
				wantLoss(t, err, c.reason, 0, 0)
			}
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v does not say %q", err, c.text)
			}
		})
	}
}

func TestLargeRecordsTravelInPieces(t *testing.T) {
	remotely(t, func(t *testing.T, w *world) {
		sizes := []int{minUnit - 80, minUnit - 60, minUnit, maxUnit - 90, maxUnit - 60, maxUnit, 3 * maxUnit, 5 << 20}
		x, g := w.writer(0, 1), w.gate(0, 1)
		r := rand.New(rand.NewPCG(1, 2))
		random := func(n int) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			return string(b)
		}
		var want []string
		wait := w.do("send", func() error {
			for round, s := range append(sizes, sizes...) {
				if err := x.Add(0, rec{Key: uint64(round), Text: "small"}, 3); err != nil {
					return err
				}
				if err := x.Add(0, rec{Key: uint64(s), Text: random(s)}, element.Time(round)); err != nil {
					return err
				}
				if err := x.Broadcast(element.Event{Kind: element.Watermark, Time: element.Time(round)}); err != nil {
					return err
				}
			}
			return errors.Join(x.Broadcast(endOfInput), x.Close(nil))
		})
		for round, s := range append(sizes, sizes...) {
			want = append(want, fmt.Sprintf("%d@3 small", round), fmt.Sprintf("%d@%d+%d", s, round, s), eventText(element.Event{Kind: element.Watermark, Time: element.Time(round)}))
		}
		all, err := g.drain()
		if err := errors.Join(err, wait()); err != nil {
			t.Fatal(err)
		}
		if d := firstDifference(all[0], append(want, eventText(endOfInput))); d != "0 more than wanted" {
			t.Fatal(d)
		}
		g.Close(nil)
	})
}

func TestARecordThatIsTooLargeIsRefusedWithItsSize(t *testing.T) {
	w := newRemote(t, worldConfig{memory: 1 << 30})
	defer w.stop()
	x := w.writer(2, 1)
	err := x.Add(0, rec{Text: strings.Repeat("x", frame.MaxRecord+1)}, 0)
	var tooLarge *RecordError
	if !errors.As(err, &tooLarge) || tooLarge.Edge != 3 || tooLarge.Producer != 2 || tooLarge.Size < frame.MaxRecord || !strings.Contains(err.Error(), CodeRecord) {
		t.Errorf("%v", err)
	}
	_ = x.Close(err)
	small := newRemote(t, worldConfig{memory: 4 << 20})
	defer small.stop()
	x = small.writer(2, 1)
	err = x.Add(0, rec{Text: strings.Repeat("x", 8<<20)}, 0)
	var memory *MemoryError
	if !errors.As(err, &memory) || !strings.Contains(err.Error(), "from producer 2 of edge 3") {
		t.Errorf("%v", err)
	}
	_ = x.Close(err)
}

func TestCompressionSavesBytesAndChangesNothing(t *testing.T) {
	remotely(t, func(t *testing.T, w *world) {
		sizes := map[Compression]int64{}
		for i, compression := range []Compression{Uncompressed, S2} {
			cfg, gcfg := w.writerConfig(0, 1), w.gateConfig(0, 1)
			cfg.Edge, gcfg.Edge, cfg.Compression = int32(i), int32(i), compression
			x, g := w.writerOf(cfg), w.gateOf(gcfg)
			wait := w.do("send", func() error {
				for i := range 20_000 {
					if err := x.Add(0, rec{Key: uint64(i), Text: fmt.Sprintf("https://example.org/item?id=%d", i%100)}, element.Time(i)); err != nil {
						return err
					}
				}
				if err := x.Add(0, rec{Text: strings.Repeat("long ", 50_000)}, 0); err != nil {
					return err
				}
				return errors.Join(x.Broadcast(endOfInput), x.Close(nil))
			})
			all, err := g.drain()
			if err := errors.Join(err, wait()); err != nil {
				t.Fatal(err)
			}
			if len(all[0]) != 20_002 || all[0][777] != "777@777 https://example.org/item?id=77" || all[0][20_000] != "0@0+250000" {
				t.Fatalf("%d elements", len(all[0]))
			}
			if g.Stats().Bytes != x.Stats().Bytes || g.Stats().Buffers != x.Stats().Buffers {
				t.Errorf("sent %+v, got %+v", x.Stats(), g.Stats())
			}
			sizes[compression] = x.Stats().Bytes
			g.Close(nil)
		}
		if sizes[S2]*2 > sizes[Uncompressed] {
			t.Errorf("%d bytes became %d", sizes[Uncompressed], sizes[S2])
		}
	})
}

// A watermark every millisecond must not cost a frame per consumer and millisecond.
func TestWatermarksShareFramesWithRecords(t *testing.T) {
	remotely(t, func(t *testing.T, w *world) {
		x, g := w.writer(0, 1), w.gate(0, 1)
		for i := range 60 {
			if err := x.Add(0, rec{Key: uint64(i)}, 0); err != nil {
				t.Fatal(err)
			}
			if err := x.Broadcast(element.Event{Kind: element.Watermark, Time: element.Time(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.Flush(); err != nil || x.Pending() {
			t.Fatal(err, x.Pending())
		}
		if s := x.Stats(); s.Buffers != 1 || s.Records != 60 {
			t.Errorf("%+v", s)
		}
		if err := errors.Join(x.Broadcast(endOfInput), x.Close(nil)); err != nil {
			t.Fatal(err)
		}
		if all, err := g.drain(); err != nil || len(all[0]) != 121 {
			t.Fatalf("%d elements, %v", len(all[0]), err)
		}
		g.Close(nil)
	})
}
