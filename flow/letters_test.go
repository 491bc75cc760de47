package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/flowtest"
)

var errOdd = errors.New("an odd number")

func even(v int) (int, error) {
	if v%2 != 0 {
		return 0, errOdd
	}
	return v, nil
}

// evens is every kind of operator whose errors OnError decides about: it lets even numbers pass.
func evens() map[string]func(s flow.Stream[int]) flow.Stream[int] {
	return map[string]func(s flow.Stream[int]) flow.Stream[int]{
		"map": func(s flow.Stream[int]) flow.Stream[int] { return s.TryMap(even) },
		"mapwith": func(s flow.Stream[int]) flow.Stream[int] {
			return s.MapWith(func(*flow.Task) (func(int) (int, error), error) { return even, nil })
		},
		"flatmap": func(s flow.Stream[int]) flow.Stream[int] {
			return s.TryFlatMap(func(v int, emit func(int)) error {
				u, err := even(v)
				if err == nil {
					emit(u)
				}
				return err
			})
		},
		"async": func(s flow.Stream[int]) flow.Stream[int] {
			return s.AsyncMap(func(_ context.Context, v int) (int, error) { return even(v) })
		},
		"process": func(s flow.Stream[int]) flow.Stream[int] {
			return s.Process(func() evenOnly { return evenOnly{} })
		},
		"keyed process": func(s flow.Stream[int]) flow.Stream[int] {
			return s.KeyBy(self).Process(func() keyedEven { return keyedEven{} })
		},
		"state": func(s flow.Stream[int]) flow.Stream[int] {
			return s.KeyBy(self).MapWithState("n", func(_ *flow.Cell[int, int], v int, emit func(int)) error {
				u, err := even(v)
				if err == nil {
					emit(u)
				}
				return err
			})
		},
	}
}

type evenOnly struct{}

func (evenOnly) Open(*flow.OpSetup[int]) error { return nil }
func (evenOnly) Process(c *flow.OpCtx[int], v int) error {
	u, err := even(v)
	if err == nil {
		c.Emit(u)
	}
	return err
}

type keyedEven struct{}

func (keyedEven) Open(*flow.Setup[int, int]) error { return nil }
func (keyedEven) Process(c *flow.Ctx[int, int], v int) error {
	u, err := even(v)
	if err == nil {
		c.Emit(u)
	}
	return err
}

// A letter has what is needed to find the cause, and to process the record later.
func checkLetters(t *testing.T, letters []flow.DeadLetter, times []flow.Time, want []int) {
	t.Helper()
	c, err := codec.Of[int](nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for i, l := range letters {
		var v int
		if _, err := c.Decode(l.Value, &v); err != nil || l.Codec != c.Schema() {
			t.Errorf("value of %+v: %v", l, err)
		}
		got = append(got, v)
		if l.Operator != "evens" || l.Job == "" || l.Attempt == 0 || l.At.IsZero() || !strings.Contains(l.Error, "odd") || l.Position == "" {
			t.Errorf("letter of %d: %+v", v, l)
		}
		if l.EventTime != flow.Time(v) || times[i] != l.EventTime {
			t.Errorf("letter of %d has the time %v, and says %v", v, times[i], l.EventTime)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("letters of %v, want %v", got, want)
	}
}

func odds(n int) (out []int) {
	for i := range n {
		if i%2 != 0 {
			out = append(out, i)
		}
	}
	return out
}

func timeOf(v int) flow.Time { return flow.Time(v) }

func TestRejectedRecordsGoToTheSinkOfDeadLetters(t *testing.T) {
	for name, operator := range evens() {
		t.Run(name, func(t *testing.T) {
			out, letters := flowtest.Sink[int]("out"), flowtest.Sink[flow.DeadLetter]("letters")
			flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
				p.DeadLetters("letters", drop[flow.DeadLetter]())
				s := p.From("numbers", flow.Values(numbers(100)...), flow.EventTime(timeOf))
				operator(s).ID("evens").OnError(flow.DeadLetters).To("out", drop[int]())
				return nil
			}, out, letters)
			if len(out.Values()) != 50 {
				t.Errorf("%d records passed", len(out.Values()))
			}
			checkLetters(t, letters.Values(), letters.Times(), odds(100))
		})
	}
}

func TestLettersOfAllOperatorsMeetUnlessTheyAreRead(t *testing.T) {
	all, own := flowtest.Sink[flow.DeadLetter]("all"), flowtest.Sink[string]("own")
	flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.DeadLetters("all", drop[flow.DeadLetter]())
		numbers := p.Of("numbers", numbers(10)...)
		for _, id := range []string{"a", "b"} {
			numbers.TryMap(even).ID(id).OnError(flow.DeadLetters).To("out "+id, drop10[int]())
		}
		c := numbers.TryMap(even).ID("c").OnError(flow.DeadLetters)
		c.To("out c", drop10[int]())
		c.DeadLetters().Map(func(l flow.DeadLetter) string { return l.Operator }).To("own", drop[string]())
		return nil
	}, all, own)
	from := map[string]int{}
	for _, l := range all.Values() {
		from[l.Operator]++
	}
	for _, id := range own.Values() {
		from["own "+id]++
	}
	if want := (map[string]int{"a": 5, "b": 5, "own c": 5}); fmt.Sprint(from) != fmt.Sprint(want) {
		t.Errorf("letters %v, want %v", from, want)
	}
}

func TestKeysOfRejectedRecordsAreInTheirLetters(t *testing.T) {
	letters := flowtest.Sink[flow.DeadLetter]("letters")
	flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.DeadLetters("letters", drop[flow.DeadLetter]())
		p.Of("numbers", 1, 2, 3).KeyBy(func(v int) string { return fmt.Sprint("key ", v) }).
			Process(func() byText { return byText{} }).ID("evens").OnError(flow.DeadLetters).To("out", drop10[int]())
		return nil
	}, letters)
	c, err := codec.Of[string](nil)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, l := range letters.Values() {
		var k string
		if _, err := c.Decode(l.Key, &k); err != nil {
			t.Error(err)
		}
		keys = append(keys, k)
	}
	if slices.Sort(keys); !slices.Equal(keys, []string{"key 1", "key 3"}) {
		t.Errorf("keys %q", keys)
	}
}

type byText struct{}

func (byText) Open(*flow.Setup[string, int]) error { return nil }
func (byText) Process(c *flow.Ctx[string, int], v int) error {
	_, err := even(v)
	return err
}

// moody fails the first tries for each record.
type moody struct {
	tries map[int]int
	least int
}

func (m *moody) try(v int) error {
	if m.tries[v]++; m.tries[v] <= m.least {
		return errOdd
	}
	return nil
}

func TestRetryTriesAgainAndThenDoesWhatIsSaid(t *testing.T) {
	operators := map[string]func(m *moody, s flow.Stream[int]) flow.Stream[int]{
		"map": func(m *moody, s flow.Stream[int]) flow.Stream[int] {
			return s.TryMap(func(v int) (int, error) { return v, m.try(v) })
		},
		"flatmap": func(m *moody, s flow.Stream[int]) flow.Stream[int] {
			return s.TryFlatMap(func(v int, emit func(int)) error {
				emit(v) // what a failed try emits is not seen
				return m.try(v)
			})
		},
		"async": func(m *moody, s flow.Stream[int]) flow.Stream[int] {
			return s.AsyncMap(func(_ context.Context, v int) (int, error) { return v, m.try(v) }, flow.InFlight(1))
		},
	}
	for name, operator := range operators {
		for least, passed := range map[int]int{0: 4, 2: 4, 3: 0} {
			out, letters := flowtest.Sink[int]("out"), flowtest.Sink[flow.DeadLetter]("letters")
			m := &moody{map[int]int{}, least}
			flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
				p.DeadLetters("letters", drop[flow.DeadLetter]())
				operator(m, p.Of("numbers", numbers(4)...).Global()).Parallelism(1).OnError(flow.Retry(2, time.Microsecond, flow.DeadLetters)).To("out", drop[int]())
				return nil
			}, out, letters)
			if len(out.Values()) != passed || len(letters.Values()) != 4-passed || m.tries[0] != min(least, 2)+1 {
				t.Errorf("%s, failing %d times: %d records, %d letters, %d tries", name, least, len(out.Values()), len(letters.Values()), m.tries[0])
			}
			for _, l := range letters.Values() {
				if !strings.Contains(l.Error, "try 3 of 3") {
					t.Errorf("%s: letter says %q", name, l.Error)
				}
			}
		}
	}
}

// picky is a sink that takes no odd numbers, except at the try that says so.
type picky struct {
	nothing[int]
	m *moody
}

func (s picky) OpenWriter(context.Context, *flow.Task, [][]byte) (flow.Writer[int], error) {
	return &pickyWriter{m: s.m}, nil
}

type pickyWriter struct {
	connector.NoCommit
	m *moody
}

func (*pickyWriter) Flush(context.Context) error { return nil }
func (*pickyWriter) End(context.Context) error   { return nil }
func (*pickyWriter) Close() error                { return nil }

func (w *pickyWriter) Write(_ context.Context, v int, _ flow.Time) error {
	if v%2 == 0 {
		return nil
	}
	return w.m.try(v)
}

func TestSinksRejectWhatTheyDoNotTake(t *testing.T) {
	for least, want := range map[int]int{1: 0, 2: 5} {
		letters := flowtest.Sink[flow.DeadLetter]("letters")
		m := &moody{map[int]int{}, least}
		flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
			out := p.Of("numbers", numbers(10)...).Global().To("evens", picky{nothing[int]{connector.AtLeastOnce}, m}).Parallelism(1)
			out.OnError(flow.Retry(1, time.Microsecond, flow.DeadLetters)).DeadLetters().To("letters", drop[flow.DeadLetter]())
			return nil
		}, letters)
		if got := len(letters.Values()); got != want {
			t.Errorf("failing %d times: %d letters, want %d", least, got, want)
		}
		for _, l := range letters.Values() {
			if l.Operator != "evens" || !strings.Contains(l.Error, "E054") {
				t.Errorf("letter %+v", l)
			}
		}
	}
}

// A panic and a fatal error are no errors of a record.
func TestNoPolicyHidesAPanicOrAFatalError(t *testing.T) {
	for name, fails := range map[string]func() error{
		"E051": func() error { panic("oh") },
		"E050": func() error { return flow.Fatal(errOdd) },
	} {
		for _, pol := range []flow.ErrorPolicy{flow.Skip, flow.DeadLetters, flow.Retry(3, time.Microsecond, flow.Skip)} {
			err := flowtest.Try(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
				p.DeadLetters("letters", drop10[flow.DeadLetter]())
				p.Of("numbers", 7).TryMap(func(v int) (int, error) { return v, fails() }).ID("evens").OnError(pol).To("out", drop10[int]())
				return nil
			}, flowtest.Setting("restart", "none"))
			if job, ok := errors.AsType[*flowtest.JobError](err); !ok || job.Code != name || job.Operator != "evens" {
				t.Errorf("%s with %s: error %v", name, pol, err)
			}
		}
	}
}

func TestTimestampedGivesTheEventTime(t *testing.T) {
	out := flowtest.Sink[flow.Stamped[int]]("out")
	flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		flow.Timestamped(p.From("numbers", flow.Values(numbers(5)...), flow.EventTime(timeOf))).To("out", drop[flow.Stamped[int]]())
		return nil
	}, out)
	for _, s := range out.Values() {
		if flow.Time(s.Value) != s.Time {
			t.Errorf("%d has the time %v", s.Value, s.Time)
		}
	}
	if len(out.Values()) != 5 {
		t.Errorf("%d records", len(out.Values()))
	}
}
