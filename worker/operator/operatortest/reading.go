package operatortest

import (
	"context"
	"errors"
	"testing"

	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

// StopsReading checks that an operator that reads what it has spilled ends soon after its attempt has been told to stop,
// whatever it is doing then. area makes the operator's place on the disk, which calls onRead before each read. work builds the
// operator, fills it, ends its input and closes it; its error is that of the operator. After the stop at most the given number
// of reads may follow.
func StopsReading(t *testing.T, area func(onRead func()) *spill.Area, most int, work func(rt *task.Runtime) error) {
	t.Helper()
	try := func(stopAt int) (reads int, err error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		rt := task.NewRuntime(ctx, Name)
		rt.Batch = task.Batch{Memory: 64 << 10, Spill: area(func() {
			if reads++; reads == stopAt {
				cancel()
			}
		})}
		err = work(rt)
		return reads, err
	}
	all, err := try(0)
	if err != nil || all < 4*most {
		t.Fatalf("%d reads in all, error %v", all, err)
	}
	const moments = 16
	for i := range moments {
		at := all*i/moments + 1
		reads, err := try(at)
		if reads-at > most {
			t.Errorf("stopped at read %d of %d: %d more followed", at, all, reads-at)
		}
		if reads < all && !errors.Is(err, context.Canceled) {
			t.Errorf("stopped at read %d of %d: error %v", at, all, err)
		}
	}
}
