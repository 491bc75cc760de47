package flow_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// live says that it never ends, and does, so that a test can see what a streaming job has come to.
type live[T any] struct{ flow.Source[T] }

func (live[T]) Bounded() bool { return false }

type quote struct {
	Key, N int
	At     flow.Time
}

func (q quote) key() int        { return q.Key }
func (q quote) Time() flow.Time { return q.At }

func quotes(n, step int) (qs []quote) {
	for i := range n {
		qs = append(qs, quote{i * step % 5, i, flow.Time(i * step * 1000)})
	}
	return qs
}

func both(l, r quote, emit func(string))                  { emit(fmt.Sprint(l.N, "+", r.N)) }
func leftAndSome(l quote, r flow.Opt[quote], e func(int)) { e(map[bool]int{true: 1, false: 0}[r.OK]) }

func TestJoinsOfEndlessInputFindEveryPair(t *testing.T) {
	left, right := quotes(60, 1), quotes(40, 2)
	var all, near []string
	for _, l := range left {
		for _, r := range right {
			if l.Key != r.Key {
				continue
			}
			all = append(all, fmt.Sprint(l.N, "+", r.N))
			if d := r.At.Sub(l.At); d >= -3*time.Millisecond && d <= 7*time.Millisecond {
				near = append(near, fmt.Sprint(l.N, "+", r.N))
			}
		}
	}
	slices.Sort(all)
	slices.Sort(near)
	build := func(p *flow.Pipeline, _ *flow.NoConfig) error {
		// with its own order of arrival every record is on time, whatever the other side does
		l := p.From("left", live[quote]{flow.Values(left...)}, flow.EventTime(quote.Time)).KeyBy(quote.key)
		r := p.From("right", live[quote]{flow.Values(right...)}, flow.EventTime(quote.Time)).KeyBy(quote.key)
		l.Join(r, both, flow.JoinTTL(time.Hour)).ID("pairs").To("all", drop[string]())
		l.IntervalJoin(r, -3*time.Millisecond, 7*time.Millisecond, both).ID("interval").To("near", drop[string]())
		l.JoinLatest(r, leftAndSome).ID("newest").To("latest", drop[int]())
		return nil
	}
	for _, parallelism := range []string{"1", "4"} {
		gotAll, gotNear, latest := flowtest.Sink[string]("all"), flowtest.Sink[string]("near"), flowtest.Sink[int]("latest")
		flowtest.Run(t, &flow.NoConfig{}, build, flowtest.Setting("parallelism", parallelism), gotAll, gotNear, latest)
		if got := sortedStrings(gotAll); !slices.Equal(got, all) {
			t.Errorf("parallelism %s: %d pairs, want %d", parallelism, len(got), len(all))
		}
		if got := sortedStrings(gotNear); !slices.Equal(got, near) {
			t.Errorf("parallelism %s: near are %v, want %v", parallelism, got, near)
		}
		if n := len(latest.Values()); n != len(left) {
			t.Errorf("parallelism %s: %d of %d records are completed", parallelism, n, len(left))
		}
	}
}

func TestLatestOfStoredInputIsReadFirst(t *testing.T) {
	out := flowtest.Sink[int]("out")
	flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.Of("left", quotes(60, 1)...).KeyBy(quote.key).JoinLatest(p.Of("right", quotes(40, 2)...).KeyBy(quote.key), leftAndSome).To("out", drop[int]())
		return nil
	}, out)
	if got := out.Values(); len(got) != 60 || slices.Contains(got, 0) {
		t.Errorf("got %v", got)
	}
}

func TestTimeJoinsOfNoSenseAreFaultsOfThePlan(t *testing.T) {
	for name, c := range map[string]struct {
		build              func(l, r flow.KeyedStream[int, quote]) flow.Stream[string]
		code, message, fix string
	}{
		"no ttl": {func(l, r flow.KeyedStream[int, quote]) flow.Stream[string] { return l.Join(r, both) },
			"E021", `source "left" (at flow/timejoin_test.go:`, "JoinTTL"},
		"negative ttl": {func(l, r flow.KeyedStream[int, quote]) flow.Stream[string] { return l.Join(r, both, flow.JoinTTL(-1)) },
			"E018", "-1ns", "microsecond"},
		"broadcast": {func(l, r flow.KeyedStream[int, quote]) flow.Stream[string] {
			return l.Join(r, both, flow.JoinTTL(time.Hour), flow.BroadcastRight())
		}, "E018", "never ends", "ConnectBroadcast"},
		"empty interval": {func(l, r flow.KeyedStream[int, quote]) flow.Stream[string] {
			return l.IntervalJoin(r, time.Second, -time.Second, both)
		}, "E018", "1s to -1s", "earlier limit first"},
		"latest of a side": {func(l, r flow.KeyedStream[int, quote]) flow.Stream[string] {
			return l.JoinLatest(r, func(l quote, r flow.Opt[quote], e func(string)) {}, flow.BuildLeft())
		}, "E018", "JoinLatest", "BuildLeft"},
	} {
		_, err := flow.Build("test", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
			l := p.From("left", endless[quote]{}).KeyBy(quote.key)
			r := p.From("right", endless[quote]{}).KeyBy(quote.key)
			c.build(l, r).ID("joined").To("out", drop[string]())
			return nil
		})
		plan, ok := errors.AsType[*flow.PlanError](err)
		if !ok || !plan.Has(c.code) || !strings.Contains(err.Error(), c.message) || !strings.Contains(err.Error(), c.fix) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
