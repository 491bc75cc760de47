package async_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/async"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/task"
)

// rig drives the operator as the loop of a subtask does.
type rig struct {
	t    *testing.T
	rt   *task.Runtime
	op   task.Operator
	push task.Push[int]
	out  []string
}

func newRig(ctx context.Context, t *testing.T, spec async.Spec[int, string]) *rig {
	r := &rig{t: t, rt: task.NewRuntime(ctx, "calls")}
	r.rt.State.Checkpoints = true
	r.rt.OnPass(func(ev element.Event) error {
		r.out = append(r.out, fmt.Sprint("event ", ev.Kind, " ", int64(ev.Time)))
		return nil
	})
	if spec.InFlight == 0 {
		spec.InFlight = async.DefaultInFlight
	}
	if spec.Timeout == 0 {
		spec.Timeout = async.DefaultTimeout
	}
	var err error
	r.push, r.op, err = spec.Stage()(r.rt, func(s string) { r.out = append(r.out, fmt.Sprint(s, "@", int64(r.rt.At))) })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) record(v int) {
	r.t.Helper()
	r.rt.At = element.Time(v)
	r.push(v)
	if r.rt.At != element.Time(v) {
		r.t.Fatalf("the operator left the time at %v", r.rt.At)
	}
}

func (r *rig) watermark(t int) {
	r.t.Helper()
	if err := r.op.(task.Relay).OnEvent(element.Event{Kind: element.Watermark, Time: element.Time(t)}); err != nil {
		r.t.Fatal(err)
	}
}

// settle lets the calls come to rest, and the loop see it.
func (r *rig) settle() {
	synctest.Wait()
	r.rt.Fail(r.op.(task.Listener).OnNotify())
	synctest.Wait()
}

// pass lets time go by. The loop looks at what is due whenever it is.
func (r *rig) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(time.Millisecond) // the bubble's time
		r.settle()
		if err := r.op.(task.Waker).OnTime(time.Now()); err != nil {
			r.rt.Fail(err)
			return
		}
	}
}

func (r *rig) end() {
	r.t.Helper()
	if err := r.op.OnWatermark(element.MaxTime); err != nil {
		r.t.Fatal(err)
	}
	if err := r.op.Finish(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) close() {
	if err := r.op.Close(); err != nil {
		r.t.Errorf("close: %v", err)
	}
}

func (r *rig) want(lines ...string) {
	r.t.Helper()
	if !slices.Equal(r.out, lines) {
		r.t.Fatalf("emitted %q, want %q", r.out, lines)
	}
	r.out = nil
}

// slowly answers after as many milliseconds as the record says.
func slowly(ctx context.Context, v int) (string, error) {
	t := time.NewTimer(time.Duration(v) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return fmt.Sprint("r", v), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func TestOrderedResultsComeInTheOrderOfRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t.Context(), t, async.Spec[int, string]{Call: slowly})
		defer r.close()
		r.record(30)
		r.record(10)
		r.watermark(10)
		r.watermark(11) // replaces the one before: nothing is between them
		r.record(20)
		r.pass(25 * time.Millisecond)
		r.want()
		r.pass(10 * time.Millisecond)
		r.want("r30@30", "r10@10", "event 1 11", "r20@20")
		r.watermark(12) // nothing is in front of it
		r.want("event 1 12")
	})
}

func TestUnorderedResultsDoNotPassAWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t.Context(), t, async.Spec[int, string]{Call: slowly, Unordered: true})
		defer r.close()
		r.record(30)
		r.record(10)
		r.watermark(10)
		r.record(20)
		r.record(5)
		r.pass(25 * time.Millisecond)
		r.want("r10@10")
		r.pass(10 * time.Millisecond)
		r.want("r30@30", "event 1 10", "r20@20", "r5@5")
	})
}

// An idle input takes nothing back of what it has promised.
func TestIdlenessDoesNotReplaceTheWatermarkInFrontOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t.Context(), t, async.Spec[int, string]{Call: slowly})
		defer r.close()
		idle := func() {
			if err := r.op.(task.Relay).OnEvent(element.Event{Kind: element.Idle}); err != nil {
				t.Fatal(err)
			}
		}
		r.record(10)
		r.watermark(10)
		idle()
		idle()
		r.pass(15 * time.Millisecond)
		r.want("r10@10", "event 1 10", "event 2 0")
		r.record(20)
		idle()
		r.watermark(20)
		r.pass(25 * time.Millisecond)
		r.want("r20@20", "event 1 20")
	})
}

// TestResultsAreThoseOfAPlainLoop compares random programs with what calling one record after the other would give: exactly
// when ordered, as sets between watermarks when not; also with a snapshot and a restore in the middle.
func TestResultsAreThoseOfAPlainLoop(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// > 0: a record; < 0: time passes; 0: a watermark
		steps := rapid.SliceOfN(rapid.IntRange(-20, 60), 0, 30).Draw(rt, "steps")
		spec := async.Spec[int, string]{Call: slowly, InFlight: rapid.IntRange(1, 8).Draw(rt, "in flight"), Unordered: rapid.Bool().Draw(rt, "unordered")}
		restart := rapid.IntRange(-1, len(steps)-1).Draw(rt, "restart")
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t.Context(), t, spec)
			var want []string
			for i, s := range steps {
				switch {
				case s > 0:
					r.record(s)
					want = append(want, fmt.Sprint("r", s, "@", s))
				case s == 0:
					r.watermark(i)
					want = append(want, fmt.Sprint("event 1 ", i))
				default:
					r.pass(time.Duration(-s) * time.Millisecond)
				}
				if i == restart {
					out := r.out
					r.out = nil
					next := newRig(t.Context(), t, spec)
					operatortest.Move(t, operatortest.End{Runtime: r.rt, Operator: r.op}, operatortest.End{Runtime: next.rt, Operator: next.op})
					r.close()
					r = next
					r.out = out
				}
			}
			r.end()
			r.close()
			got := r.out
			if restart >= 0 { // a watermark that was held back is the engine's to say again
				got, want = records(got), records(want)
			}
			if spec.Unordered {
				got, want = sortedBetween(got), sortedBetween(want)
			} else if restart < 0 {
				got, want = collapse(got), collapse(want)
			}
			if restart >= 0 && spec.Unordered {
				slices.Sort(got)
				slices.Sort(want)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("emitted %q, want %q", got, want)
			}
		})
	})
}

func isEvent(s string) bool { return strings.HasPrefix(s, "event") }

func records(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), isEvent)
}

// collapse keeps the last of events that follow each other.
func collapse(lines []string) (out []string) {
	for _, l := range lines {
		if n := len(out); n > 0 && isEvent(l) && isEvent(out[n-1]) {
			out = out[:n-1]
		}
		out = append(out, l)
	}
	return out
}

// sortedBetween sorts what is between events.
func sortedBetween(lines []string) []string {
	out := collapse(lines)
	from := 0
	for i := 0; i <= len(out); i++ {
		if i == len(out) || isEvent(out[i]) {
			slices.Sort(out[from:i])
			from = i + 1
		}
	}
	return out
}

func TestCallsAreBoundedAndTheRestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most := 0, 0
		gate := make(chan struct{}, 1)
		gate <- struct{}{}
		r := newRig(t.Context(), t, async.Spec[int, string]{InFlight: 2, Call: func(ctx context.Context, v int) (string, error) {
			<-gate
			running++
			most = max(most, running)
			gate <- struct{}{}
			s, err := slowly(ctx, v)
			<-gate
			running--
			gate <- struct{}{}
			return s, err
		}})
		defer r.close()
		for v := range 20 {
			r.record(v + 1) // waits inside
		}
		if room := r.op.(task.Limiter).Room(); room > 1 {
			t.Errorf("room for %d while calls are under way", room)
		}
		r.end()
		if len(r.out) != 20 || most != 2 {
			t.Errorf("%d results, %d calls at a time", len(r.out), most)
		}
	})
}

func TestFailedCallsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := map[int]int{}
		broken := errors.New("not now")
		spec := async.Spec[int, string]{OnError: task.ErrorPolicy{Retries: 2, Backoff: 10 * time.Millisecond}, InFlight: 1, Call: func(_ context.Context, v int) (string, error) {
			if tries[v]++; tries[v] <= v {
				return "", broken
			}
			return fmt.Sprint("r", v), nil
		}}
		r := newRig(t.Context(), t, spec)
		defer r.close()
		start := time.Now()
		r.record(2)
		r.pass(40 * time.Millisecond)
		r.want("r2@2")
		r.record(3)
		r.pass(40 * time.Millisecond)
		if err := r.rt.Err(); !errors.Is(err, broken) || !strings.Contains(err.Error(), "try 3 of 3") {
			t.Errorf("after %v: error %v", time.Since(start), err)
		}
	})
}

func TestAFatalErrorIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		r := newRig(t.Context(), t, async.Spec[int, string]{OnError: task.ErrorPolicy{Retries: 5, Backoff: time.Millisecond}, Call: func(context.Context, int) (string, error) {
			tries++
			return "", connector.Fatal(errors.New("gone for good"))
		}})
		defer r.close()
		r.record(1)
		r.pass(20 * time.Millisecond)
		if r.rt.Err() == nil || tries != 1 {
			t.Errorf("tried %d times, error %v", tries, r.rt.Err())
		}
	})
}

func TestAPanicHasItsStackAndIsNoEndOfTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t.Context(), t, async.Spec[int, string]{Call: func(context.Context, int) (string, error) { panic("oh") }})
		defer r.close()
		r.record(1)
		r.pass(2 * time.Millisecond)
		if err := r.rt.Err(); err == nil || !strings.Contains(err.Error(), "E051 calls: panic: oh") {
			t.Errorf("error %v", err)
		}
	})
}

func TestACallThatIgnoresItsTimeKeepsItsPlaceUntilItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		spec := async.Spec[int, string]{
			InFlight: 2, Timeout: 10 * time.Millisecond,
			Call: func(ctx context.Context, v int) (string, error) {
				if v == 1 {
					<-release
					return "too late", nil
				}
				return slowly(ctx, v)
			},
			OnError: task.ErrorPolicy{Action: task.SkipOnError},
		}
		r := newRig(t.Context(), t, spec)
		defer r.close()
		r.record(1)
		r.record(3)
		r.pass(12 * time.Millisecond)
		r.want("r3@3")
		if room, skipped := r.op.(task.Limiter).Room(), r.rt.Totals().Skipped; skipped != 1 || room != 1 {
			t.Errorf("given up %d, room for %d", skipped, room)
		}
		close(release)
		r.pass(2 * time.Millisecond)
		r.want() // the answer comes when nobody waits for it
		if room := r.op.(task.Limiter).Room(); room != 2 {
			t.Errorf("room for %d after the call has returned", room)
		}
	})
}

func TestCallsThatNeverReturnFailTheAttemptInsteadOfStallingIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		spec := async.Spec[int, string]{
			InFlight: 2, Timeout: 10 * time.Millisecond,
			Call:    func(context.Context, int) (string, error) { <-release; return "", nil },
			OnError: task.ErrorPolicy{Action: task.SkipOnError},
		}
		r := newRig(t.Context(), t, spec)
		defer r.close()
		defer close(release)
		r.record(1)
		r.record(2)
		r.pass(40 * time.Millisecond)
		if err := r.rt.Err(); err == nil || !strings.Contains(err.Error(), "watch its context") {
			t.Errorf("error %v", err)
		}
	})
}

func TestAnAttemptThatStopsWaitsForItsCallsAndDropsTheirResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		returned := 0
		r := newRig(ctx, t, async.Spec[int, string]{InFlight: 1, Call: func(ctx context.Context, v int) (string, error) {
			<-ctx.Done()
			<-time.After(time.Second) // it takes its time to notice
			returned++
			return "late", nil
		}})
		r.record(1)
		cancel()
		r.record(2) // finds no room, and is told to stop
		r.close()
		if returned != 1 || len(r.out) != 0 {
			t.Errorf("%d calls returned, emitted %q", returned, r.out)
		}
		if err := r.rt.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}
