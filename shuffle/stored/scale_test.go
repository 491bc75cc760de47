package stored

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

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// TestThousandsOfConsumersInBoundedMemory: a writer for 10,000 consumers with 20 MiB, whose heap stays near that, and
// any of them reads its share.
func TestThousandsOfConsumersInBoundedMemory(t *testing.T) {
	const consumers, perConsumer, memory = 10_000, 40, 20 << 20
	w, _ := realWorld(t)
	if err := w.memory.Reserve("what is in use elsewhere", 64<<20-memory); err != nil {
		t.Fatal(err)
	}
	defer w.memory.Release(64<<20 - memory)
	before := heap()
	x := w.writer(w.writerConfig(0, consumers))
	text := strings.Repeat("y", 80)
	most := int64(0)
	for i := range perConsumer * consumers {
		if err := x.Add(i*7919%consumers, rec{Key: int64(i), Text: text}, element.Time(i)); err != nil {
			t.Fatal(err)
		}
		if i%100_000 == 0 {
			if err := x.Broadcast(element.Event{Kind: element.Watermark, Time: element.Time(i)}); err != nil {
				t.Fatal(err)
			}
			most = max(most, heap()-before)
		}
	}
	finish(t, x)
	if most > memory {
		t.Errorf("the heap grew by %d bytes, reserved were %d at most", most, memory)
	}
	if runs := x.out.summary.Runs; runs < 3 {
		t.Errorf("only %d runs: the memory was never short", runs)
	}
	for _, c := range []int{0, 4711, consumers - 1} {
		r := w.reader(w.readerConfig(w.there, c, 1))
		have, err := r.drain()
		if err != nil {
			t.Fatal(err)
		}
		records := 0
		for _, s := range have {
			if !strings.Contains(s, "event") {
				records++
			}
		}
		if records != perConsumer {
			t.Errorf("consumer %d has %d records", c, records)
		}
		r.Close(nil)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestThousandsOfProducersInBoundedMemory: one reader has the memory of a few chunks, however many partitions it reads.
func TestThousandsOfProducersInBoundedMemory(t *testing.T) {
	const producers = 2000
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	for p := range producers {
		w.write(p, 1, 3, 50)
	}
	for _, x := range []*Exchange{w.here, w.there} {
		before, _ := w.memory.Usage()
		r := w.reader(w.readerConfig(x, 0, producers))
		reserved, _ := w.memory.Usage()
		if reserved-before > readerUnits*32<<10+connectionBytes {
			t.Errorf("%d bytes are reserved for a reader", reserved-before)
		}
		have, err := r.drain()
		if err != nil || len(have) != producers*4 {
			t.Errorf("%d inputs, %v", len(have), err)
		}
		r.Close(nil)
	}
}

// TestMemoryThatDoesNotSufficeIsSaidAtOnce: who needs how much, of how much, and what to do.
func TestMemoryThatDoesNotSufficeIsSaidAtOnce(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 300<<10)
	check := func(err error, who string) {
		t.Helper()
		var short *shuffle.MemoryError
		if !errors.As(err, &short) {
			t.Fatalf("got %v", err)
		}
		for _, part := range []string{"E085", who, "edge 5", fmt.Sprint(short.Need), "raise network.memory or lower the parallelism"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q lacks %q", err, part)
			}
		}
	}
	_, err := NewWriter(w.writerConfig(0, 5000))
	check(err, "5000 consumers")
	if files := filesOf(t, w.fs, "results"); len(files) > 0 {
		t.Errorf("%v was made", files)
	}
	cfg := w.readerConfig(w.here, 0, 700)
	cfg.Notify = func() {}
	_, err = NewReader(cfg)
	check(err, "700 producers")
}

// TestManyReadersAtOnceAndAgain: every consumer of three partitions, all at the same time, twice, over one connection.
func TestManyReadersAtOnceAndAgain(t *testing.T) {
	const producers, consumers = 3, 100
	w, _ := realWorld(t)
	var dials atomic.Int64
	dial := *w.dial.Load()
	w.dialBy(func(ctx context.Context) (net.Conn, error) {
		dials.Add(1)
		return dial(ctx)
	})
	for p := range producers {
		w.write(p, consumers, 200, 60)
	}
	var want [consumers]got
	for range 2 {
		var have [consumers]got
		g := run.NewGroup(t.Context(), "readers")
		for c := range consumers {
			r := w.reader(w.readerConfig(w.there, c, producers))
			g.Go("read", func(context.Context) (err error) {
				have[c], err = r.drain()
				r.Close(err)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		for c := range consumers {
			if len(have[c]) != producers*201 {
				t.Fatalf("consumer %d has %d inputs", c, len(have[c]))
			}
			if want[c] != nil && !slices.Equal(have[c], want[c]) {
				t.Errorf("consumer %d read something else the second time: %s", c, difference(have[c], want[c]))
			}
			want[c] = have[c]
		}
	}
	if dials.Load() != 1 {
		t.Errorf("%d connections", dials.Load())
	}
}

// TestReadersThatDoNotReadHoldUpNobody: more of them than the agent has buffers.
func TestReadersThatDoNotReadHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, vfs.NewMem(), "results", 512<<20)
		w.write(0, 1, 20_000, 100)
		cfg := w.readerConfig(w.there, 0, 1)
		for range servedChunks + 50 {
			w.reader(cfg)
		}
		synctest.Wait() // each has what it was granted, and takes nothing
		if have, err := w.reader(cfg).drain(); err != nil || len(have) != 20_001 {
			t.Errorf("%d inputs, %v", len(have), err)
		}
	})
}

// TestALargeRecordTakesABlockOfItsOwn: in order with the others, compressed or not, read here and there, and of those a
// reader holds one at a time, whatever is behind it.
func TestALargeRecordTakesABlockOfItsOwn(t *testing.T) {
	w, _ := realWorld(t)
	sizes := []int{10, 70_000, 3 << 20, 5, partition.MaxBlock - 100, partition.MaxBlock, 200_000, 1}
	for p := range 3 {
		cfg := w.writerConfig(p, 2)
		cfg.Compression = Compression(p)
		x := w.writer(cfg)
		for i, size := range sizes {
			if err := x.Broadcast(element.Event{Kind: element.Watermark, Time: element.Time(10 * i)}); err != nil {
				t.Fatal(err)
			}
			for to := range 2 {
				if err := x.Add(to, testRecord(p, i, size), element.Time(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		finish(t, x)
	}
	var want got
	for p := range 3 {
		for i, size := range sizes {
			want = append(want, eventText(p, element.Event{Kind: element.Watermark, Time: element.Time(10 * i)}), recordText(p, testRecord(p, i, size), element.Time(i)))
		}
		want = append(want, eventText(p, element.Event{Kind: element.End, Time: element.MaxTime}))
	}
	for _, x := range []*Exchange{w.here, w.there} {
		r := w.reader(w.readerConfig(x, 1, 3))
		have, err := r.drain()
		r.Close(nil)
		if err != nil || !slices.Equal(have, want) {
			t.Errorf("%v: %s", err, difference(have, want))
		}
	}
}

// blob is a record whose size costs nothing to make.
type blob struct{ Data []byte }

// TestARecordAbove64MiBIsRefusedWithItsPlace.
func TestARecordAbove64MiBIsRefusedWithItsPlace(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 512<<20)
	base := w.writerConfig(3, 1)
	x, err := NewWriter(WriterConfig[blob]{Ctx: base.Ctx, Exchange: w.here, Name: base.Name, Consumers: 1, Codec: codecOf[blob](t)})
	if err != nil {
		t.Fatal(err)
	}
	err = x.Add(0, blob{make([]byte, partition.MaxRecord+1)}, 0)
	var tooLarge *shuffle.RecordError
	if !errors.As(err, &tooLarge) || tooLarge.Edge != 5 || tooLarge.Producer != 3 || tooLarge.Size <= partition.MaxRecord {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"E129", "edge 5", "producer 3"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	if err := x.Close(err); err != nil {
		t.Error(err)
	}
}

// TestALargeRecordThatMemoryCannotHoldSaysSo: when it is written, and when it is read.
func TestALargeRecordThatMemoryCannotHoldSaysSo(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 8<<20)
	x := w.writer(w.writerConfig(0, 1))
	err := x.Add(0, testRecord(0, 0, 5<<20), 0)
	var short *shuffle.MemoryError
	if !errors.As(err, &short) || !strings.Contains(err.Error(), "a record of") {
		t.Fatalf("written: %v", err)
	}
	if err := x.Close(err); err != nil {
		t.Error(err)
	}
	rich := w.exchange(Config{Store: w.store, Memory: budget.New(64 << 20)})
	cfg := w.writerConfig(0, 1)
	cfg.Exchange = rich
	w.writeBy(cfg, 1, 7<<20)
	if err := w.memory.Reserve("others", 3<<20); err != nil {
		t.Fatal(err)
	}
	defer w.memory.Release(3 << 20)
	for _, x := range []*Exchange{w.here, w.there} {
		r := w.reader(w.readerConfig(x, 0, 1))
		if _, err := r.drain(); !errors.As(err, &short) || errors.Is(err, ErrLost) {
			t.Errorf("read: %v", err)
		}
		r.Close(nil)
	}
}
