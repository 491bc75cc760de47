package setting

import (
	"strings"
	"testing"
	"time"
)

func TestEveryDefaultPassesItsOwnCheck(t *testing.T) {
	for _, s := range All() {
		if s.Default != "" {
			if err := s.check(s.Default); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
		}
		if s.Doc == "" || s.Type == "" {
			t.Errorf("%s has no documentation", s.Name)
		}
	}
}

func TestUnknownNameIsAnErrorWithASuggestion(t *testing.T) {
	for wrong, right := range map[string]string{
		"paralelism": "parallelism", "checkpoint.intervall": "checkpoint.interval", "bufer.timeout": "buffer.timeout",
		"network-memory": "network.memory", "restrat": "restart", "xyzzy": "",
	} {
		ps := Check(map[string]string{wrong: "1"})
		if len(ps) != 1 || ps[0].Code != CodeUnknown || ps[0].Warning() {
			t.Fatalf("%s: %v", wrong, ps)
		}
		if hint := ps[0].Hints[0]; right != "" && hint != "did you mean "+right+"?" || right == "" && !strings.Contains(hint, "parallelism, mode") {
			t.Errorf("%s: hint %q", wrong, hint)
		}
	}
}

func TestBadValuesAreErrors(t *testing.T) {
	for name, values := range map[string][]string{
		Parallelism:     {"", "0", "-1", "many", "32769", "1.5"},
		Mode:            {"", "Batch", "mixed"},
		BufferTimeout:   {"", "2", "-1ms", "soon", "Never"},
		NetworkCompress: {"", "zstd", "gzip", "S2"},
		BatchCompress:   {"", "gzip", "on"},
		NetworkMemory:   {"", "-1", "110%", "10 parsecs", "NaN", "1e300GiB", "%", "1KiB", "0", "31.9MiB"},
		RestartStrategy: {"", "never", "fixed(", "fixed(0,1s)", "fixed(3,1s,1s)", "rate(101,1m,1s)", "exponential(0s)", "exponential(2s,1s)", "exponential(1s,1m,0.5)", "exponential(1s,1m,2,1)", "exponential(1s,1m,NaN)", "fixed(3,25h)"},
	} {
		for _, v := range values {
			if ps := Check(map[string]string{name: v}); len(ps) != 1 || ps[0].Code != CodeBadValue {
				t.Errorf("%s=%q: %v", name, v, ps)
			}
		}
	}
}

func TestSettingsOfLaterReleasesAreWarnings(t *testing.T) {
	ps := Check(map[string]string{CheckpointDir: "/d", CheckpointEvery: "5s", Mode: "auto"})
	if len(ps) != 1 || !ps[0].Warning() || ps[0].Name != CheckpointDir {
		t.Fatal(ps)
	}
}

func TestEveryShareOfMemoryHasAnEffect(t *testing.T) {
	if ps := Check(map[string]string{StateMemory: "64MiB", BatchMemory: "25%", NetworkMemory: "32MiB"}); len(ps) != 0 {
		t.Error(ps)
	}
}

func TestTheFirstLayerWins(t *testing.T) {
	v := Values(Merge(map[string]string{"a": "line"}, map[string]string{"a": "code", Parallelism: "3"}, map[string]string{Parallelism: "9", BufferTimeout: "7ms"}))
	if v["a"] != "line" || v.Count(Parallelism) != 3 || v.Duration(BufferTimeout) != 7*time.Millisecond {
		t.Fatal(v)
	}
	if (Values{}).Duration(BufferTimeout) != 2*time.Millisecond || (Values{Parallelism: "all"}).Count(Parallelism) != -1 {
		t.Fatal("defaults")
	}
}

func TestABufferMayWaitForNothingOrForEver(t *testing.T) {
	for value, want := range map[string]time.Duration{"0": 0, "0s": 0, "never": Never, "15ms": 15 * time.Millisecond} {
		set := map[string]string{BufferTimeout: value}
		if ps := Check(set); len(ps) != 0 {
			t.Errorf("%s: %v", value, ps)
		}
		if got := Values(set).Duration(BufferTimeout); got != want {
			t.Errorf("%s is %v, want %v", value, got, want)
		}
	}
}

func TestCompressionIsASettingPerKindOfExchange(t *testing.T) {
	for name, values := range map[string][]string{NetworkCompress: {"none", "s2"}, BatchCompress: {"none", "s2", "zstd"}} {
		for _, v := range values {
			if ps := Check(map[string]string{name: v}); len(ps) != 0 {
				t.Errorf("%s=%s: %v", name, v, ps)
			}
		}
	}
	if n, b := (Values{}).Text(NetworkCompress), (Values{}).Text(BatchCompress); n != "none" || b != "s2" {
		t.Errorf("defaults are %s and %s", n, b)
	}
}

func TestRestartStrategiesAreReadAndWritten(t *testing.T) {
	for in, want := range map[string]string{
		"none": "none", " fixed ( 5 , 2s ) ": "fixed(5,2s)", "fixed": "fixed(3,1s)", "rate(4,1m,10ms)": "rate(4,1m0s,10ms)",
		"exponential": "exponential(1s,1m0s,2,0.1,10m0s,20)", "exponential(2s,4s,1.5,0,1h,0)": "exponential(2s,4s,1.5,0,1h0m0s,0)",
	} {
		r, err := ParseRestart(in)
		if err != nil || r.String() != want {
			t.Errorf("%q: %s, %v", in, r, err)
			continue
		}
		if again, err := ParseRestart(r.String()); err != nil || again != r {
			t.Errorf("%q does not survive being written", in)
		}
	}
	if r := (Values{}).Restart("none"); r.Kind != RestartNone {
		t.Error("the fallback is not taken")
	}
	if r := (Values{RestartStrategy: "fixed(1,1s)"}).Restart("none"); r.Kind != RestartFixed {
		t.Error("the fallback wins over what the job says")
	}
}

// A size that no task process can work with is refused when it is said, not raised in silence; a share is the least in a small
// process.
func TestTooLittleNetworkMemoryIsRefused(t *testing.T) {
	ps := Check(map[string]string{NetworkMemory: "1KiB"})
	if len(ps) != 1 || ps[0].Code != CodeBadValue || !strings.Contains(ps[0].Message, "1KiB is less than the 32.0 MiB") || !strings.Contains(ps[0].Hints[0], "at least 32MiB") {
		t.Errorf("%+v", ps)
	}
	for v, want := range map[string]int64{"32MiB": 32 << 20, "33554432": 32 << 20, "1%": 32 << 20, "0%": 32 << 20, "50%": 128 << 20} {
		if ps := Check(map[string]string{NetworkMemory: v}); len(ps) > 0 {
			t.Errorf("%s: %v", v, ps)
		}
		m, err := Divide(256<<20, Values{NetworkMemory: v, StateMemory: "1%", BatchMemory: "1%"})
		if err != nil || m.Network != want {
			t.Errorf("%s: %d, %v", v, m.Network, err)
		}
	}
}

func TestSizes(t *testing.T) {
	for in, want := range map[string]int64{"1KiB": 1024, "1.5 GiB": 3 << 29, "500MB": 500_000_000, "10%": 100, "77": 77, "8B": 8} {
		if got, err := ParseSize(in, 1000); err != nil || got != want {
			t.Errorf("%s: %d, %v", in, got, err)
		}
	}
}

func TestMemoryIsDividedAsDocumented(t *testing.T) {
	const gib = int64(1) << 30
	p := ProcessMemory(8*gib, 4, 2)
	m, err := Divide(p, nil)
	if err != nil || p != 4*gib || m.Network != 4*gib/10 || m.State != p*35/100 || m.Batch != gib || m.Limit != 4*gib/100*95 {
		t.Fatalf("%d: %+v, %v", p, m, err)
	}
	if m, err := Divide(128<<20, nil); err != nil || m.Network != 32<<20 {
		t.Fatalf("least network memory: %+v, %v", m, err)
	}
	if _, err := Divide(64<<20, nil); err == nil {
		t.Fatal("a process too small for its network memory was accepted")
	}
}
