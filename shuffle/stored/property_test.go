package stored

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
)

// script is what a producer does, and what each consumer has to see of it.
type script struct {
	want [][]string // by consumer
	told []mark     // by consumer
	now  mark
}

func newScript(consumers int) *script {
	s := &script{want: make([][]string, consumers), told: make([]mark, consumers), now: mark{at: element.MinTime}}
	for i := range s.told {
		s.told[i] = s.now
	}
	return s
}

// add is a record for one consumer: what it has not been told of event time comes first.
func (s *script) add(producer, to int, v rec, at element.Time) {
	told, now := s.told[to], s.now
	if told.at != now.at || told.idle && !now.idle {
		s.want[to] = append(s.want[to], eventText(producer, element.Event{Kind: element.Watermark, Time: now.at}))
		told.idle = false
	}
	if now.idle && !told.idle {
		s.want[to] = append(s.want[to], eventText(producer, element.Event{Kind: element.Idle}))
	}
	s.told[to] = now
	s.want[to] = append(s.want[to], recordText(producer, v, at))
}

func (s *script) event(ev element.Event) {
	if ev.Kind == element.Watermark {
		s.now = mark{at: ev.Time}
	} else {
		s.now.idle = true
	}
}

// play performs a random script through a writer.
func play(rt *rapid.T, w *world, cfg WriterConfig[rec]) *script {
	consumers := int(cfg.Consumers)
	s := newScript(consumers)
	x, err := NewWriter(cfg)
	if err != nil {
		rt.Fatal(err)
	}
	bulk := rapid.IntRange(0, 3).Draw(rt, "bulk")
	size := rapid.SampledFrom([]int{0, 10, 100, 700, 5000, 40_000, 70_000}).Draw(rt, "size")
	steps := rapid.IntRange(0, 150).Draw(rt, "steps")
	key := 0
	for range steps {
		switch rapid.IntRange(0, 9).Draw(rt, "what") {
		case 0:
			ev := element.Event{Kind: element.Watermark, Time: element.Time(rapid.Int64Range(-1e6, 1e6).Draw(rt, "time"))}
			s.event(ev)
			err = x.Broadcast(ev)
		case 1:
			s.event(element.Event{Kind: element.Idle})
			err = x.Broadcast(element.Event{Kind: element.Idle})
		case 2: // skewed: a run of small records for one consumer
			to := rapid.IntRange(0, consumers-1).Draw(rt, "to")
			for range 400 * bulk {
				v := testRecord(int(cfg.Name.Producer), key, 20)
				at := element.Time(key)
				s.add(int(cfg.Name.Producer), to, v, at)
				if err = x.Add(to, v, at); err != nil {
					rt.Fatal(err)
				}
				key++
			}
		default:
			to := rapid.IntRange(0, consumers-1).Draw(rt, "to")
			v := testRecord(int(cfg.Name.Producer), key, rapid.IntRange(0, size).Draw(rt, "bytes"))
			at := element.Time(rapid.Int64().Draw(rt, "at"))
			s.add(int(cfg.Name.Producer), to, v, at)
			err = x.Add(to, v, at)
			key++
		}
		if err != nil {
			rt.Fatal(err)
		}
	}
	end := element.Event{Kind: element.End, Time: element.Time(rapid.Int64().Draw(rt, "end"))}
	if err := x.Broadcast(end); err != nil {
		rt.Fatal(err)
	}
	if err := x.Close(nil); err != nil {
		rt.Fatal(err)
	}
	for i := range s.want {
		s.want[i] = append(s.want[i], eventText(int(cfg.Name.Producer), end))
	}
	return s
}

// TestAnyReaderGetsWhatWasWrittenInOrder: whatever is written, however small the memory, each consumer reads exactly its
// records, with what its channel said of event time between them, here and on another worker, from the beginning and
// from every position.
func TestAnyReaderGetsWhatWasWrittenInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		memory := rapid.SampledFrom([]int64{5 << 20, 9 << 20, 64 << 20}).Draw(rt, "memory")
		w := newWorld(t, vfs.NewMem(), "results", memory)
		defer func() { w.group.Stop(); _ = w.group.Wait() }()
		consumers := rapid.SampledFrom([]int{1, 2, 3, 17, 300}).Draw(rt, "consumers")
		producers := rapid.IntRange(1, 6).Draw(rt, "producers")
		compression := Compression(rapid.IntRange(0, 2).Draw(rt, "compression"))
		first := rapid.Int32Range(0, 5).Draw(rt, "first")
		want := make([]got, consumers)
		for p := range producers {
			cfg := w.writerConfig(p, consumers)
			cfg.Compression, cfg.First = compression, first
			s := play(rt, w, cfg)
			for c := range want {
				want[c] = append(want[c], s.want[c]...)
			}
		}
		exchange := w.here
		if rapid.Bool().Draw(rt, "remote") {
			exchange = w.there
		}
		c := rapid.IntRange(0, consumers-1).Draw(rt, "consumer")
		cfg := w.readerConfig(exchange, c+int(first), producers)
		readFromEverywhere(rt, w, cfg, want[c])
	})
}

// readFromEverywhere reads all, noting positions, and again from some of them.
func readFromEverywhere(rt *rapid.T, w *world, cfg ReaderConfig[rec], want got) {
	type note struct {
		at   Position
		left int // inputs texts before it
	}
	var notes []note
	var all got
	r := w.reader(cfg)
	for left := len(cfg.Producers); left > 0; {
		notes = append(notes, note{r.Position(0), len(all)})
		in, err := r.next()
		if err != nil {
			rt.Fatal(err)
		}
		if in.Batch == nil {
			all = append(all, eventText(in.Channel, in.Event))
			if in.Event.Kind == element.End {
				left--
			}
			continue
		}
		n := in.Batch.Len()
		for i, v := range in.Batch.Vals {
			all = append(all, recordText(in.Channel, v, in.Batch.Times[i]))
			if i == n/2 {
				notes = append(notes, note{r.Position(n - i - 1), len(all)})
			}
		}
		r.Release(in)
	}
	notes = append(notes, note{r.Position(0), len(all)})
	r.Close(nil)
	if !slices.Equal(all, want) {
		rt.Fatalf("read %d, want %d: %s", len(all), len(want), difference(all, want))
	}
	for range 3 {
		n := notes[rapid.IntRange(0, len(notes)-1).Draw(rt, "position")]
		cfg.From = n.at
		r := w.reader(cfg)
		rest, err := r.drain()
		r.Close(nil)
		if err != nil {
			rt.Fatalf("from %+v: %v", n.at, err)
		}
		checkRest(rt, n.at, rest, want[n.left:], all[:n.left])
	}
}

// checkRest: the ends of producers that were read come first; events directly before the position may come again.
func checkRest(rt *rapid.T, at Position, rest, want, before got) {
	for p := range at.Producer {
		if rest[p] != eventText(p, element.Event{Kind: element.End, Time: element.MaxTime}) {
			rt.Fatalf("from %+v: %s, want the end of producer %d", at, rest[p], p)
		}
	}
	rest = rest[at.Producer:]
	repeated := len(rest) - len(want)
	if repeated < 0 || repeated > len(before) || repeated > 2 || !slices.Equal(rest[:repeated], before[len(before)-repeated:]) || !slices.Equal(rest[repeated:], want) {
		rt.Fatalf("from %+v: %s", at, difference(rest, want))
	}
	for _, again := range rest[:repeated] {
		var p, kind, time int
		if _, err := fmt.Sscanf(again, "%d: event %d time %d", &p, &kind, &time); err != nil || kind == int(element.End) {
			rt.Fatalf("from %+v: %s came again", at, again)
		}
	}
}

func difference(have, want got) string {
	for i := range max(len(have), len(want)) {
		if i >= len(have) || i >= len(want) || have[i] != want[i] {
			return fmt.Sprintf("at %d: have %q, want %q", i, at(have, i), at(want, i))
		}
	}
	return "none"
}

func at(g got, i int) []string { return g[min(i, len(g)):min(i+3, len(g))] }
