package gather_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/gather"
	"github.com/sluiceio/sluice/worker/task"
)

func TestBatchesAreFullOrTheirTimeIsOver(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(rt, "max")
		steps := rapid.SliceOfN(rapid.IntRange(-12, 30), 0, 40).Draw(rt, "steps") // > 0: a record; < 0: time passes; 0: a watermark
		synctest.Test(t, func(t *testing.T) {
			run := task.NewRuntime(t.Context(), "batch")
			var got, want []string
			run.OnPass(func(ev element.Event) error { got = append(got, fmt.Sprint("watermark ", int64(ev.Time))); return nil })
			push, op, err := gather.Spec[int]{Max: size, Linger: 10 * time.Millisecond}.Stage()(run, func(b []int) {
				got = append(got, fmt.Sprint(b, "@", int64(run.At)))
			})
			if err != nil {
				t.Fatal(err)
			}
			// the model
			var batch []int
			var since time.Time
			behind := ""
			hand := func() {
				if len(batch) > 0 {
					want = append(want, fmt.Sprint(batch, "@", slices.Max(batch)))
					if batch = nil; behind != "" {
						want = append(want, behind)
						behind = ""
					}
				}
			}
			for i, s := range steps {
				switch {
				case s > 0:
					if run.At = element.Time(s); len(batch) == 0 {
						since = time.Now()
					}
					push(s)
					if batch = append(batch, s); len(batch) == size {
						hand()
					}
				case s == 0:
					if err := op.(task.Relay).OnEvent(element.Event{Kind: element.Watermark, Time: element.Time(i)}); err != nil {
						t.Fatal(err)
					}
					if mark := fmt.Sprint("watermark ", i); len(batch) > 0 {
						behind = mark
					} else {
						want = append(want, mark)
					}
				default:
					<-time.After(time.Duration(-s) * time.Millisecond) // the bubble's time
					if due := run.Wake(); !due.IsZero() && !due.After(time.Now()) {
						if err := op.(task.Waker).OnTime(time.Now()); err != nil {
							t.Fatal(err)
						}
					}
					if len(batch) > 0 && time.Since(since) >= 10*time.Millisecond {
						hand()
					}
				}
			}
			if err := op.OnWatermark(element.MaxTime); err != nil {
				t.Fatal(err)
			}
			hand()
			if !slices.Equal(got, want) {
				t.Fatalf("emitted %q, want %q", got, want)
			}
		})
	})
}

func TestABatchIsState(t *testing.T) {
	run := task.NewRuntime(t.Context(), "batch")
	run.State.Checkpoints = true
	var got [][]int
	push, op, err := gather.Spec[int]{Max: 3, Linger: time.Hour}.Stage()(run, func(b []int) { got = append(got, b) })
	if err != nil {
		t.Fatal(err)
	}
	push(1)
	push(2)
	if err := op.OnBarrier(1); err != nil {
		t.Fatal(err)
	}
	snap, err := run.Tables()[0].Freeze(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snap.Step(100); err != nil {
		t.Fatal(err)
	}
	if p, ok := snap.Take(); !ok || p == nil {
		t.Error("the batch is not in the snapshot")
	}
	// what OnRestored finds is what OnBarrier has left
	fresh := op.(task.Restorer)
	if err := fresh.OnRestored(); err != nil || len(got) != 1 || !slices.Equal(got[0], []int{1, 2, 1}) {
		t.Errorf("emitted %v, %v", got, err)
	}
}

// An idle input takes nothing back of what it has promised.
func TestIdlenessDoesNotReplaceTheWatermarkInFrontOfIt(t *testing.T) {
	run := task.NewRuntime(t.Context(), "batch")
	var got []string
	run.OnPass(func(ev element.Event) error { got = append(got, fmt.Sprint(ev.Kind, int64(ev.Time))); return nil })
	push, op, err := gather.Spec[int]{Max: 2, Linger: time.Hour}.Stage()(run, func(b []int) { got = append(got, fmt.Sprint(b)) })
	if err != nil {
		t.Fatal(err)
	}
	tell := func(ev element.Event) {
		if err := op.(task.Relay).OnEvent(ev); err != nil {
			t.Fatal(err)
		}
	}
	push(1)
	tell(element.Event{Kind: element.Watermark, Time: 5})
	tell(element.Event{Kind: element.Idle})
	push(2)
	push(3)
	tell(element.Event{Kind: element.Idle})
	tell(element.Event{Kind: element.Watermark, Time: 6})
	push(4)
	if want := []string{"[1 2]", "1 5", "2 0", "[3 4]", "1 6"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
