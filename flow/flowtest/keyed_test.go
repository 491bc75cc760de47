package flowtest_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

type click struct {
	User string
	N    int64
}

func byUser(c click) string { return c.User }

var large = flow.NewTag[int64]("large")

// memory uses every kind of state and of timer.
type memory struct {
	last   flow.ValueState[int64]
	recent flow.ListState[int64]
	seen   flow.MapState[int64, int64]
	sum    flow.ReducingState[int64]
	mean   flow.AggregatingState[int64, meanOf, int64]
	brief  flow.ValueState[int64]
	idle   flow.EventTimer
	each   flow.EventTimers
	alarm  flow.ProcTimer
}

type meanOf struct{ Sum, N int64 }

type meaning struct{}

func (meaning) New() meanOf                  { return meanOf{} }
func (meaning) Add(m meanOf, v int64) meanOf { return meanOf{m.Sum + v, m.N + 1} }
func (meaning) Merge(a, b meanOf) meanOf     { return meanOf{a.Sum + b.Sum, a.N + b.N} }
func (meaning) Result(m meanOf) int64        { return m.Sum / max(1, m.N) }

var errNegative = errors.New("negative")

func (m *memory) Open(s *flow.Setup[string, string]) error {
	m.last, m.recent, m.seen = s.Value[int64]("last"), s.List[int64]("recent"), s.Map[int64, int64]("seen")
	m.sum = s.Reducing("sum", func(a, b int64) int64 { return a + b })
	m.mean = s.Aggregating("mean", meaning{})
	m.brief = s.Value[int64]("brief", flow.TTL(time.Minute))
	say := func(what string) func(*flow.Ctx[string, string], flow.Time) error {
		return func(c *flow.Ctx[string, string], _ flow.Time) error {
			c.Emit(c.Key() + " " + what)
			return nil
		}
	}
	m.idle = s.EventTimer("idle", say("idle"))
	m.each = s.EventTimers("each", say("each"))
	m.alarm = s.ProcTimer("alarm", func(c *flow.Ctx[string, string], _ time.Time) error {
		c.Emit(c.Key() + " alarm")
		return nil
	})
	return nil
}

func (m *memory) Process(c *flow.Ctx[string, string], v click) error {
	if v.N < 0 {
		return errNegative
	}
	m.last.Set(v.N)
	m.recent.Append(v.N)
	*m.seen.Ref(v.N)++
	m.sum.Add(v.N)
	m.mean.Add(v.N)
	m.brief.Set(v.N)
	m.idle.Set(c.Timestamp() + 10)
	m.each.Add(c.Timestamp() + flow.Time(v.N))
	m.alarm.SetIn(time.Second)
	if v.N > 5 {
		c.Side(large, v.N)
	}
	return nil
}

func newMemory() *memory { return &memory{} }

func TestAHarnessShowsStateTimersAndOutputs(t *testing.T) {
	h := flowtest.Keyed(t, byUser, newMemory)
	h.Push(click{"a", 3}, 100)
	h.Push(click{"a", 9}, 101)
	h.Push(click{"b", 1}, 103)
	if v, ok := h.Value[int64]("a", "last"); v != 9 || !ok {
		t.Errorf("last %d %v", v, ok)
	}
	if v, _ := h.Value[int64]("a", "sum"); v != 12 {
		t.Errorf("sum %d", v)
	}
	if got := h.List[int64]("a", "recent"); !slices.Equal(got, []int64{3, 9}) {
		t.Errorf("list %v", got)
	}
	if got := h.Map[int64, int64]("a", "seen"); len(got) != 2 || got[9] != 1 {
		t.Errorf("map %v", got)
	}
	if got := h.Side(large); !slices.Equal(got, []int64{9}) || h.Side(large) != nil {
		t.Errorf("side output %v", got)
	}
	want := []flow.Time{103, 110, 111, flow.At(h.Now().Add(time.Second))}
	if got := h.Timers("a"); !slices.Equal(got, want) {
		t.Errorf("timers %v, want %v", got, want)
	}
	h.Watermark(110)
	if got := h.Out(); !slices.Equal(got, []string{"a each", "b each", "a each"}) {
		t.Errorf("at 110: %q", got)
	}
	h.Watermark(113)
	if got := h.Stamped(); len(got) != 2 || got[0].Value != "a idle" || got[0].Time != 111 || got[1].Value != "b idle" || got[1].Time != 113 {
		t.Errorf("at 113: %v", got)
	}
}

func TestTheClockOfAHarnessFiresTimersAndEndsLives(t *testing.T) {
	h := flowtest.Keyed(t, byUser, newMemory)
	h.Push(click{"a", 3}, 100)
	h.Watermark(112)
	h.Out()
	h.AdvanceClock(2 * time.Second)
	if got := h.Stamped(); len(got) != 1 || got[0].Time != 113 { // the earliest time that is not late
		t.Errorf("after two seconds: %v", got)
	}
	if _, ok := h.Value[int64]("a", "brief"); !ok {
		t.Error("it has expired too early")
	}
	h.AdvanceClock(time.Minute)
	if _, ok := h.Value[int64]("a", "brief"); ok {
		t.Error("it has not expired")
	}
	if h.StateBytes() == 0 {
		t.Error("the state has no size")
	}
}

func TestAFailingRecordIsAnErrorWithItsCause(t *testing.T) {
	h := flowtest.Keyed(t, byUser, newMemory)
	if err := h.TryPush(click{"a", -1}, 0); !errors.Is(err, errNegative) {
		t.Errorf("error %v", err)
	}
}

func TestASnapshotBringsEverythingBackAtAnyParallelism(t *testing.T) {
	h := flowtest.Keyed(t, byUser, newMemory)
	users := strings.Fields("a b c d e f g h")
	for i, u := range users {
		h.Push(click{u, int64(i + 1)}, 100)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(file, h.Snapshot(), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, u := range users {
		h.Push(click{u, int64(i + 10)}, 200)
	}
	h.Rescale(3)
	for i, u := range users {
		if got := h.List[int64](u, "recent"); !slices.Equal(got, []int64{int64(i + 1), int64(i + 10)}) {
			t.Errorf("%s after a change of parallelism: %v", u, got)
		}
	}
	h.RestoreFile(file)
	for i, u := range users {
		if got := h.List[int64](u, "recent"); !slices.Equal(got, []int64{int64(i + 1)}) || len(h.Timers(u)) != 3 {
			t.Errorf("%s restored: %v, timers %v", u, got, h.Timers(u))
		}
	}
	h.Out()
	h.End()
	if got := h.Out(); len(got) != 2*len(users) { // the alarms by the clock are dropped
		t.Errorf("at the end: %q", got)
	}
}

func TestEveryKindOfStateAndTimerSurvives(t *testing.T) {
	var script []flowtest.Step[click]
	for i := range int64(40) {
		at := flow.Time(100 + i*3)
		script = append(script, flowtest.Record(click{string(rune('a' + i%5)), i % 7}, at))
		if i%6 == 5 {
			script = append(script, flowtest.Watermark[click](at), flowtest.Pass[click](400*time.Millisecond))
		}
	}
	flowtest.Survives(t, byUser, newMemory, script...)
}

// careless keeps in a field what belongs into state.
type careless struct{ n int }

func (*careless) Open(*flow.Setup[string, int]) error { return nil }
func (c *careless) Process(ctx *flow.Ctx[string, int], _ click) error {
	c.n++
	ctx.Emit(c.n)
	return nil
}

// failure is a testing.TB that ends with the first failure.
type failure struct {
	testing.TB
	text string
}

func (f *failure) Fatalf(format string, args ...any) {
	f.text = format
	panic(f)
}

func TestSurvivesFindsWhatIsNotInState(t *testing.T) {
	f := &failure{TB: t}
	func() {
		defer func() { _ = recover() }()
		flowtest.Survives(f, byUser, func() *careless { return &careless{} }, flowtest.Record(click{"a", 1}, 0), flowtest.Record(click{"a", 1}, 0))
	}()
	if !strings.Contains(f.text, "instead of") {
		t.Errorf("failure %q", f.text)
	}
}

func FuzzSnapshotOfAHarness(f *testing.F) {
	h := flowtest.Keyed(f, byUser, newMemory)
	h.Push(click{"a", 3}, 100)
	whole := h.Snapshot()
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte("SLTS\x01\x01\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if again, err := flowtest.Recode(b); err == nil && len(again) > len(b) {
			t.Errorf("%x was read as %x", b, again)
		}
	})
}
