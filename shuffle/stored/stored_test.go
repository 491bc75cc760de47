package stored

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// TestTheFactsOfAPartitionAreThoseOfItsFiles: size, records, digest, and the attempt that wrote it.
func TestTheFactsOfAPartitionAreThoseOfItsFiles(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	cfg := w.writerConfig(3, 2)
	cfg.Compression = S2
	x := w.writer(cfg)
	if x.Result() != nil {
		t.Error("a result before the end")
	}
	for i := range 5000 {
		if err := x.Add(i%2, testRecord(3, i, 60), element.Time(i)); err != nil {
			t.Fatal(err)
		}
	}
	if x.Pending() || x.Flush() != nil {
		t.Error("a stored result has nothing to flush")
	}
	finish(t, x)
	var size int64
	var index []byte
	for _, path := range filesOf(t, w.fs, "results") {
		b, err := vfs.ReadFile(w.fs, path)
		if err != nil {
			t.Fatal(err)
		}
		size += int64(len(b))
		if strings.HasSuffix(path, partition.IndexSuffix) {
			index = b
		}
	}
	digest := sha256.Sum256(index)
	r := x.Result()
	if r.Edge != 5 || r.State != jobpb.PartitionState_PARTITION_STORED || r.Bytes != size || r.Records != 5000 ||
		!slices.Equal(r.Digest, digest[:]) || r.RegionEpoch != 4 || r.Attempt != 6 {
		t.Errorf("facts %v, the files have %d bytes and digest %x", r, size, digest)
	}
	if have := w.store.Inventory(); len(have) != 1 || have[0] != (Found{cfg.Name, size}) {
		t.Errorf("the inventory is %v", have)
	}
	s := x.Stats()
	if s.Records != 5000 || s.Bytes <= 0 || s.Bytes >= size || s.Buffers < 2 {
		t.Errorf("stats %+v", s)
	}
	rc := w.readerConfig(w.here, 1, 1)
	rc.Producers[0].Name = cfg.Name
	reader := w.reader(rc)
	if _, err := reader.drain(); err != nil {
		t.Fatal(err)
	}
	if s := reader.Stats(); s.Records != 2500 || s.Bytes <= 0 || s.Buffers < 1 {
		t.Errorf("the reader's stats %+v", s)
	}
}

// TestAWriterThatDoesNotReachItsEndLeavesNothing: it fails, is cancelled, or is closed without the end.
func TestAWriterThatDoesNotReachItsEndLeavesNothing(t *testing.T) {
	reason := errors.New("the attempt was cancelled")
	for what, f := range map[string]func(x *Writer[rec], cancel func()) error{
		"failed": func(x *Writer[rec], _ func()) error {
			if err := x.Close(reason); err != nil {
				return err
			}
			return reason
		},
		"failed after its end": func(x *Writer[rec], _ func()) error {
			if err := errors.Join(x.Broadcast(element.Event{Kind: element.End}), x.Close(reason)); err != nil {
				return err
			}
			return reason
		},
		"cancelled": func(x *Writer[rec], cancel func()) error {
			cancel()
			for i := range 200_000 {
				if err := x.Add(0, testRecord(0, i, 100), 0); err != nil {
					return errors.Join(err, x.Close(err))
				}
			}
			return nil
		},
		"cancelled at the end": func(x *Writer[rec], cancel func()) error {
			cancel()
			return errors.Join(x.Broadcast(element.Event{Kind: element.End}), x.Close(nil))
		},
		"closed without the end": func(x *Writer[rec], _ func()) error {
			if err := x.Close(nil); !errors.Is(err, errUnended) {
				return err
			}
			return reason
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, vfs.NewMem(), "results", 64<<20)
			cfg := w.writerConfig(0, 1)
			ctx, cancel := context.WithCancelCause(t.Context())
			cfg.Ctx = ctx
			x := w.writer(cfg)
			if err := x.Add(0, testRecord(0, 0, 10), 0); err != nil {
				t.Fatal(err)
			}
			if err := f(x, func() { cancel(reason) }); !errors.Is(err, reason) {
				t.Errorf("got %v", err)
			}
			if files := filesOf(t, w.fs, "results"); len(files) > 0 || x.Result() != nil || len(w.store.Inventory()) > 0 {
				t.Errorf("there are %v, the result is %v", files, x.Result())
			}
			if err := x.Close(nil); err != nil {
				t.Errorf("closed again: %v", err)
			}
		})
	}
}

// TestBarriersDoNotCrossAStoredResult.
func TestBarriersDoNotCrossAStoredResult(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	x := w.writer(w.writerConfig(0, 1))
	if err := x.Broadcast(element.Event{Kind: element.Barrier, Checkpoint: 1}); err == nil {
		t.Error("a barrier was stored")
	}
	if err := x.Close(errors.New("test")); err != nil {
		t.Error(err)
	}
}

// oneOf holds an interface, of which only registered variants can be encoded.
type oneOf struct{ S shape }

type shape interface{ area() float64 }

type square struct{ Side float64 }

func (s square) area() float64 { return s.Side * s.Side }

type circle struct{ R float64 }

func (c circle) area() float64 { return 3 * c.R * c.R }

func oneOfCodec(t *testing.T) *codec.Codec[oneOf] {
	t.Helper()
	r := codec.NewRegistry()
	if err := codec.Variant[shape, square](r, "square"); err != nil {
		t.Fatal(err)
	}
	c, err := codec.Of[oneOf](r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestARecordThatCannotBeEncodedNamesItsPlace.
func TestARecordThatCannotBeEncodedNamesItsPlace(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	cfg := w.writerConfig(4, 1)
	x, err := NewWriter(WriterConfig[oneOf]{Ctx: cfg.Ctx, Exchange: w.here, Name: cfg.Name, Consumers: 1, Codec: oneOfCodec(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Add(0, oneOf{shape(square{2})}, 0); err != nil {
		t.Fatal(err)
	}
	err = x.Add(0, oneOf{shape(circle{1})}, 0)
	if err == nil || !strings.Contains(err.Error(), "producer 4 of edge 5") {
		t.Errorf("got %v", err)
	}
	if err := x.Close(err); err != nil {
		t.Error(err)
	}
}

// TestAPositionHoldsForItsAttemptOnly.
func TestAPositionHoldsForItsAttemptOnly(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	w.write(0, 1, 10, 10)
	cfg := w.readerConfig(w.here, 0, 1)
	cfg.Notify = func() {}
	for _, c := range []struct {
		from Position
		void bool
	}{
		{Position{Attempt: 5}, true}, {Position{Attempt: 7, Block: 1}, true}, {Position{Offset: 1}, true},
		{Position{Producer: 2}, false}, {Position{Producer: -1}, false}, {Position{Attempt: 6, Block: -1}, false},
		{Position{Producer: 1, Attempt: 6}, false},
	} {
		cfg.From = c.from
		_, err := NewReader(cfg)
		if err == nil || errors.Is(err, ErrVoid) != c.void {
			t.Errorf("%+v: %v", c.from, err)
		}
	}
	for _, behind := range []Position{{Attempt: 6, Block: 1, Offset: 1}, {Attempt: 6, Offset: 11}, {Attempt: 6, Block: 2}} {
		cfg := w.readerConfig(w.here, 0, 1)
		cfg.From = behind
		_, err := w.reader(cfg).drain()
		wantLost(t, err, testName(0)) // the attempt is right, so the files are not
	}
	cfg = w.readerConfig(w.here, 0, 1)
	cfg.From = Position{Producer: 1}
	if have, err := w.reader(cfg).drain(); err != nil || len(have) != 1 {
		t.Errorf("behind the last one: %v, %v", have, err)
	}
}

// TestASharedResultIsWrittenOnce: a broadcast to any number of consumers.
func TestASharedResultIsWrittenOnce(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	cfg := w.writerConfig(0, 1)
	cfg.Shared = true
	w.writeBy(cfg, 100, 50)
	for _, c := range []int{0, 7, 30_000} {
		for _, x := range []*Exchange{w.here, w.there} {
			if have, err := w.reader(w.readerConfig(x, c, 1)).drain(); err != nil || !slices.Equal(have, testTexts(0, 100, 50)) {
				t.Errorf("consumer %d: %v, %s", c, err, difference(have, testTexts(0, 100, 50)))
			}
		}
	}
}

// TestAnExchangeThatStopsFailsItsReaders, those that wait and those that come later.
func TestAnExchangeThatStopsFailsItsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, vfs.NewMem(), "results", 64<<20)
		x, err := NewExchange(Config{Store: w.store, Memory: w.memory})
		if err != nil {
			t.Fatal(err)
		}
		cfg := w.readerConfig(w.here, 0, 1)
		cfg.Exchange, cfg.Producers[0].Stored = x, false
		early := w.reader(cfg) // before Run
		g := run.NewGroup(t.Context(), "test")
		g.Go("exchange", x.Run)
		synctest.Wait()
		if err := x.Run(t.Context()); err == nil {
			t.Error("an exchange runs twice")
		}
		r := w.reader(cfg)
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		for _, r := range []*reader{early, r, w.reader(cfg)} {
			if _, err := r.drain(); !errors.Is(err, errStopped) {
				t.Errorf("got %v", err)
			}
		}
	})
}

// TestReadersMadeBeforeRunAreServedByIt, and those that are closed before leave nothing.
func TestReadersMadeBeforeRunAreServedByIt(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	w.write(0, 1, 10, 10)
	x, err := NewExchange(Config{Store: w.store, Memory: w.memory})
	if err != nil {
		t.Fatal(err)
	}
	cfg := w.readerConfig(w.here, 0, 1)
	cfg.Exchange = x
	closed, r := w.reader(cfg), w.reader(cfg)
	closed.Close(nil)
	w.group.Go("late exchange", x.Run)
	if have, err := r.drain(); err != nil || len(have) != 11 {
		t.Errorf("%d inputs, %v", len(have), err)
	}
	r.Close(nil)
}

// TestConfigurationsAreCheckedWhole.
func TestConfigurationsAreCheckedWhole(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	if _, err := NewExchange(Config{ConnectTimeout: -1}); err == nil || !strings.Contains(err.Error(), "store") || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("exchange: %v", err)
	}
	for want, change := range map[string]func(*WriterConfig[rec]){
		"codec":                 func(c *WriterConfig[rec]) { c.Codec = nil },
		"job id":                func(c *WriterConfig[rec]) { c.Name.Job = "../x" },
		"0 consumers":           func(c *WriterConfig[rec]) { c.Consumers = 0 },
		"100000 consumers":      func(c *WriterConfig[rec]) { c.Consumers = 100_000 },
		"2 consumers":           func(c *WriterConfig[rec]) { c.Consumers, c.Shared = 2, true },
		"unknown compression 9": func(c *WriterConfig[rec]) { c.Compression = 9 },
	} {
		cfg := w.writerConfig(0, 1)
		change(&cfg)
		if _, err := NewWriter(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %q", err, want)
		}
	}
	for want, change := range map[string]func(*ReaderConfig[rec]){
		"notify":       func(c *ReaderConfig[rec]) { c.Notify = nil },
		"0 producers":  func(c *ReaderConfig[rec]) { c.Producers = nil },
		"attempt 0":    func(c *ReaderConfig[rec]) { c.Producers[0].Name.Attempt = 0 },
		"consumer -1 ": func(c *ReaderConfig[rec]) { c.Consumer = -1 },
	} {
		cfg := w.readerConfig(w.here, 0, 1)
		cfg.Notify = func() {}
		change(&cfg)
		if _, err := NewReader(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %q", err, want)
		}
	}
	cfg := w.readerConfig(w.here, 0, 1)
	cfg.Producers[0].Peer = &shuffle.Peer{Worker: "far", Address: "x"}
	var asked *AskedError
	if _, err := w.reader(cfg).drain(); !errors.As(err, &asked) {
		t.Errorf("a process that cannot dial: %v", err)
	}
}

func TestCompressionsHaveTheNamesOfTheSetting(t *testing.T) {
	for text, want := range map[string]Compression{"none": Uncompressed, "s2": S2, "zstd": Zstd} {
		if c, err := ParseCompression(text); err != nil || c != want || c.String() != text {
			t.Errorf("%s is %v, %v", text, c, err)
		}
	}
	if _, err := ParseCompression("gzip"); err == nil {
		t.Error("gzip is taken")
	}
}

// TestARunHasRoomWhateverItIsGiven: the division of the memory leaves chunks for every consumer.
func TestARunHasRoomWhateverItIsGiven(t *testing.T) {
	for _, consumers := range []int{1, 2, 100, 5000, partition.MaxConsumers} {
		for _, unit := range []int{4 << 10, 16 << 10, budget.MaxUnit} {
			buffers := writerUnits + (consumers+consumersPerUnit-1)/consumersPerUnit
			bytes := buffers*unit - outputBuffer - indexBuffer - 2*chunkBytes - consumers*outletBytes
			r := newRun(bytes, consumers)
			used := int(r.chunks)*(r.chunk+4) + r.most*segmentBytes
			if used > bytes || used < bytes-r.chunk-4 || int(r.chunks) < min(4, consumers) || r.chunk > chunkBytes {
				t.Errorf("%d consumers, %d bytes: %d chunks of %d, %d segments use %d", consumers, bytes, r.chunks, r.chunk, r.most, used)
			}
			if free := int(r.chunks) * r.chunk; free < chunkBytes+leastChunk {
				t.Errorf("%d consumers, %d bytes: no room for a block", consumers, bytes)
			}
		}
	}
}

// TestWhatAWriterLeftThatIsNoMoreIsRemoved: before and after it has published, and nothing of others.
func TestWhatAWriterLeftThatIsNoMoreIsRemoved(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	w.write(0, 1, 10, 10)
	running := w.writer(w.writerConfig(1, 1)) // its process dies
	other := w.writer(w.writerConfig(2, 1))
	if files := filesOf(t, w.fs, "results"); len(files) != 6 {
		t.Fatalf("there are %v", files)
	}
	if err := w.store.Abandon(testName(0), testName(1), testName(9)); err != nil {
		t.Fatal(err)
	}
	if files := filesOf(t, w.fs, "results"); len(files) != 2 || !strings.Contains(files[0], "-p2-") {
		t.Errorf("there are %v", files)
	}
	if err := running.Close(errors.New("it is dead")); err != nil {
		t.Error(err)
	}
	finish(t, other)
	bad := testName(1)
	bad.Job = "../x"
	if err := w.store.Abandon(bad); err == nil {
		t.Error("a name that is a path was taken")
	}
}
