package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// suite is what the claims need.
type suite struct {
	root, dir string
	input     string
	flights   *workload
	auctions  []*workload
	addr      string // coordinators of the cluster; empty: it does not run
	n         int    // runs so far, for output directories
}

type digest struct {
	Count    int64
	Sum, Xor string
}

func (d digest) String() string { return fmt.Sprintf("%d %s %s", d.Count, d.Sum, d.Xor) }

// workload is a job binary whose queries have known answers over some input.
type workload struct {
	name     string
	binary   string
	records  float64
	expected map[string]digest
	// params of a query, as NAME=VALUE in the order of names.
	params func(query, out string) []string
}

const rows = 3_000_000

// parameters of the full data, where they differ from those of the sample.
var parameters = map[string]string{"cut": "2001-04-01", "half": "1500000"}

func (s *suite) prepare() error {
	s.input = filepath.Join(s.root, "data", "flights-3m")
	head := make([]byte, 200)
	f, err := os.Open(filepath.Join(s.input, "part-000.csv"))
	if err != nil {
		return errNoData
	}
	n, err := f.Read(head)
	if err := f.Close(); err != nil {
		return err
	}
	if header, _, _ := bytes.Cut(head[:n], []byte("\n")); err != nil || !bytes.HasSuffix(header, []byte(",row")) {
		return errNoData
	}
	raw, err := os.ReadFile(filepath.Join(s.root, "examples", "flights", "data", "flights_expected.json"))
	if err != nil {
		return err
	}
	var file struct{ Queries map[string]digest }
	if err := json.Unmarshal(raw, &file); err != nil {
		return err
	}
	s.flights = &workload{name: "flights", binary: "flights", records: rows, expected: file.Queries, params: s.params}
	s.auctions, err = readAuctions(s.root)
	return err
}

func (s *suite) bin(parts ...string) string {
	return filepath.Join(append([]string{s.root, "bin"}, parts...)...)
}

// queries whose answers are known, in the order of the page.
var queries = []string{"f1", "f2", "f3", "f4", "f5", "f6", "f8"}

var parallelisms = []int{1, 2, 4}

func (s *suite) claims() (cs []claim) {
	for _, q := range queries {
		for _, p := range parallelisms {
			cs = append(cs, claim{
				name:    fmt.Sprintf("%s over 3,000,000 flights is exact, embedded, parallelism %d, in every mode and schedule", q, p),
				command: s.shown(q, p),
				check:   func(ctx context.Context) (string, error) { return s.matrix(ctx, q, p) },
			})
		}
	}
	cs = append(cs, s.disorderClaims()...)
	cs = append(cs, s.auctionClaims(embedded)...)
	cs = append(cs, s.batchClaims()...)
	cs = append(cs, s.stateClaims()...)
	cs = append(cs, s.clusterClaims()...)
	cs = append(cs,
		s.faults("20 kills of the leader under a storm of submits lose and double none, and a running job does not notice", "NoSubmit", "-kills 20", "storm:"),
		s.faults("30 losses of workers, of the split enumerator, and of the leader with them re-run what the rules allow, and the rows are right", "ALossOfAWorker", "-kills 30", "losses:"),
		s.faults("each partition file deleted, truncated, with a bit flipped: exactly its producer runs again, and what had not finished", "ADamagedFile", "-damages -1", "damages:"),
		s.faults("two jobs that each need all slots, submitted together 100 times, both finish", "TwoJobs", "-rounds 100", "contest:"),
	)
	return append(cs,
		claim{name: "goals of speed, against baselines in the same run", command: "make speed", check: s.speed},
		s.goTest("goals of speed of keyed state at ten million keys, and of a barrier: 0.2 ms at most", "./worker/state ./flow/flowtest", "-p 1 -run ^TestSpeed -long", " keys: "),
	)
}

// shown is the command of a matrix, for the page.
func (s *suite) shown(query string, parallelism int) string {
	return fmt.Sprintf("bin/examples/flights --query=%s --input=data/flights-3m --out=OUT --cut=2001-04-01 --half=1500000 --sluice.parallelism=%d --sluice.mode=MODE --sluice.schedule=SCHEDULE",
		query, parallelism)
}

var (
	modes     = []string{"auto", "streaming", "batch"}
	schedules = []string{"region", "eager", "lazy"}
)

// matrix runs a query in every mode under every schedule.
func (s *suite) matrix(ctx context.Context, query string, parallelism int) (string, error) {
	var took []time.Duration
	for _, mode := range modes {
		for _, schedule := range schedules {
			d, err := s.embedded(ctx, s.flights, query, map[string]string{"parallelism": strconv.Itoa(parallelism), "mode": mode, "schedule": schedule})
			if err != nil {
				return "", fmt.Errorf("mode %s, schedule %s: %w", mode, schedule, err)
			}
			took = append(took, d)
		}
	}
	return s.flights.figure(query, took), nil
}

// figure is the digest of a query and how fast its runs were.
func (w *workload) figure(query string, took []time.Duration) string {
	slow, fast := slices.Max(took), slices.Min(took)
	return fmt.Sprintf("%s, %d runs, %.1f to %.1f M records/s", w.expected[query], len(took), w.records/1e6/slow.Seconds(), w.records/1e6/fast.Seconds())
}

func (s *suite) out() string {
	s.n++
	return filepath.Join(s.dir, fmt.Sprintf("out-%d", s.n))
}

// compare checks the digest of an output and removes the output.
func (s *suite) compare(ctx context.Context, w *workload, query, out string) error {
	got, err := output(ctx, s.root, nil, s.bin("sluice"), "digest", out)
	if err != nil {
		return err
	}
	if want := w.expected[query].String(); got != want {
		return fmt.Errorf("digest %s, want %s", got, want)
	}
	return os.RemoveAll(out)
}

// params are the parameters of a query over the flights.
func (s *suite) params(query, out string) []string {
	ps := []string{"query=" + query, "input=" + s.input, "out=" + out, "order=observed", "airports=" + filepath.Join(s.root, "data", "airports.csv")}
	for name, v := range parameters {
		ps = append(ps, name+"="+v)
	}
	slices.Sort(ps)
	return ps
}

// embedded runs a query in one process and returns the time that it took, if its answer is right.
func (s *suite) embedded(ctx context.Context, w *workload, query string, settings map[string]string) (time.Duration, error) {
	out := s.out()
	var args []string
	for _, p := range w.params(query, out) {
		args = append(args, "--"+p)
	}
	for name, v := range settings {
		args = append(args, "--sluice."+name+"="+v)
	}
	start := time.Now()
	if _, err := output(ctx, s.dir, nil, s.bin("examples", w.binary), args...); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return took, s.compare(ctx, w, query, out)
}

// faults is a claim that a scenario of jepsen holds, with the line of its output that begins with word as the figure.
func (s *suite) faults(name, test, flags, word string) claim {
	arg := "JEPSEN=-run " + test + " " + flags
	return claim{name: name, command: "make jepsen '" + arg + "'", check: func(ctx context.Context) (string, error) {
		out, err := output(ctx, s.root, nil, "make", "jepsen", arg)
		return lastLine(out, word), err
	}}
}

func (s *suite) speed(ctx context.Context) (string, error) {
	_, err := output(ctx, s.root, nil, "make", "speed")
	if err != nil {
		return "", err
	}
	return "every ratio within its limit", nil
}

// lastLine is the last line of out that contains word: the summary of a long output.
func lastLine(out, word string) string {
	found := ""
	for line := range strings.Lines(out) {
		if i := strings.Index(line, word); i >= 0 {
			found = strings.TrimSpace(line[i:])
		}
	}
	return found
}
