package shuffle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/shuffle/meet"
)

var endOfInput = element.Event{Kind: element.End, Time: element.MaxTime}

// What a channel promises is the same within a process and between two: this file runs on both.

func TestEveryChannelDeliversEverythingInOrder(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		const producers, consumers = 3, 4
		want := make([]got, consumers)
		for c := range want {
			want[c] = make(got, producers)
		}
		var waits []func() error
		for p := range producers {
			x := w.writer(p, consumers)
			script := randomScript(uint64(p), consumers)
			for _, s := range script {
				s.record(want, p)
			}
			waits = append(waits, w.do("producer", func() error {
				for _, s := range script {
					if err := s.play(x); err != nil {
						return err
					}
				}
				return x.Close(nil)
			}))
		}
		results := make([]got, consumers)
		for c := range consumers {
			g := w.gate(c, producers)
			waits = append(waits, w.do("consumer", func() (err error) {
				defer g.Close(nil)
				results[c], err = g.drain()
				return err
			}))
		}
		for _, wait := range waits {
			if err := wait(); err != nil {
				t.Error(err)
			}
		}
		for c := range results {
			for p := range results[c] {
				if !slices.Equal(results[c][p], want[c][p]) {
					t.Errorf("channel %d → %d: %s", p, c, firstDifference(results[c][p], want[c][p]))
				}
			}
		}
	})
}

func firstDifference(got, want []string) string {
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			return fmt.Sprintf("element %d of %d: got %q of %d, want %q", i, len(want), append(slices.Clone(got), "nothing")[min(i, len(got))], len(got), want[i])
		}
	}
	return fmt.Sprintf("%d more than wanted", len(got)-len(want))
}

// step is one call of a writer: a record, an event or a flush.
type step struct {
	to    int // -1: event, -2: flush
	value rec
	at    element.Time
	event element.Event
}

func randomScript(seed uint64, consumers int) (script []step) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range 4000 {
		s := step{to: r.IntN(consumers), value: rec{Key: uint64(i), Text: strings.Repeat("x", r.IntN(60))}, at: element.Time(r.Int64N(1 << 40))}
		switch n := r.IntN(400); {
		case n == 0:
			s.to, s.event = -1, element.Event{Kind: element.Barrier, Checkpoint: element.CheckpointID(i)}
		case n == 1:
			s.to, s.event = -1, element.Event{Kind: element.Idle}
		case n < 5:
			s.to = -2
		case n == 5: // about a frame, or more than one
			s.value.Text = strings.Repeat("y", 20_000+r.IntN(60_000))
		}
		script = append(script, s)
	}
	return append(script, step{to: -1, event: endOfInput})
}

func (s step) play(x *Writer[rec]) error {
	switch s.to {
	case -1:
		return x.Broadcast(s.event)
	case -2:
		return x.Flush()
	}
	return x.Add(s.to, s.value, s.at)
}

func (s step) record(want []got, p int) {
	for c := range want {
		switch {
		case s.to == -1:
			if n := len(want[c][p]); n > 0 && s.event.Kind == element.Idle && want[c][p][n-1] == eventText(s.event) {
				continue // idle twice in a row is idle
			}
			want[c][p] = append(want[c][p], eventText(s.event))
		case s.to == c:
			want[c][p] = append(want[c][p], recordText(s.value, s.at))
		}
	}
}

// A watermark per record keeps its place between the records; several in a row are one.
func TestWatermarksKeepTheirPlaceBetweenRecords(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		x, g := w.writer(0, 1), w.gate(0, 1)
		wait := w.do("consume", func() error {
			all, err := g.drain()
			if err != nil {
				return err
			}
			var seen []string
			for _, s := range all[0] {
				if !strings.HasPrefix(s, "event") || len(seen) == 0 || !strings.HasPrefix(seen[len(seen)-1], "event 1") || !strings.HasPrefix(s, "event 1") {
					seen = append(seen, s)
				} else {
					seen[len(seen)-1] = s
				}
			}
			var want []string
			for i := range 300 {
				want = append(want, recordText(rec{Key: uint64(i)}, element.Time(i)), eventText(element.Event{Kind: element.Watermark, Time: element.Time(i)}))
			}
			want = append(want, eventText(endOfInput))
			if !slices.Equal(seen, want) {
				return errors.New(firstDifference(seen, want))
			}
			return nil
		})
		for i := range 300 {
			if err := x.Add(0, rec{Key: uint64(i)}, element.Time(i)); err != nil {
				t.Fatal(err)
			}
			for _, at := range []int{i - 1, i} {
				if err := x.Broadcast(element.Event{Kind: element.Watermark, Time: element.Time(at)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(x.Broadcast(endOfInput), x.Close(nil), wait()); err != nil {
			t.Fatal(err)
		}
		g.Close(nil)
	})
}

// fillUp adds records until Add blocks, and returns how many went in and a function that waits for the rest.
func fillUp(t *testing.T, w *world, x *Writer[rec], to, records int) (added *int, wait func() error) {
	added = new(int)
	wait = w.do("fill", func() error {
		for i := range records {
			if err := x.Add(to, rec{Key: uint64(i), Text: strings.Repeat("x", 100)}, 0); err != nil {
				return err
			}
			*added++
		}
		return nil
	})
	synctest.Wait()
	if *added == records {
		t.Fatalf("all %d records went in though nobody reads", records)
	}
	return added, wait
}

func TestBackpressureStopsTheProducerAndLetsItGoOn(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		const records = 50_000
		x, g := w.writer(0, 1), w.gate(0, 1)
		synctest.Wait()
		added, wait := fillUp(t, w, x, 0, records)
		// 2 exclusive, 8 floating, 1 that waits, 1 being filled: each of at most 512 records.
		if *added > 12*512 {
			t.Errorf("%d records went in: more than the buffers of one channel", *added)
		}
		consumed := w.do("consume", func() error { _, err := g.drain(); return err })
		if err := errors.Join(wait(), x.Broadcast(endOfInput), x.Close(nil), consumed()); err != nil {
			t.Fatal(err)
		}
		if s := x.Stats(); s.Records != records || g.Stats().Records != records {
			t.Errorf("counted %d out and %d in, want %d", s.Records, g.Stats().Records, records)
		}
		g.Close(nil)
	})
}

// A batch of large records is short, so that what waits in a process is bounded in bytes as well.
func TestLargeRecordsMakeShortBatches(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		x, g := w.writer(0, 1), w.gate(0, 1)
		synctest.Wait()
		large := strings.Repeat("x", 1<<20)
		added := 0
		wait := w.do("fill", func() error {
			for ; added < 100; added++ {
				if err := x.Add(0, rec{Key: uint64(added), Text: large}, 0); err != nil {
					return err
				}
			}
			for range 1000 { // small ones again: batches grow
				if err := x.Add(0, rec{Text: "small"}, 0); err != nil {
					return err
				}
			}
			return errors.Join(x.Broadcast(endOfInput), x.Close(nil))
		})
		synctest.Wait()
		if added > 13 { // 10 with credit, one that waits, one being filled, one under way
			t.Errorf("%d records of 1 MiB wait", added)
		}
		all, err := g.drain()
		if err != nil || len(all[0]) != 1101 {
			t.Fatalf("%d elements, %v", len(all[0]), err)
		}
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if w.toProducers == nil && x.Stats().Buffers > 100+500 {
			t.Errorf("%d batches for 100 large and 1000 small records", x.Stats().Buffers)
		}
		g.Close(nil)
	})
}

// A consumer that stands still does not hold up the others, and neither does its channel on the gate of another.
func TestASlowChannelDoesNotBlockAnother(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		stuck, free := w.writer(0, 2), w.writer(1, 2)
		slow, fast := w.gate(0, 2), w.gate(1, 2)
		synctest.Wait()
		_, wait := fillUp(t, w, stuck, 0, 50_000) // slow does not read: producer 0 stands
		const records = 20_000
		sent := w.do("send", func() error {
			for i := range records {
				if err := free.Add(1, rec{Key: uint64(i), Text: strings.Repeat("z", 100)}, 0); err != nil {
					return err
				}
			}
			return flushAll(free)
		})
		for n := 0; n < records; {
			in, err := fast.next()
			if err != nil {
				t.Fatal(err)
			}
			n += in.Batch.Len()
			fast.Release(in)
		}
		if err := sent(); err != nil {
			t.Fatal(err)
		}
		slow.Close(errors.New("test over"))
		wantLoss(t, wait(), Failed, 0, 0)
		fast.Close(nil)
		_, _ = stuck.Close(errors.New("over")), free.Close(errors.New("over"))
	})
}

// A barrier reaches the others although one channel is full, and the full one when it moves again.
func TestAnEventDoesNotWaitForAFullChannel(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		x := w.writer(0, 2)
		full, idle := w.gate(0, 1), w.gate(1, 1)
		synctest.Wait()
		records := 0
		for stuck := false; !stuck; records++ {
			if err := errors.Join(x.Add(0, rec{Key: uint64(records)}, 0), x.Flush()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // what was flushed is under way
			stuck = x.Pending() && x.Flush() == nil && x.Pending()
		}
		barrier := element.Event{Kind: element.Barrier, Checkpoint: 9}
		if err := x.Broadcast(barrier); err != nil {
			t.Fatal(err)
		}
		if in, err := idle.next(); err != nil || in.Event != barrier {
			t.Fatalf("%+v, %v", in, err)
		}
		wait := w.do("end", func() error { return errors.Join(x.Broadcast(endOfInput), x.Close(nil)) })
		all, err := full.drain()
		if err != nil || len(all[0]) != records+2 || all[0][records] != eventText(barrier) {
			t.Fatalf("%d elements of %d and 2 events: %v", len(all[0]), records, err)
		}
		if all, err = idle.drain(); err != nil || len(all[0]) != 1 {
			t.Fatalf("%v, %v", all, err)
		}
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		full.Close(nil)
		idle.Close(nil)
	})
}

func TestCancellingUnblocksTheProducer(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		cause := errors.New("job cancelled")
		ctx, cancel := context.WithCancelCause(t.Context())
		cfg := w.writerConfig(0, 1)
		cfg.Ctx = ctx
		x, g := w.writerOf(cfg), w.gate(0, 1)
		synctest.Wait()
		_, wait := fillUp(t, w, x, 0, 50_000)
		cancel(cause)
		if err := wait(); !errors.Is(err, cause) {
			t.Fatalf("Add returned %v", err)
		}
		if err := x.Close(cause); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		loss := wantLoss(t, errOf(g), Failed, 0, 0)
		if !strings.Contains(loss.Error(), "job cancelled") {
			t.Errorf("%v does not say why", loss)
		}
		g.Close(loss)
	})
}

// flushAll does what a loop does after its buffer timeout.
func flushAll(x *Writer[rec]) error {
	for x.Pending() {
		if err := x.Flush(); err != nil {
			return err
		}
		<-time.After(2 * time.Millisecond) // fake
	}
	return nil
}

// errOf reads until the gate fails.
func errOf(g *reader) error {
	for {
		in, err := g.next()
		if err != nil {
			return err
		}
		g.Release(in)
	}
}

func TestALossIsReportedOnceHoweverOftenItIsAskedFor(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		x0, x1, g := w.writer(0, 1), w.writer(1, 1), w.gate(0, 2)
		synctest.Wait()
		_ = x0.Close(errors.New("first"))
		synctest.Wait()
		_ = x1.Close(errors.New("second"))
		synctest.Wait()
		first := errOf(g)
		wantLoss(t, first, Failed, 0, 0)
		for range 3 {
			if _, ok, err := g.Next(); ok || err != first {
				t.Fatalf("then %v, %v", ok, err)
			}
		}
		rings := g.rings.Load()
		g.Close(first)
		synctest.Wait()
		if g.rings.Load() != rings {
			t.Error("a closed gate still rings")
		}
	})
}

func TestAConsumerThatFailsIsALossToItsProducers(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		x, g := w.writer(0, 1), w.gate(0, 1)
		synctest.Wait()
		if err := x.Flush(); err != nil {
			t.Fatal(err)
		}
		g.Close(errors.New("out of paper"))
		synctest.Wait()
		loss := wantLoss(t, x.Flush(), Failed, 0, 0)
		if !strings.Contains(loss.Error(), "out of paper") {
			t.Errorf("%v does not say why", loss)
		}
		if err := x.Broadcast(endOfInput); err == nil {
			t.Error("a failed writer broadcasts")
		}
		_ = x.Close(loss)
	})
}

func TestAProducerThatEndedIsNoLoss(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		x, g := w.writer(0, 1), w.gate(0, 1)
		if err := x.Add(0, rec{Key: 1}, 5); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(x.Broadcast(endOfInput), x.Close(nil)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		all, err := g.drain()
		if want := (got{{recordText(rec{Key: 1}, 5), eventText(endOfInput)}}); err != nil || !reflect.DeepEqual(all, want) {
			t.Fatalf("%v, %v", all, err)
		}
		<-time.After(time.Hour) // fake: nothing is left that could time out
		if _, ok, err := g.Next(); ok || err != nil {
			t.Fatalf("after the end: %v, %v", ok, err)
		}
		g.Close(nil)
	})
}

func TestAWriterClosedBeforeItsEndIsALoss(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		x, g := w.writer(0, 1), w.gate(0, 1)
		synctest.Wait()
		_ = x.Close(nil)
		synctest.Wait()
		wantLoss(t, errOf(g), Failed, 0, 0)
		g.Close(nil)
	})
}

// The two ends of a local channel are joined outside of every lock: a producer may close in between, when nobody has
// told it of its consumer yet.
func TestAProducerThatFailsWhileItsConsumerIsIntroducedIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLocal(t, worldConfig{memory: 64 << 20})
		r := w.gate(0, 1)
		l := &localOut{id: r.in.id(0), fence: r.in.fenceOf(0), sender: &sender{wake: newWakeup()}}
		failure := errors.New("the producer's own fault")
		l.close(Failed, failure)
		l.pair(r.in, 0)
		_, err := r.next()
		if loss := wantLoss(t, err, Failed, 0, 0); !errors.Is(loss, failure) {
			t.Errorf("the loss %v does not say why", loss)
		}
		r.Close(err)
		w.stop()
	})
}

func TestAConsumerThatWantsNoMoreIsNoLoss(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		x, g := w.writer(0, 1), w.gate(0, 1)
		synctest.Wait()
		_, wait := fillUp(t, w, x, 0, 50_000)
		g.Close(nil)
		if err := errors.Join(wait(), x.Broadcast(endOfInput), x.Close(nil)); err != nil {
			t.Fatal(err)
		}
	})
}

// A deployment of the next region epoch may reach the consumer before the producer, or the other way round.
func TestTheNewerSideWaitsUntilTheOlderIsReplaced(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		old := w.writer(0, 1)
		cfg := w.gateConfig(0, 1)
		cfg.RegionEpoch, cfg.Attempt, cfg.Producers[0].Attempt = 2, 2, 2
		g := w.gateOf(cfg)
		<-time.After(time.Second) // fake; it asks again and again
		if _, ok, err := g.Next(); ok || err != nil {
			t.Fatalf("a newer consumer got %v, %v from an older producer", ok, err)
		}
		_ = old.Close(errors.New("restarted"))
		wcfg := w.writerConfig(0, 1)
		wcfg.RegionEpoch, wcfg.Attempt, wcfg.Consumers[0].Attempt = 2, 2, 2
		x := w.writerOf(wcfg)
		if err := errors.Join(x.Add(0, rec{Key: 7}, 1), x.Broadcast(endOfInput), x.Close(nil)); err != nil {
			t.Fatal(err)
		}
		if all, err := g.drain(); err != nil || len(all[0]) != 2 {
			t.Fatalf("%v, %v", all, err)
		}
		g.Close(nil)
	})
}

func TestAnOlderConsumerIsRefused(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		cfg := w.writerConfig(0, 1)
		cfg.RegionEpoch, cfg.Attempt = 5, 3
		x := w.writerOf(cfg)
		g, err := w.tryGate(w.gateConfig(0, 1)) // region epoch 1
		if err == nil {
			err = errOf(g)
			g.Close(err)
		}
		wantLoss(t, err, Stale, 0, 0)
		// The writer is untouched.
		if err := x.Add(0, rec{}, 0); err != nil {
			t.Fatal(err)
		}
		if err := x.Flush(); err != nil {
			t.Fatal(err)
		}
		_ = x.Close(errors.New("over"))
	})
}

func TestAnOlderAttemptOfTheSameSubtaskIsRefusedAndANewerOneReplaces(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		older, newer := w.writerConfig(0, 1), w.writerConfig(0, 1)
		newer.RegionEpoch, newer.Attempt, newer.Consumers[0].Attempt = 2, 2, 2
		first := w.writerOf(older)
		if _, err := NewWriter(w.producers, older); err == nil {
			t.Fatal("the same attempt twice")
		} else {
			wantLoss(t, err, Protocol, 0, 0)
		}
		second := w.writerOf(newer)
		wantLoss(t, first.Flush(), Stale, 0, 0)
		_, err := NewWriter(w.producers, older)
		wantLoss(t, err, Stale, 0, 0)
		_ = first.Close(errors.New("replaced")) // must not take the newer one's place away
		cfg := w.gateConfig(0, 1)
		cfg.RegionEpoch, cfg.Attempt, cfg.Producers[0].Attempt = 2, 2, 2
		g := w.gateOf(cfg)
		if err := errors.Join(second.Broadcast(endOfInput), second.Close(nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := g.drain(); err != nil {
			t.Fatal(err)
		}
		g.Close(nil)
		_, err = NewWriter(w.producers, newer)
		wantLoss(t, err, Gone, 0, 0) // its consumer has it all; a second run of the same attempt is a zombie
	})
}

func TestAProducerThatDoesNotComeIsALossAfterTheConnectTimeout(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		begin := time.Now()
		x, g := w.writer(0, 1), w.gate(0, 2)
		loss := wantLoss(t, errOf(g), Timeout, 1, 0)
		if waited := time.Since(begin); waited < DefaultConnectTimeout || waited > DefaultConnectTimeout+time.Second {
			t.Errorf("gave up after %v", waited)
		}
		if !strings.Contains(loss.Error(), "1 of 2 producers are missing") {
			t.Error(loss)
		}
		g.Close(loss)
		synctest.Wait()
		wantLoss(t, x.Flush(), Failed, 0, 0)
		_ = x.Close(loss)
	})
}

func TestReservedMemoryIsGivenBack(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		for range 3 {
			x, g := w.writer(0, 1), w.gate(0, 1)
			if used, _ := w.producers.Memory(); used == 0 {
				t.Fatal("nothing is reserved")
			}
			_, wait := fillUp(t, w, x, 0, 50_000)
			g.Close(errors.New("stop"))
			wantLoss(t, wait(), Failed, 0, 0)
			_ = x.Close(errors.New("stop"))
			<-time.After(time.Minute) // fake: sessions end
			for _, n := range []*Network{w.producers, w.consumers} {
				if used, _ := n.Memory(); used != 0 {
					t.Fatalf("%d bytes are still reserved", used)
				}
			}
			w.producers.mu.meetings = map[channelID]*meet.Meeting[endpoint]{} // the next round is the same attempt
			w.consumers.mu.meetings = map[channelID]*meet.Meeting[endpoint]{}
		}
	})
}

func TestWhatDoesNotFitIntoTheMemoryIsRefusedWithTheNumbers(t *testing.T) {
	for name, make := range map[string]func(testing.TB, worldConfig) *world{"local": newLocal, "remote": newRemote} {
		t.Run(name, func(t *testing.T) {
			w := make(t, worldConfig{memory: 1 << 20})
			defer w.stop()
			_, err := NewWriter(w.producers, w.writerConfig(0, 1000))
			var e *MemoryError
			if !errors.As(err, &e) || !strings.Contains(err.Error(), CodeMemory) || !strings.Contains(err.Error(), "producer 0 of edge 3 with 1000 consumers") || !strings.Contains(err.Error(), "1048576") {
				t.Errorf("writer: %v", err)
			}
			_, err = w.tryGate(w.gateConfig(0, 1000))
			if !errors.As(err, &e) || e.Limit != 1<<20 || e.Need != (2*1000+8)*minUnit {
				t.Errorf("gate: %v", err)
			}
		})
	}
}

func TestBadConfigurationsAreRefusedWithEveryFault(t *testing.T) {
	w := newLocal(t, worldConfig{memory: 1 << 20})
	defer w.stop()
	_, err := NewWriter(w.producers, WriterConfig[rec]{Job: "other", Consumers: []End{{Index: 4}, {Index: 4}}, Compression: 9})
	for _, part := range []string{"context", `job "other"`, "subtask 4 appears twice", "codec", "compression 9"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("writer: %v does not name %s", err, part)
		}
	}
	_, err = NewGate(w.consumers, GateConfig[rec]{Job: testJob, ExclusiveCredit: -1, Producers: []End{{Peer: &Peer{Process: 1}}}})
	for _, part := range []string{"context", "codec", "notify", "credit", "cannot dial", "said to be remote"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("gate: %v does not name %s", err, part)
		}
	}
	if _, err := NewNetwork(NetworkConfig{ConnectTimeout: -1}); err == nil || !strings.Contains(err.Error(), "job") || !strings.Contains(err.Error(), "memory") || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("network: %v", err)
	}
}

func TestTheEndOfTheNetworkIsALossToBothEnds(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		x, g := w.writer(0, 1), w.gate(0, 1)
		synctest.Wait()
		_, wait := fillUp(t, w, x, 0, 50_000)
		w.group.Stop()
		wantLoss(t, wait(), Broken, 0, 0)
		wantLoss(t, errOf(g), Broken, 0, 0)
		_ = x.Close(errors.New("stop"))
		g.Close(errors.New("stop"))
	})
}
