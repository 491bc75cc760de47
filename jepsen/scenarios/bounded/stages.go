package bounded

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Stages is the job `sluice job stages`: two inputs whose splits are handed out as they are read meet in one stage, whose
// records are rebalanced in the order of their arrival, counted by key, and gathered by the last digit of the key.
type Stages struct {
	Binary        string // sluice, which is its own job binary
	Artifact      string // its SHA-256, in hex
	Records, Keys int64
	PauseUs       int // that each subtask rests after 1000 records
}

// spec makes the job.
func (j Stages) spec(name, out string, parallelism int32, settings map[string]string) *jobpb.JobSpec {
	return &jobpb.JobSpec{Name: name, Artifact: j.Artifact, Parallelism: parallelism, Settings: settings, Params: map[string]string{
		"job": "stages", "records": strconv.FormatInt(j.Records, 10), "keys": strconv.FormatInt(j.Keys, 10),
		"pause": strconv.Itoa(j.PauseUs), "out": out,
	}}
}

// upload stores the binary.
func (j Stages) upload(ctx context.Context, c *cluster.Cluster) error {
	cmd := exec.CommandContext(ctx, j.Binary, "submit", j.Binary, "--dry-run", "-p", "job=stages")
	cmd.Env = append(os.Environ(), "SLUICE_ADDR="+strings.Join(c.Addresses(), ","))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("upload: %w: %s", err, out)
	}
	return nil
}

// rows are the right answer, by a plain loop: DIGIT|KEYS|COUNT|SUM|XOR, sorted as text.
func (j Stages) rows() []string {
	var keys, count, sum, xor [10]int64
	for k := range min(j.Keys, j.Records) {
		keys[k%10]++
	}
	for i := range j.Records {
		d := i % j.Keys % 10
		count[d]++
		sum[d] += i
		xor[d] ^= i
	}
	var rows []string
	for d := range keys {
		if keys[d] > 0 {
			rows = append(rows, fmt.Sprintf("%d|%d|%d|%d|%d", d, keys[d], count[d], sum[d], xor[d]))
		}
	}
	slices.Sort(rows)
	return rows
}

// committed are the rows of the part files of dir, sorted. Hidden files are output in progress.
func committed(dir string) (rows []string, err error) {
	parts, err := filepath.Glob(filepath.Join(dir, "[^.]*"))
	if err != nil {
		return nil, err
	}
	for _, name := range parts {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		rows = append(rows, strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")...)
	}
	slices.Sort(rows)
	return slices.DeleteFunc(rows, func(r string) bool { return r == "" }), nil
}

// check compares what a job has made visible with the right answer.
func (j Stages) check(out string) error {
	got, err := committed(out)
	if err != nil {
		return err
	}
	if want := j.rows(); !slices.Equal(got, want) {
		return fmt.Errorf("rows %v, want %v", got, want)
	}
	return nil
}
