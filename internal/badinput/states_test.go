package badinput

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

// declares is a processor that declares what it is told.
type declares struct {
	open func(*flow.Setup[int, int])
}

func (d declares) Open(set *flow.Setup[int, int]) error {
	d.open(set)
	return nil
}
func (declares) Process(c *flow.Ctx[int, int], v int) error { c.Emit(v); return nil }

func TestANameIsThatOfOneState(t *testing.T) {
	quiet := func(*flow.Ctx[int, int], flow.Time) error { return nil }
	for name, open := range map[string]func(*flow.Setup[int, int]){
		"two values":        func(s *flow.Setup[int, int]) { s.Value[int]("n"); s.Value[int]("n") },
		"two types":         func(s *flow.Setup[int, int]) { s.Value[int]("n"); s.Value[string]("n") },
		"two kinds":         func(s *flow.Setup[int, int]) { s.Map[int, int]("n"); s.List[int]("n") },
		"a timer":           func(s *flow.Setup[int, int]) { s.Value[int]("n"); s.EventTimer("n", quiet) },
		"two timers":        func(s *flow.Setup[int, int]) { s.EventTimer("n", quiet); s.EventTimers("n", quiet) },
		"a counter":         func(s *flow.Setup[int, int]) { s.Value[int]("n"); s.Counter("n") },
		"a reducing":        func(s *flow.Setup[int, int]) { s.Reducing("n", func(a, b int) int { return a + b }); s.List[int]("n") },
		"with another life": func(s *flow.Setup[int, int]) { s.Value[int]("n", flow.TTL(time.Hour)); s.Value[int]("n") },
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, "E145", func(p *flow.Pipeline) {
				p.Of("in", 1).KeyBy(self).Process(func() declares { return declares{open} }).ID("it").To("out", drop[int]())
			}, `state "n" of it`, "name")
		})
	}
	refused(t, "E145", func(p *flow.Pipeline) {
		p.Of("in", 1).KeyBy(self).Process(func() declares { return declares{func(s *flow.Setup[int, int]) { s.Value[int]("") }} }).To("out", drop[int]())
	}, "name")
}

// A name belongs to its operator: another one may use it for what it likes.
func TestOperatorsShareNoNames(t *testing.T) {
	out := flowtest.Sink[string]("out")
	run(t, func(p *flow.Pipeline) {
		p.Of("in", 1, 2, 2).KeyBy(self).
			MapWithState("n", func(c *flow.Cell[int, int], v int, emit func(int)) error {
				*c.Ref()++
				emit(v * *c.Ref())
				return nil
			}).ID("numbers").KeyBy(self).
			MapWithState("n", func(c *flow.Cell[int, string], v int, emit func(string)) error {
				*c.Ref() += "x"
				emit(*c.Ref())
				return nil
			}).ID("texts").To("out", drop[string]())
	}, out)
	if got := slices.Sorted(slices.Values(out.Values())); !slices.Equal(got, []string{"x", "x", "x"}) {
		t.Errorf("got %q", got)
	}
}

// moody is a key with a codec of its own, which does not always work.
type moody struct{ N int64 }

var errMood = errors.New("not in the mood")

type moodyCodec struct{ encodes, decodes int64 } // the keys that it cannot

func (moodyCodec) Name() string    { return "moody" }
func (moodyCodec) Version() uint32 { return 1 }
func (c moodyCodec) Append(b []byte, v moody) ([]byte, error) {
	if v.N == c.encodes {
		return nil, errMood
	}
	return append(b, byte(v.N)), nil
}
func (c moodyCodec) Decode(b []byte, _ uint32) (moody, error) {
	if len(b) != 1 || int64(b[0]) == c.decodes {
		return moody{}, errMood
	}
	return moody{int64(b[0])}, nil
}

// waiting sets a timer for each key, which needs the key again later.
type waiting struct{ timer flow.EventTimer }

func (w *waiting) Open(set *flow.Setup[moody, int]) error {
	w.timer = set.EventTimer("later", func(c *flow.Ctx[moody, int], at flow.Time) error { c.Emit(int(c.Key().N)); return nil })
	return nil
}
func (w *waiting) Process(c *flow.Ctx[moody, int], v int) error {
	w.timer.Set(c.Timestamp() + 10)
	return nil
}

func TestAKeyWhoseCodecFailsNamesOperatorStateAndKey(t *testing.T) {
	for name, c := range map[string]moodyCodec{"encode": {encodes: 7, decodes: -1}, "decode": {encodes: -1, decodes: 7}} {
		t.Run(name, func(t *testing.T) {
			err := try(t, func(p *flow.Pipeline) {
				p.Codec[moody](c)
				p.From("in", flow.Values(numbers(20)...), flow.EventTime(func(v int) flow.Time { return flow.Time(v) })).
					KeyBy(func(v int) moody { return moody{int64(v)} }).Process(func() *waiting { return &waiting{} }).ID("waits").To("out", drop[int]())
			}, flowtest.Setting("parallelism", "1"))
			if err.Code != "E141" || err.Operator != "waits" || !strings.Contains(err.Message, "not in the mood") {
				t.Errorf("%+v", err)
			}
			if !strings.Contains(err.Message, map[string]string{"encode": "key {7}", "decode": "key of the bytes 0107"}[name]) || name == "encode" && err.Position == "" {
				t.Errorf("the key or the record is missing: %+v", err)
			}
		})
	}
}

// A key of another stage crosses an exchange inside its record, whose codec fails there.
func TestARecordWhoseCodecFailsNamesTheOperator(t *testing.T) {
	for name, c := range map[string]moodyCodec{"encode": {encodes: 7, decodes: -1}, "decode": {encodes: -1, decodes: 7}} {
		t.Run(name, func(t *testing.T) {
			err := try(t, func(p *flow.Pipeline) {
				p.Codec[moody](c)
				p.Of("in", numbers(20)...).Map(func(v int) moody { return moody{int64(v)} }).ID("makes").
					KeyBy(func(m moody) int64 { return m.N }).Count().ID("counts").To("out", drop[flow.KV[int64, int64]]())
			}, flowtest.Setting("parallelism", "2"), flowtest.Setting("mode", "batch"))
			if err.Code != "E050" || !strings.Contains(err.Message, "not in the mood") || err.Operator == "" {
				t.Errorf("%+v", err)
			}
		})
	}
}

// hoard keeps values that are too large.
type hoard struct {
	value flow.ValueState[string]
	table flow.MapState[string, string]
	list  flow.ListState[string]
	big   string
	kind  string
}

func (h *hoard) Open(set *flow.Setup[string, int]) error {
	h.value, h.table, h.list = set.Value[string]("text"), set.Map[string, string]("texts"), set.List[string]("lines")
	return nil
}

func (h *hoard) Process(c *flow.Ctx[string, int], v int) error {
	if v > 0 {
		h.value.Set("small")
		return nil
	}
	switch h.kind {
	case "value":
		h.value.Set(h.big)
	case "map":
		h.table.Put("k", h.big)
	case "list":
		h.list.Append(h.big)
	}
	return nil
}

// A job is told by the first checkpoint that has to store the value.
func TestAValueBeyondTheLimitFailsTheJobWithOperatorAndKey(t *testing.T) {
	big := strings.Repeat("x", 65<<20)
	err := try(t, func(p *flow.Pipeline) {
		waits(p, "in").KeyBy(func(v int) string { return fmt.Sprint("key ", v) }).Process(func() *hoard { return &hoard{big: big, kind: "map"} }).ID("it").
			To("out", drop[int]())
	}, flowtest.Setting("checkpoint.interval", "10ms"), flowtest.Setting("checkpoint.dir", t.TempDir()))
	if err.Code != "E140" || err.Operator != "it" || !strings.Contains(err.Message, "key key 0") || !strings.Contains(err.Message, `state "texts"`) {
		t.Errorf("%s in %q: %.300s", err.Code, err.Operator, err.Message)
	}
}

// fatal is a test that a harness fails.
type fatal struct {
	testing.TB
	text string
}

func (f *fatal) Helper() {}
func (f *fatal) Fatal(args ...any) {
	f.text = fmt.Sprint(args...)
	panic(f)
}
func (f *fatal) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }
func (f *fatal) Errorf(format string, args ...any) { f.text += fmt.Sprintf(format, args...) }

// What is too large to be stored is not noticed before it is stored.
func TestAValueBeyondTheLimitNamesStateAndKey(t *testing.T) {
	big := strings.Repeat("x", 65<<20)
	for kind, state := range map[string]string{"value": "text", "map": "texts", "list": "lines"} {
		t.Run(kind, func(t *testing.T) {
			f := &fatal{TB: t}
			func() {
				defer func() { _ = recover() }()
				h := flowtest.Keyed(f, func(v int) string { return fmt.Sprint("key ", v) }, func() *hoard { return &hoard{big: big, kind: kind} })
				h.Push(0, 1)
				h.Push(1, 1)
				h.Snapshot()
			}()
			for _, text := range []string{"E140", "operator under-test", `state "` + state + `"`, "key 0", "64"} {
				if !strings.Contains(f.text, text) {
					t.Errorf("%.300q does not say %q", f.text, text)
				}
			}
		})
	}
}
