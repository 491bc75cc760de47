package endtoend

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// expected are the digests of the sample.
func expected(t *testing.T) map[string]digest {
	t.Helper()
	raw, err := os.ReadFile(absolute(t, "examples", "flights", "data", "flights200k_expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Queries map[string]digest }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Queries
}

// flightsArgs are the parameters of a query over the sample, for submit.
func flightsArgs(t *testing.T, query, out string) []string {
	t.Helper()
	data := absolute(t, "examples", "flights", "data")
	return []string{"-p", "query=" + query, "-p", "out=" + out,
		"-p", "input=" + filepath.Join(data, "flights-200k.csv.gz"), "-p", "airports=" + filepath.Join(data, "airports.csv.gz")}
}

func TestEveryQueryIsExactOnACluster(t *testing.T) {
	c := newCluster(t, options{workers: 2, slots: 4})
	want := expected(t)
	for _, run := range []struct{ query, mode, schedule string }{
		{"f1", "batch", "region"},
		{"f2", "auto", "eager"},
		{"f3", "auto", "region"},
		{"f5", "auto", "region"},
		{"f6", "streaming", "region"},
		{"f8", "batch", "lazy"},
	} {
		out := filepath.Join(t.TempDir(), run.query)
		args := append(flightsArgs(t, run.query, out), "--parallelism", "4", "--set", "mode="+run.mode, "--set", "schedule="+run.schedule)
		c.finish("flights", args...)
		if got := digestOf(t, out); got != want[run.query] {
			t.Errorf("%s in mode %s under %s: digest %+v, want %+v", run.query, run.mode, run.schedule, got, want[run.query])
		}
	}
}

// The program by itself, without the race detector, which would take minutes for this.
func TestEveryQueryIsExactAtAnyParallelismInAnyModeUnderAnySchedule(t *testing.T) {
	want := expected(t)
	for _, query := range []string{"f1", "f2", "f3", "f5", "f6", "f8"} {
		for _, parallelism := range []string{"1", "4"} {
			for _, mode := range []string{"auto", "streaming", "batch"} {
				for _, schedule := range []string{"region", "eager", "lazy"} {
					if parallelism == "1" && schedule != "region" {
						continue // make verify has these too
					}
					out := filepath.Join(t.TempDir(), "out")
					a := command(t, nil, bin("flights"), "--query="+query, "--input="+absolute(t, "examples", "flights", "data", "flights-200k.csv.gz"),
						"--airports="+absolute(t, "examples", "flights", "data", "airports.csv.gz"), "--out="+out,
						"--sluice.parallelism="+parallelism, "--sluice.mode="+mode, "--sluice.schedule="+schedule)
					if got := digestOf(t, out); a.exit != exitOK || got != want[query] {
						t.Errorf("%s at parallelism %s in mode %s under %s: digest %+v, want %+v\n%s", query, parallelism, mode, schedule, got, want[query], a)
					}
				}
			}
		}
	}
}

func TestTheStreamOfAMixedJobStartsWhenItsPastIsThere(t *testing.T) {
	c := newCluster(t, options{workers: 2, slots: 4})
	out := filepath.Join(t.TempDir(), "f5")
	a := c.run(append([]string{"submit", bin("flights"), "--name", "late", "--parallelism", "2"}, flightsArgs(t, "f5", out)...)...)
	if a.exit != exitOK {
		t.Fatal(a)
	}
	stages := map[string]bool{}
	await(t, func() bool {
		s := c.status("late-1")
		checkOrder(t, s, stages)
		return s.Status == "JOB_FINISHED"
	})
	if got, want := digestOf(t, out), expected(t)["f5"]; got != want {
		t.Errorf("digest %+v, want %+v", got, want)
	}
	plan := c.run("plan", "late-1")
	for _, text := range []string{"BLOCKING", "PIPELINED", "region"} {
		if !strings.Contains(plan.out, text) {
			t.Errorf("the plan does not speak of %s:\n%s", text, plan.out)
		}
	}
}

// checkOrder: whoever reads the stream has been given a slot only if everything of the past has finished.
func checkOrder(t *testing.T, s jobStatus, seen map[string]bool) {
	t.Helper()
	started, past := false, true
	for _, task := range s.Subtasks {
		seen[task.Operators[0]+" "+task.State] = true
		switch head := task.Operators[0]; head {
		case "live", "unusual":
			started = started || task.Attempt > 0
		case "history", "per-route":
			past = past && task.State == "SUBTASK_FINISHED"
		default:
			t.Fatalf("unknown chain %q", head)
		}
	}
	if started && !past {
		t.Errorf("the stream has started before its past: %+v", s.Subtasks)
	}
}

// await asks again and again: another process has no channel to this one.
func await(t *testing.T, done func() bool) {
	t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for !done() {
		pause := time.NewTimer(20 * time.Millisecond)
		select {
		case <-pause.C:
		case <-limit.C:
			t.Fatal("it does not come to pass")
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

func TestAMixedJobMakesTheSameOffersOnAClusterAsEmbedded(t *testing.T) {
	dir := t.TempDir()
	params := []string{"customers=3000", "purchases=60000", "orders=20000"}
	var flags, submit []string
	for _, p := range params {
		flags, submit = append(flags, "--"+p), append(submit, "-p", p)
	}
	embedded := filepath.Join(dir, "embedded")
	if a := job(t, "mixed", append(flags, "--out="+embedded)...); a.exit != exitOK {
		t.Fatal(a)
	}
	want := digestOf(t, embedded)
	if want.Count < 1000 {
		t.Fatalf("only %d offers", want.Count)
	}
	c := newCluster(t, options{workers: 2, slots: 4})
	for _, mode := range []string{"auto", "streaming", "batch"} {
		out := filepath.Join(dir, mode)
		c.finish("mixed", append(submit, "-p", "out="+out, "--parallelism", "3", "--set", "mode="+mode)...)
		if got := digestOf(t, out); got != want {
			t.Errorf("mode %s: digest %+v, want %+v", mode, got, want)
		}
	}
}

// buckets are the rows of the answers of internal/trial: bucket|count|sum, of the values that add gives.
func buckets(add func(put func(key, value int64))) (rows []string) {
	var count, sum [8]int64
	add(func(key, value int64) {
		count[key%8]++
		sum[key%8] += value
	})
	for i := range count {
		if count[i] > 0 {
			rows = append(rows, fmt.Sprintf("%d|%d|%d", i, count[i], sum[i]))
		}
	}
	return rows
}

func checkRows(t *testing.T, dir string, want []string) {
	t.Helper()
	got := rowsOf(t, dir)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("rows %v\nwant %v", got, want)
	}
}

func TestDiamondsAndSelfJoinsOfPipelinedJobsFinish(t *testing.T) {
	const n = 200_000
	diamond := buckets(func(put func(key, value int64)) {
		for i := range int64(n) {
			put(i, 2*i)
		}
	})
	groups := buckets(func(put func(key, value int64)) {
		for i := range int64(n) {
			for j := i / 4 * 4; j < min(n, i/4*4+4); j++ {
				put(i, i+j)
			}
		}
	})
	c := newCluster(t, options{workers: 2, slots: 2})
	for name, want := range map[string][]string{"diamond": diamond, "selfjoin": groups} {
		out := filepath.Join(t.TempDir(), name)
		args := []string{"--job=" + name, fmt.Sprintf("--rows=%d", n), "--out=" + out}
		if a := job(t, "trial", append(args, "--sluice.mode=streaming", "--sluice.parallelism=2")...); a.exit != exitOK {
			t.Fatalf("%s: %v", name, a)
		}
		checkRows(t, out, want)
		if a := job(t, "trial", append([]string{"plan"}, append(args, "--sluice.mode=streaming")...)...); !strings.Contains(a.out, "diamond") {
			t.Errorf("%s: the plan does not say why an edge is BLOCKING\n%v", name, a)
		}
		out += "-cluster"
		c.finish("trial", "-p", "job="+name, "-p", fmt.Sprintf("rows=%d", n), "-p", "out="+out, "--set", "mode=streaming", "--parallelism", "2")
		checkRows(t, out, want)
	}
}
