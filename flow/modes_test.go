package flow_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
)

type wordConfig struct {
	Lines []string      `flag:"lines" default:"a b a,c" help:"text to count"`
	Every time.Duration `flag:"every" default:"1s" help:"window size"`
	Token flow.Secret   `flag:"token"`
}

func buildWords(p *flow.Pipeline, cfg *wordConfig) error {
	p.Of("lines", cfg.Lines...).
		FlatMapSeq(strings.FieldsSeq).ID("words").
		KeyBy(flow.Self).
		Count().ID("count").
		To("counts", drop[flow.KV[string, int64]]())
	return nil
}

// call runs a mode of a job binary.
func call(job launch.Job, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = launch.Run(job, args, launch.Streams{Out: &out, Err: &err})
	return code, out.String(), err.String()
}

func words() launch.Job { return flow.JobOf("words", buildWords) }

func TestWrongArgumentsEndWithCodeTwoAndSayTheFix(t *testing.T) {
	for args, want := range map[string]string{
		"--lins=x":                  "error E031: unknown parameter --lins\n  fix: did you mean --lines?",
		"plan --every=soon":         "error E032: --every=\"soon\": invalid duration \"soon\"\n  fix: --every wants a duration, as in 1m30s",
		"plam":                      "error E031: unknown verb \"plam\"\n  fix: did you mean plan?",
		"--sluice.paralelism=4":     "error E034",
		"vet --sluice.parallelism=": "error E036",
		"plan --token=hunter2":      "error E032: --token: not a reference to a secret",
		"stray":                     "error E031",
		"--json":                    "error E031: unknown parameter --json",
	} {
		code, stdout, stderr := call(words(), strings.Fields(args)...)
		if code != launch.ExitPlan || !strings.HasPrefix(stderr, want) || stdout != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr:\n%s\nwant %q", args, code, stdout, stderr, want)
		}
	}
}

func TestHelpListsParametersAndSettings(t *testing.T) {
	for _, arg := range []string{"--help", "-h", "help", "plan --help"} {
		code, stdout, stderr := call(words(), strings.Fields(arg)...)
		if code != launch.ExitOK || stderr != "" {
			t.Errorf("%s: exit %d, stderr %q", arg, code, stderr)
		}
		for _, want := range []string{"--lines", "(default a b a,c)", "text to count", "--every", "--token", "--sluice.parallelism", "words plan"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s does not say %q:\n%s", arg, want, stdout)
			}
		}
	}
}

func TestVetAcceptsASoundJob(t *testing.T) {
	code, stdout, stderr := call(words(), "vet")
	if code != launch.ExitOK || !strings.HasPrefix(stdout, "words is sound: 4 operators, fingerprint ") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

func TestVetFindsPlansThatDependOnTheBuild(t *testing.T) {
	calls := 0
	for name, build := range map[string]func(p *flow.Pipeline, _ *flow.NoConfig) error{
		"an id": func(p *flow.Pipeline, _ *flow.NoConfig) error {
			p.Of("a", 1).Map(double).ID(fmt.Sprint("m", calls)).To("out", drop[int]())
			return nil
		},
		"an operator": func(p *flow.Pipeline, _ *flow.NoConfig) error {
			s := p.Of("a", 1)
			if calls%3 == 0 {
				s = s.Map(double)
			}
			s.To("out", drop[int]())
			return nil
		},
		"a setting": func(p *flow.Pipeline, _ *flow.NoConfig) error {
			p.MaxParallelism(100 + calls)
			p.Of("a", 1).To("out", drop[int]())
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls = 0
			counted := func(p *flow.Pipeline, c *flow.NoConfig) error {
				calls++
				return build(p, c)
			}
			code, _, stderr := call(flow.JobOf("unstable", counted), "vet")
			if code != launch.ExitPlan || !strings.HasPrefix(stderr, "error E030: two builds with the same parameters gave different plans") ||
				!strings.Contains(stderr, "fix: build must be a pure function") {
				t.Errorf("exit %d: %s", code, stderr)
			}
			if calls > launch.Builds {
				t.Errorf("%d builds", calls)
			}
		})
	}
}

func TestPanicsAndErrorsOfBuildArePlanErrors(t *testing.T) {
	for want, build := range map[string]func(*flow.Pipeline, *flow.NoConfig) error{
		"error E043: build panicked: boom\n  at flow/modes_test.go:": func(*flow.Pipeline, *flow.NoConfig) error { panic("boom") },
		"error E043: build panicked: runtime error: index out of range [1] with length 0\n  at flow/modes_test.go:": func(p *flow.Pipeline, _ *flow.NoConfig) error {
			var none []int
			_ = none[1+len(none)]
			return nil
		},
		"error E046: build returned an error: no input\n  at flow/modes_test.go:": func(*flow.Pipeline, *flow.NoConfig) error {
			return fmt.Errorf("no input")
		},
	} {
		code, _, stderr := call(flow.JobOf("broken", build), "plan")
		if code != launch.ExitPlan || !strings.HasPrefix(stderr, want) {
			t.Errorf("exit %d: %s\nwant %s", code, stderr, want)
		}
	}
}

func TestConfigurationsThatCannotBeParameters(t *testing.T) {
	type bad struct{ M map[string]string }
	code, _, stderr := call(flow.JobOf("bad", func(*flow.Pipeline, *bad) error { return nil }), "plan")
	if code != launch.ExitPlan || !strings.HasPrefix(stderr, "error E035: configuration field M has type map[string]string") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
