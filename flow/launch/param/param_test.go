package param_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/sluiceio/sluice/flow/launch/param"
	"github.com/sluiceio/sluice/proto/jobpb"
	"pgregory.net/rapid"
)

type config struct {
	Query    string        `flag:"query" default:"f1" help:"which query"`
	In       []string      `flag:"in"`
	Fast     bool          `flag:"fast"`
	N        int           `flag:"n" default:"3"`
	Small    int8          `flag:"small"`
	U        uint16        `flag:"u"`
	Ratio    float64       `flag:"ratio" default:"0.5"`
	Every    time.Duration `flag:"every" default:"10s"`
	Token    param.Secret  `flag:"token"`
	Untagged string
	Hook     func() `flag:"-"`
	private  string // must be left alone
}

func bind(t *testing.T, args ...string) (*config, param.Args, []*jobpb.Diagnostic) {
	t.Helper()
	cfg := &config{}
	s, diags := param.Of(cfg)
	if len(diags) > 0 {
		t.Fatalf("describe: %v", diags)
	}
	diags = s.SetDefaults()
	a, more := s.Split(args, "json")
	return cfg, a, slices.Concat(diags, more, s.Apply(a.Params))
}

func TestFieldsTakeDefaultsAndFlags(t *testing.T) {
	cfg, a, diags := bind(t, "--query", "f2", "--in=a,b", "-in=c", "--fast", "--small", "-7", "--u=9", "--every=1m30s",
		"--token=env:TOKEN", "--untagged=x", "--sluice.parallelism=4", "--json")
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	token, _ := param.ParseSecret("env:TOKEN")
	want := &config{Query: "f2", In: []string{"a", "b", "c"}, Fast: true, N: 3, Small: -7, U: 9, Ratio: 0.5,
		Every: 90 * time.Second, Token: token, Untagged: "x"}
	if d := cmp.Diff(want, cfg, cmp.AllowUnexported(config{}, param.Secret{}), cmpopts.IgnoreFields(config{}, "Hook")); d != "" {
		t.Error(d)
	}
	if !a.Switches["json"] || a.Settings["parallelism"] != "4" {
		t.Errorf("switches and settings: %+v", a)
	}
	if cfg.private != "" {
		t.Errorf("an unexported field was set to %q", cfg.private)
	}
}

func TestResolvedValuesGiveTheSameStruct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := &config{
			Query: rapid.String().Draw(t, "query"),
			In:    rapid.SliceOfN(rapid.StringMatching(`[^,]+`), 0, 4).Draw(t, "in"),
			Fast:  rapid.Bool().Draw(t, "fast"),
			N:     rapid.Int().Draw(t, "n"),
			Small: rapid.Int8().Draw(t, "small"),
			U:     rapid.Uint16().Draw(t, "u"),
			Ratio: rapid.Float64().Draw(t, "ratio"),
			Every: time.Duration(rapid.Int64().Draw(t, "every")),
		}
		if len(cfg.In) == 0 {
			cfg.In = nil
		}
		s, _ := param.Of(cfg)
		values := s.Values()
		again := &config{}
		s, _ = param.Of(again)
		if diags := s.Apply(values); len(diags) > 0 {
			t.Fatal(diags)
		}
		if d := cmp.Diff(cfg, again, cmp.AllowUnexported(config{}, param.Secret{}), cmpopts.IgnoreFields(config{}, "Hook")); d != "" {
			t.Fatal(d)
		}
	})
}

func TestAParameterOfSubmitIsToldHowItIsWrittenHere(t *testing.T) {
	_, _, diags := bind(t, "-p", "query=f2")
	if len(diags) != 1 || !strings.Contains(strings.Join(diags[0].Hints, "; "), "-p name=value is for sluice submit") {
		t.Errorf("%v", diags)
	}
}

func TestEveryFaultIsReportedWithItsFix(t *testing.T) {
	_, _, diags := bind(t, "stray", "--qury=f2", "--n=many", "--small=300", "--every=soon", "--token=hunter2",
		"--fast=perhaps", "--ratio=x", "--in", "--query=a", "--query=b")
	got := map[string]string{}
	for _, d := range diags {
		got[d.Message] = d.Code + " " + strings.Join(d.Hints, "; ")
	}
	want := map[string]string{
		`unexpected argument "stray"`:             "E031 parameters are written --name=value; a verb (plan, vet) comes first",
		`unknown parameter --qury`:                "E031 did you mean --query?; known parameters: --query, --in, --fast, --n, --small, --u, --ratio, --every, --token, --untagged",
		`--n="many": invalid syntax`:              "E032 --n wants an integer, as in 42",
		`--small="300": value out of range`:       "E032 --small wants an integer, as in 42",
		`--every="soon": invalid duration "soon"`: "E032 --every wants a duration, as in 1m30s",
		`--token: not a reference to a secret`:    "E032 --token wants a reference, env:NAME or file:/path, never the secret itself",
		`--fast="perhaps": invalid syntax`:        "E032 --fast wants true or false",
		`--ratio="x": invalid syntax`:             "E032 --ratio wants a number, as in 0.5",
		`--in has no value`:                       "E032 write --in=VALUE",
		`--query is given twice`:                  "E032 give it once",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestStructsThatCannotBeConfigurations(t *testing.T) {
	for name, cfg := range map[string]any{
		"not a struct": new(int),
		"nested":       &struct{ A struct{ B int } }{},
		"map":          &struct{ M map[string]string }{},
		"reserved":     &struct{ Help string }{},
		"dotted": &struct {
			A string `flag:"sluice.a"`
		}{},
		"same name": &struct {
			A, B string `flag:"x"`
		}{},
	} {
		_, diags := param.Of(cfg)
		if len(diags) != 1 || diags[0].Code != "E035" || len(diags[0].Hints) == 0 {
			t.Errorf("%s: %v", name, diags)
		}
	}
	s, _ := param.Of(&struct {
		N int `default:"x"`
	}{})
	if diags := s.SetDefaults(); len(diags) != 1 || diags[0].Code != "E032" {
		t.Errorf("bad default: %v", diags)
	}
}

func TestSecretsShowTheirReferenceOnly(t *testing.T) {
	t.Setenv("SLUICE_PARAM_TEST", "hunter2")
	s, err := param.ParseSecret("env:SLUICE_PARAM_TEST")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.String(); got != "secret(env:SLUICE_PARAM_TEST)" {
		t.Errorf("text is %q", got)
	}
	if v, err := s.Reveal(); err != nil || v != "hunter2" {
		t.Errorf("revealed %q, %v", v, err)
	}
	missing, _ := param.ParseSecret("file:" + t.TempDir() + "/none")
	if _, err := missing.Reveal(); err == nil {
		t.Error("a secret that does not exist was revealed")
	}
}

func TestClosestIsEmptyWhenNothingIsNear(t *testing.T) {
	for name, want := range map[string]string{"qery": "query", "paralelism": "parallelism", "zzz": "", "": ""} {
		if got := param.Closest(name, []string{"query", "parallelism", "input"}); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
