package ahead

import (
	"slices"
	"testing"

	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// input is one whose keys are the records, and whose key function panics at record bad.
type input struct {
	keyed func(int) (int, uint64)
	look  func([]int)
	calls []int // of the key function
	taken int   // calls of prefetch
}

func newInput(t *testing.T, bad int) *input {
	x := &input{}
	rt := task.NewRuntime(t.Context(), "op")
	x.keyed = Keys(rt, func(v int) int {
		x.calls = append(x.calls, v)
		if v == bad {
			panic("bad")
		}
		return -v
	}, func(k int) uint64 { return uint64(100 - k) }, func(*state.Ahead[int]) { x.taken++ })
	most, look := task.AheadOf[int](rt, 0)
	if x.look = look; most != state.AheadKeys {
		t.Fatalf("looks %d records ahead", most)
	}
	return x
}

func (x *input) expect(t *testing.T, records ...int) {
	t.Helper()
	for _, v := range records {
		if k, h := x.keyed(v); k != -v || h != uint64(100+v) {
			t.Errorf("record %d: key %d, hash %d", v, k, h)
		}
	}
}

func TestKeysAreTakenOnceAndInOrder(t *testing.T) {
	x := newInput(t, 0)
	x.expect(t, 1, 2)
	x.look([]int{3, 4, 5})
	x.expect(t, 3, 4, 5, 6)
	if want := []int{1, 2, 3, 4, 5, 6}; !slices.Equal(x.calls, want) || x.taken != 1 {
		t.Errorf("key function called for %v, prefetch %d times", x.calls, x.taken)
	}
}

func TestAPanicOfAKeyFunctionBelongsToItsRecord(t *testing.T) {
	x := newInput(t, 5)
	x.look([]int{3, 4, 5, 6})
	x.expect(t, 3, 4)
	func() {
		defer func() {
			if v := recover(); v != "bad" {
				t.Errorf("panics with %v", v)
			}
		}()
		x.keyed(5)
	}()
	x.expect(t, 6)
}

// What an attempt did not come to is forgotten with the next batch.
func TestKeysThatWereNotTakenAreForgotten(t *testing.T) {
	x := newInput(t, 0)
	x.look([]int{3, 4, 5})
	x.expect(t, 3)
	x.look([]int{7})
	x.expect(t, 7, 8)
}
