package flowtest_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// What stands between the marks is in docs/testing.md, word by word.

// guide: processor

// Reading is a temperature of a sensor.
type Reading struct {
	Sensor string
	Degree int64
	At     flow.Time
}

func (r Reading) Of() string      { return r.Sensor }
func (r Reading) Time() flow.Time { return r.At }

// silence says which sensors have not been heard of for a minute.
type silence struct {
	heard flow.MapState[flow.Time, int64] // degrees by time
	check flow.EventTimers
}

func (s *silence) Open(set *flow.Setup[string, string]) error {
	s.heard = set.Map[flow.Time, int64]("heard")
	s.check = set.EventTimers("check", func(c *flow.Ctx[string, string], now flow.Time) error {
		since := now.Add(-time.Minute)
		last, _ := s.heard.Get(since)
		s.heard.Delete(since)
		for at := range s.heard.All() {
			if since < at && at <= now {
				return nil
			}
		}
		c.Emit(c.Key() + " is silent, last " + strconv.FormatInt(last, 10))
		return nil
	})
	return nil
}

func (s *silence) Process(_ *flow.Ctx[string, string], r Reading) error {
	s.heard.Put(r.At, r.Degree)
	s.check.Add(r.At.Add(time.Minute))
	return nil
}

// guide: keyed

func TestASilentSensorIsNoticedOnce(t *testing.T) {
	h := flowtest.Keyed(t, Reading.Of, func() *silence { return &silence{} })
	noon := flow.At(time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC))

	h.Push(Reading{"attic", 31, noon}, noon)
	if heard := h.Map[flow.Time, int64]("attic", "heard"); len(heard) != 1 || heard[noon] != 31 {
		t.Errorf("heard %v", heard)
	}
	if at := h.Timers("attic"); !slices.Equal(at, []flow.Time{noon.Add(time.Minute)}) {
		t.Errorf("timers %v", at)
	}

	before := h.Snapshot() // what a checkpoint would hold
	h.Watermark(noon.Add(time.Hour))
	if got := h.Out(); !slices.Equal(got, []string{"attic is silent, last 31"}) {
		t.Errorf("after an hour: %q", got)
	}

	h.Restore(before) // a failure: the job goes on from the checkpoint
	h.Rescale(3)      // with three subtasks
	h.Push(Reading{"attic", 30, noon.Add(time.Minute)}, noon.Add(time.Minute))
	h.Watermark(noon.Add(time.Minute))
	if got := h.Out(); len(got) != 0 {
		t.Errorf("heard of in time: %q", got)
	}
}

// guide: survives

func TestSilenceSurvives(t *testing.T) {
	noon := flow.At(time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC))
	var script []flowtest.Step[Reading]
	for i := range int64(40) {
		at := noon.Add(time.Duration(i) * 25 * time.Second)
		script = append(script, flowtest.Record(Reading{"sensor " + strconv.FormatInt(i*i%5, 10), i, at}, at))
		if i%3 == 2 {
			script = append(script, flowtest.Watermark[Reading](at))
		}
	}
	flowtest.Survives(t, Reading.Of, func() *silence { return &silence{} }, script...)
}

// guide: build

// Config holds the parameters of the job.
type Config struct {
	URL string `flag:"url" default:"http://localhost:8080"`
}

func buildJob(p *flow.Pipeline, cfg *Config) error {
	p.From("readings", readings(cfg.URL), flow.EventTime(Reading.Time, flow.OutOfOrder(10*time.Second))).
		KeyBy(Reading.Of).
		Process(func() *silence { return &silence{} }).ID("silence").
		To("alarms", alarms(cfg.URL))
	return nil
}

// guide: run

func TestTheJobRaisesAlarms(t *testing.T) {
	noon := flow.At(time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC))
	alarms := flowtest.Sink[string]("alarms")
	flowtest.Run(t, &Config{}, buildJob, alarms,
		flowtest.Source("readings", Reading{"attic", 31, noon}, Reading{"cellar", 12, noon.Add(2 * time.Minute)}))
	got := alarms.Values()
	slices.Sort(got)
	if want := []string{"attic is silent, last 31", "cellar is silent, last 12"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// guide: job

func TestTheJobWaitsForTheWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noon := flow.At(time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC))
		j := flowtest.Job(t, &Config{}, buildJob)

		j.Push("readings", Reading{"attic", 31, noon}, noon)
		j.Settle()
		if got := j.Collect[string]("alarms"); len(got) != 0 {
			t.Errorf("too early: %q", got)
		}

		j.Watermark("readings", noon.Add(time.Minute))
		j.Settle()
		if got := j.Collect[string]("alarms"); len(got) != 1 {
			t.Errorf("after a minute: %q", got)
		}
		j.Done()
	})
}

// guide: deterministic

func TestTheOrderOfArrivalDoesNotMatter(t *testing.T) {
	noon := flow.At(time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC))
	var all []Reading
	for i := range int64(100) {
		all = append(all, Reading{"sensor " + strconv.FormatInt(i%4, 10), i, noon.Add(time.Duration(i*i) * time.Second)})
	}
	flowtest.Deterministic(t, &Config{}, buildJob, flowtest.Sink[string]("alarms"), flowtest.Source("readings", all...))
}

// guide: connectors

// page is one call of the service: it gives the readings behind an offset.
func page(_ context.Context, offset int) (rs []Reading, next int, err error) {
	for i := offset; i < min(offset+10, 25); i++ {
		rs = append(rs, Reading{Sensor: "attic", Degree: int64(i)})
	}
	if offset += len(rs); offset == 25 {
		err = io.EOF
	}
	return rs, offset, err
}

func readings(string) flow.Source[Reading] { return flow.PollFunc(0, page) }

func alarms(string) flow.Sink[string] {
	return flow.SinkFunc(func(_ context.Context, vs []string) error { return nil })
}

// guide: source

func TestMySourceConforms(t *testing.T) {
	var want []Reading
	for i := range int64(25) {
		want = append(want, Reading{Sensor: "attic", Degree: i})
	}
	flowtest.ConformSource(t, flowtest.SourceSuite[Reading]{
		Open: func(testing.TB) flow.Source[Reading] { return flow.PollAll(0, page) },
		Want: want,
		Name: func(r Reading) string { return strconv.FormatInt(r.Degree, 10) },
	})
}

// guide: sink

func TestMySinkConforms(t *testing.T) {
	flowtest.ConformSink(t, flowtest.SinkSuite[string]{
		Values: strings.Fields("a b c d e f"),
		Name:   func(v string) string { return v },
		Open: func(testing.TB) flowtest.SinkPlace[string] {
			var mu struct {
				sync.Mutex
				seen []string
			}
			return flowtest.SinkPlace[string]{
				Sink: flow.SinkFunc(func(_ context.Context, vs []string) error {
					mu.Lock()
					defer mu.Unlock()
					mu.seen = append(mu.seen, vs...)
					return nil
				}),
				Visible: func(testing.TB) []string { return mu.seen },
			}
		},
	})
}

// guide: end

func TestTheGuideShowsWhatIsTested(t *testing.T) {
	code, err := os.ReadFile("guide_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, part := range strings.Split(string(code), "\n// guide: ")[1:] {
		_, body, _ := strings.Cut(part, "\n")
		tested[strings.TrimSpace(body)] = true
	}
	shown := 0
	for _, block := range strings.Split(string(page), "```go\n")[1:] {
		body, _, _ := strings.Cut(block, "```")
		if shown++; !tested[strings.TrimSpace(body)] {
			t.Errorf("docs/testing.md shows code that is not in guide_test.go:\n%s", body)
		}
	}
	if shown != len(tested)-1 {
		t.Errorf("docs/testing.md shows %d pieces of code, guide_test.go has %d", shown, len(tested)-1)
	}
}
