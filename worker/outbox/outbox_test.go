package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/controlpb"
)

func report(job string) *controlpb.Report {
	return &controlpb.Report{Job: job, Fact: &controlpb.Report_Exit{Exit: &controlpb.ProcessExit{}}}
}

// Whatever is added and acknowledged in whatever order: numbers have no gap, nothing unacknowledged is ever missing,
// nothing acknowledged comes back, and a session that starts anywhere gets the rest in order.
func TestOutboxLosesNothingAndRepeatsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := New(1 << 20)
		var last, acked, sent uint64
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n, err := add(context.Background(), o, report("j"))
				if err != nil || n != last+1 {
					t.Fatalf("added as %d after %d: %v", n, last, err)
				}
				last = n
			},
			"ack": func(t *rapid.T) {
				n := rapid.Uint64Range(0, last).Draw(t, "sequence")
				o.Ack(n)
				acked = max(acked, n)
			},
			"send": func(*rapid.T) {
				reports, _ := o.After(sent)
				for _, r := range reports {
					if r.Sequence <= sent {
						t.Fatalf("%d sent after %d", r.Sequence, sent)
					}
					sent = r.Sequence
				}
			},
			"new session": func(*rapid.T) { sent = 0 },
			"": func(t *rapid.T) {
				if n := o.Pending(); uint64(n) != last-acked {
					t.Fatalf("%d pending of %d, %d acknowledged", n, last, acked)
				}
				reports, _ := o.After(0)
				for i, r := range reports {
					if r.Sequence != acked+1+uint64(i) {
						t.Fatalf("report %d has number %d, %d are acknowledged", i, r.Sequence, acked)
					}
				}
			},
		})
	})
}

func TestAFullOutboxMakesItsReportersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := proto.Size(report("job"))
		o := New(2 * size)
		for range 2 {
			if _, err := add(t.Context(), o, report("job")); err != nil {
				t.Fatal(err)
			}
		}
		if o.Offer(report("job")) {
			t.Error("a full outbox took one more")
		}
		added := make(chan uint64, 1)
		g := run.NewGroup(t.Context(), "test")
		g.Go("add", func(ctx context.Context) error {
			n, err := add(ctx, o, report("job"))
			added <- n
			return err
		})
		synctest.Wait()
		if len(added) > 0 {
			t.Error("added to a full outbox")
		}
		o.Ack(1)
		if n := <-added; n != 3 {
			t.Errorf("added as %d", n)
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := add(ctx, o, report("job")); !errors.Is(err, context.Canceled) {
			t.Errorf("add: %v, want the context's end", err)
		}
	})
}

func TestAReportAboveTheBoundStillGetsThrough(t *testing.T) {
	o := New(1)
	if _, err := add(t.Context(), o, report("a job with a long name")); err != nil {
		t.Fatal(err)
	}
}

func TestWaitingForTheLastAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(1 << 20)
		if err := o.Wait(t.Context()); err != nil {
			t.Fatalf("nothing is pending: %v", err)
		}
		if _, err := add(t.Context(), o, report("job")); err != nil {
			t.Fatal(err)
		}
		g := run.NewGroup(t.Context(), "test")
		g.Go("wait", o.Wait)
		synctest.Wait()
		o.Ack(1)
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// add is Add, with the number as its result.
func add(ctx context.Context, o *Outbox, r *controlpb.Report) (sequence uint64, err error) {
	err = o.Add(ctx, r, func(n uint64) { sequence = n })
	return sequence, err
}

// A leader may answer at once: whoever added the report must know its number by then, or the answer is lost on it.
func TestWhoAddedAReportKnowsItsNumberBeforeAnyoneCanSendIt(t *testing.T) {
	const n = 2_000
	o := New(1 << 20)
	var noted atomic.Uint64
	g := run.NewGroup(t.Context(), "sender")
	g.Go("send", func(context.Context) error {
		for last := uint64(0); last < n; {
			reports, news := o.After(last)
			for _, r := range reports {
				if known := noted.Load(); known < r.Sequence {
					return fmt.Errorf("report %d is sent while %d is the last number known", r.Sequence, known)
				}
				last = r.Sequence
			}
			o.Ack(last)
			if len(reports) == 0 {
				<-news
			}
		}
		return nil
	})
	for range n {
		if err := o.Add(t.Context(), report("job"), noted.Store); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}
