package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		"nexmark q5 q6":    "nexmark q5 run [--query=q5] loop [--query=q5]; nexmark q6 run [--query=q6] loop []",
		"cost q0":          "cost q0 cost [--query=q0] loop []",
		"keyed 10 20 zipf": "keyed 10 zipf run [--keys=10 --zipf] loop []; keyed 20 zipf run [--keys=20 --zipf] loop []",
		"keyed 1 uniform":  "keyed 1 run [--keys=1] loop []",
		"":                 "error",
		"nexmark q99":      "error",
		"cost q6":          "error",
		"keyed":            "error",
		"keyed 0":          "error",
		"keyed many":       "error",
		"teleport 1":       "error",
	} {
		cases, err := Parse(strings.Fields(line))
		var got []string
		for _, c := range cases {
			got = append(got, fmt.Sprintf("%s %s %v loop %v", c.Name, c.verb, c.args, c.loop))
		}
		if err != nil {
			got = []string{"error"}
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%q: %s, want %s", line, text, want)
		}
	}
	if all, err := Parse([]string{"nexmark"}); err != nil || len(all) != len(queries) {
		t.Error(len(all), err)
	}
}

// load is a binary of cases that prints what the script says.
func load(t *testing.T, script string) *Options {
	t.Helper()
	path := filepath.Join(t.TempDir(), loadName)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return &Options{Events: 100, UsPerEvent: 1, Repeat: 3, Parallelism: 1, Load: path, Progress: func(string) {}}
}

const line = `echo '{"events":100,"seconds":%s,"cpuSeconds":%s,"rows":7,"sum":"%s","allocations":200,"mode":"streaming"}'` + "\n"

func TestRatiosAreThoseOfPairs(t *testing.T) {
	o := load(t, "if [ $1 = cost ]; then\n"+fmt.Sprintf(line, "1", "1", "5")+"else\n"+fmt.Sprintf(line, "4", "2", "5")+"fi\n")
	r, err := o.Measure(t.Context(), nexmark("q5"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Ratio != 0.5 || r.PerSecond != 25 || r.PerCPU != 50 || r.Allocs != 2 || r.Repeats != 3 || !r.Judged {
		t.Errorf("%+v", r)
	}
	var out bytes.Buffer
	if err := errors.Join(WriteJSON(&out, []*Report{r}), Compare([]*Report{r}, &out)); err != nil || r.Before != 50 {
		t.Error(err, r.Before)
	}
	if err := WriteTable(&out, []*Report{r}); err != nil || !strings.Contains(out.String(), "streaming") || strings.Contains(out.String(), "p99") {
		t.Error(err, out.String())
	}
	out.Reset()
	if err := WriteCSV(&out, []*Report{r}); err != nil || strings.Count(out.String(), "\n") != 2 {
		t.Error(err, out.String())
	}
}

// A run whose rows differ from those of the loop has no figure.
func TestAWrongAnswerHasNoFigure(t *testing.T) {
	o := load(t, "if [ $1 = cost ]; then\n"+fmt.Sprintf(line, "1", "1", "5")+"else\n"+fmt.Sprintf(line, "4", "2", "6")+"fi\n")
	r, err := o.Measure(t.Context(), nexmark("q5"))
	if _, ok := errors.AsType[*DigestError](err); !ok || r != nil {
		t.Error(r, err)
	}
}

func TestARunThatFailsSaysWhy(t *testing.T) {
	o := load(t, "echo the engine is on fire >&2; exit 3")
	if _, err := o.Measure(t.Context(), nexmark("q5")); err == nil || !strings.Contains(err.Error(), "on fire") {
		t.Error(err)
	}
	o = load(t, "echo nonsense")
	if _, err := o.Measure(t.Context(), nexmark("q5")); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Error(err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	o := Options{Rate: -1, Load: filepath.Join(t.TempDir(), "missing")}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "rate -1") || !strings.Contains(err.Error(), "events 0") {
		t.Error(err)
	}
	if err := o.FindLoad(); err == nil {
		t.Error("found")
	}
}
