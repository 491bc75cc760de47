package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

type suite struct {
	root, dir string
	input     string
	expected  map[string]digest
	addr      string // coordinators of the cluster, once it runs
	n         int    // runs so far, for output directories
}

type digest struct {
	Count    int64
	Sum, Xor string
}

func (d digest) String() string { return fmt.Sprintf("%d %s %s", d.Count, d.Sum, d.Xor) }

func (s *suite) prepare() error {
	s.input = filepath.Join(s.root, "data", "flights-3m")
	if _, err := os.Stat(s.input); err != nil {
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
	s.expected = file.Queries
	return nil
}

func (s *suite) bin(parts ...string) string {
	return filepath.Join(append([]string{s.root, "bin"}, parts...)...)
}

func (s *suite) claims() (cs []claim) {
	for _, q := range []string{"f1", "f2"} {
		for _, p := range []int{1, 2, 4} {
			cs = append(cs, claim{
				name:    fmt.Sprintf("%s over 3,000,000 flights is exact, embedded, parallelism %d", q, p),
				command: fmt.Sprintf("bin/examples/flights --query=%s --input=data/flights-3m --out=OUT --sluice.parallelism=%d", q, p),
				check:   func(ctx context.Context) (string, error) { return s.embedded(ctx, q, p) },
			})
		}
	}
	cs = append(cs, claim{name: "a cluster of 3 coordinators and 3 workers starts", command: "sluice dev --coordinators 3 --workers 3 --slots 4 --data-dir DIR --detach", check: s.startCluster})
	for _, q := range []string{"f1", "f2"} {
		for _, p := range []int{1, 2, 4} {
			cs = append(cs, claim{
				name:    fmt.Sprintf("%s over 3,000,000 flights is exact, on the cluster, parallelism %d", q, p),
				command: fmt.Sprintf("sluice submit bin/examples/flights -p query=%s -p input=data/flights-3m -p out=OUT --parallelism %d --wait", q, p),
				check:   func(ctx context.Context) (string, error) { return s.onCluster(ctx, q, p) },
			})
		}
	}
	return append(cs,
		claim{name: "the cluster stops and leaves no process", command: "sluice dev stop --data-dir DIR", check: s.stopCluster},
		claim{name: "20 kills of the leader under a storm of submits", command: "make jepsen", check: s.storm},
		claim{name: "goals of speed, against baselines in the same run", command: "make speed", check: s.speed},
	)
}

func (s *suite) out() string {
	s.n++
	return filepath.Join(s.dir, fmt.Sprintf("out-%d", s.n))
}

func (s *suite) compare(ctx context.Context, query, out string, took time.Duration) (string, error) {
	got, err := run(ctx, s.root, nil, s.bin("sluice"), "digest", out)
	if err != nil {
		return "", err
	}
	if want := s.expected[query].String(); got != want {
		return got, fmt.Errorf("digest %s, want %s", got, want)
	}
	return fmt.Sprintf("%s, %.1f M records/s", got, 3/took.Seconds()), nil
}

func (s *suite) embedded(ctx context.Context, query string, parallelism int) (string, error) {
	out := s.out()
	start := time.Now()
	_, err := run(ctx, s.root, nil, s.bin("examples", "flights"), "--query="+query, "--input="+s.input, "--out="+out, fmt.Sprintf("--sluice.parallelism=%d", parallelism))
	if err != nil {
		return "", err
	}
	return s.compare(ctx, query, out, time.Since(start))
}

func (s *suite) startCluster(ctx context.Context) (string, error) {
	data := filepath.Join(s.dir, "cluster")
	start := time.Now()
	if _, err := run(ctx, s.root, nil, s.bin("sluice"), "dev", "--coordinators", "3", "--workers", "3", "--slots", "4", "--data-dir", data, "--detach"); err != nil {
		return "", err
	}
	took := time.Since(start)
	raw, err := os.ReadFile(filepath.Join(data, "cluster.json"))
	if err != nil {
		return "", err
	}
	var file struct {
		Nodes []struct{ Role, API string }
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return "", err
	}
	var addrs []string
	for _, n := range file.Nodes {
		if n.Role == "coordinator" {
			addrs = append(addrs, n.API)
		}
	}
	s.addr = strings.Join(addrs, ",")
	return took.Round(time.Millisecond).String(), nil
}

func (s *suite) onCluster(ctx context.Context, query string, parallelism int) (string, error) {
	out := s.out()
	start := time.Now()
	_, err := run(ctx, s.root, []string{"SLUICE_ADDR=" + s.addr}, s.bin("sluice"), "submit", s.bin("examples", "flights"),
		"-p", "query="+query, "-p", "input="+s.input, "-p", "out="+out, "--parallelism", fmt.Sprint(parallelism), "--wait", "--timeout", "5m")
	if err != nil {
		return "", err
	}
	return s.compare(ctx, query, out, time.Since(start))
}

func (s *suite) stopCluster(ctx context.Context) (string, error) {
	_, err := run(ctx, s.root, nil, s.bin("sluice"), "dev", "stop", "--data-dir", filepath.Join(s.dir, "cluster"))
	return "", err
}

func (s *suite) storm(ctx context.Context) (string, error) {
	out, err := run(ctx, s.root, nil, "make", "jepsen")
	return lastLine(out, "storm:"), err
}

func (s *suite) speed(ctx context.Context) (string, error) {
	_, err := run(ctx, s.root, nil, "make", "speed")
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
