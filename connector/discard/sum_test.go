package discard

import (
	"sync/atomic"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

func TestSumsAreOfWhatWasWritten(t *testing.T) {
	var total Total
	var newest atomic.Int64
	square := func() func(int) uint64 { return func(v int) uint64 { return uint64(v * v) } }
	for _, sink := range []connector.Sink[int]{Sum(&total, square), SumSeen(&total, square, func(at element.Time) { newest.Store(int64(at)) })} {
		w, err := sink.OpenWriter(t.Context(), &connector.Task{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for v := range 4 {
			if err := w.Write(t.Context(), v, element.Time(10*v)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // a flush counts once
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if total.Rows.Load() != 8 || total.Sum.Load() != 28 || newest.Load() != 30 {
		t.Error(total.Rows.Load(), total.Sum.Load(), newest.Load())
	}
}
