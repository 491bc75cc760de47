package flowtest

import (
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/sluiceio/sluice/bench/ratio"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/task"
)

var long = flag.Bool("long", false, "run what takes minutes: ten million keys")

// wide is a value of 100 bytes, of which an update changes eight.
type wide struct {
	N    int64
	Rest [92]byte
}

// updating changes one value per key in place.
type updating[V any] struct {
	value  flow.ValueState[V]
	update func(*V)
}

func (u *updating[V]) Open(s *flow.Setup[int64, int64]) error {
	u.value = s.Value[V]("value")
	return nil
}

func (u *updating[V]) Process(_ *flow.Ctx[int64, int64], _ int64) error {
	u.update(u.value.Ref())
	return nil
}

// TestSpeedUpdateByAProcessor protects what a record costs in a user's operator with keyed state, from the record to the value
// in place: key function, hash, state, checkpoints and a budget of memory, against a bare table.
func TestSpeedUpdateByAProcessor(t *testing.T) {
	sizes := []int{100_000, 1_000_000}
	if *long {
		sizes = append(sizes, 10_000_000)
	}
	if invariant.Enabled {
		sizes = []int{10_000} // for the race detector's sake: nothing is timed
	}
	for _, keys := range sizes {
		t.Run(fmt.Sprintf("keys=%d/16 bytes", keys), func(t *testing.T) {
			compareUpdates(t, keys, func(v *[2]int64) { v[0]++; v[1] += v[0] })
		})
		t.Run(fmt.Sprintf("keys=%d/100 bytes", keys), func(t *testing.T) {
			compareUpdates(t, keys, func(v *wide) { v.N++ })
		})
	}
}

func mix(k int64) uint64 { return codec.Mix(uint64(k)) }

func draw(x *uint64) uint64 {
	*x = *x*6364136223846793005 + 1442695040888963407
	return *x >> 20
}

// batch is how many records the loop hands over at once: several times what an operator looks at ahead.
const batch = 512

func compareUpdates[V any](t *testing.T, keys int, update func(*V)) {
	plain := ratio.NewTable[V](mix)
	rt := task.NewRuntime(t.Context(), operatortest.Name)
	rt.State = operatortest.Memory(t, 1<<40)
	stage := keyedStage(func(k int64) int64 { return k }, func() *updating[V] { return &updating[V]{update: update} }, process.Options{})
	push, op, err := stage(rt, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(op.Close(), rt.CloseTables()); err != nil {
			t.Error(err)
		}
	}()
	for k := range int64(keys) {
		update(plain.At(k, mix(k)))
		push(k)
	}
	x, y := uint64(1), uint64(1)
	baseline := func(n int) {
		for range n {
			k := int64(draw(&x) % uint64(keys))
			update(plain.At(k, mix(k)))
		}
	}
	ahead, look := task.AheadOf[int64](rt, 0) // as the input of a chain does
	records := make([]int64, ahead)
	subject := func(n int) {
		for at := 0; at < n; at += ahead {
			if at%batch == 0 {
				if err := rt.Maintain(); err != nil {
					t.Fatal(err)
				}
			}
			next := records[:min(ahead, n-at)]
			for i := range next {
				next[i] = int64(draw(&y) % uint64(keys))
			}
			look(next)
			for _, k := range next {
				push(k)
			}
		}
	}
	if !invariant.Enabled {
		if n := testing.AllocsPerRun(10, func() { subject(10_000) }); n > 0 {
			t.Errorf("%v allocations in 10,000 updates", n)
		}
	}
	limit := mostOfATable
	if *long {
		limit = goal
	}
	ratio.AtMost(t, limit, ratio.CPU, baseline, subject)
}

// mostOfATable catches a factor, not noise: with -long, on a machine that has nothing else to do, the goal is asserted.
const (
	mostOfATable = 4.0
	goal         = 2.0
)
