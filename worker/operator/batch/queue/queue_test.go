package queue

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

type rec struct {
	N    int64
	Text string
}

func newQueue(t testing.TB, memory int64) (*Queue[rec], *batch.Memory, *task.Runtime) {
	rt := task.NewRuntime(t.Context(), "queue")
	area, err := spill.NewArea(spill.Config{FS: vfs.NewMem(), Dir: "spill"})
	if err != nil {
		t.Fatal(err)
	}
	rt.Batch = task.Batch{Memory: memory, Spill: area}
	m, err := batch.Open(rt)
	if err != nil {
		t.Fatal(err)
	}
	c, err := codec.Of[rec](nil)
	if err != nil {
		t.Fatal(err)
	}
	return New(m, c, spill.SizerOf(c)), m, rt
}

func TestAQueueKeepsOrderAndTimesInAnyMemory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		memory := rapid.SampledFrom([]int64{0, batch.MinMemory}).Draw(rt, "memory")
		q, m, task := newQueue(t, memory)
		n := rapid.SampledFrom([]int{0, 1, 100, 2000}).Draw(rt, "records")
		text := strings.Repeat("x", rapid.SampledFrom([]int{0, 20, 300, 100_000 / max(n, 10)}).Draw(rt, "text"))
		spillAt := rapid.IntRange(-1, n).Draw(rt, "spill at")
		for i := range n {
			if i == spillAt && memory > 0 {
				if err := q.Spill(); err != nil || q.Held() != 0 {
					rt.Fatalf("%v, %d bytes are held", err, q.Held())
				}
			}
			if err := q.Add(rec{int64(i), text}, element.Time(i*2)); err != nil {
				rt.Fatal(err)
			}
		}
		var got []int64
		if err := q.Drain(func(v rec, at element.Time) error {
			if at != element.Time(v.N*2) || v.Text != text {
				rt.Fatalf("record %d came at %v", v.N, at)
			}
			got = append(got, v.N)
			return nil
		}); err != nil {
			rt.Fatal(err)
		}
		if len(got) != n || !slices.IsSorted(got) {
			rt.Fatalf("%d records of %d", len(got), n)
		}
		if memory > 0 && m.Peak() > memory+int64(len(text)) {
			rt.Fatalf("%d bytes were taken of %d", m.Peak(), memory)
		}
		if task.Batch.Spill.Totals().Files != 0 {
			rt.Fatal("the file is still open")
		}
		if err := m.Close(); err != nil || m.Used() != 0 {
			rt.Fatalf("%v, %d bytes are taken after Close", err, m.Used())
		}
	})
}

func TestAQueueWithoutLimitIsNotSpilled(t *testing.T) {
	q, _, _ := newQueue(t, 0)
	if err := q.Spill(); err == nil {
		t.Error("spilled although nothing is short")
	}
}

func TestDrainingStopsAtAnError(t *testing.T) {
	broken := errors.New("broken")
	for _, spilled := range []bool{false, true} {
		q, m, _ := newQueue(t, batch.MinMemory)
		for i := range int64(10) {
			if err := q.Add(rec{N: i}, 0); err != nil {
				t.Fatal(err)
			}
		}
		if spilled {
			if err := q.Spill(); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		err := q.Drain(func(rec, element.Time) error {
			n++
			return broken
		})
		if n != 1 || !errors.Is(err, broken) {
			t.Errorf("%d records were handed over, error %v", n, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
