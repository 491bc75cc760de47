package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Options say how cases are run.
type Options struct {
	Events      int64
	Seed        uint64
	UsPerEvent  int64
	Rate        int // events per second; 0: full speed
	Parallelism int
	Procs       int // GOMAXPROCS of both sides; 0: as many as subtasks
	Full        bool
	Repeat      int
	Settings    []string // name=value, of the job
	// Load is the binary; empty: beside this one.
	Load string
	// Progress is told what is done.
	Progress func(string)
}

// Validate reports every fault at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Events < 1 || o.UsPerEvent < 1 || o.Repeat < 1 || o.Parallelism < 1 {
		errs = append(errs, fmt.Errorf("events %d, µs per event %d, repeats %d, parallelism %d: none may be below 1", o.Events, o.UsPerEvent, o.Repeat, o.Parallelism))
	}
	if o.Rate < 0 || o.Procs < 0 {
		errs = append(errs, fmt.Errorf("rate %d, procs %d: neither may be negative", o.Rate, o.Procs))
	}
	return errors.Join(errs...)
}

// loadName is the binary beside sluice, as make build puts it.
const loadName = "bench-load"

// FindLoad looks for the binary of the cases: the one that was named, or beside this one.
func (o *Options) FindLoad() error {
	if o.Load == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.Load = filepath.Join(filepath.Dir(self), loadName)
	}
	if _, err := os.Stat(o.Load); err != nil {
		return fmt.Errorf("%w; make build makes it, or --load names another place", err)
	}
	return nil
}

// Run is one measured run, as the load binary prints it.
type Run struct {
	Events    int64    `json:"events"`
	Seconds   float64  `json:"seconds"`
	CPU       float64  `json:"cpuSeconds"`
	Rows      int64    `json:"rows"`
	Sum       string   `json:"sum"`
	Allocs    int64    `json:"allocations"`
	Resident  int64    `json:"residentBytes"`
	Mode      string   `json:"mode"`
	Canonical string   `json:"canonical"`
	Latency   *Latency `json:"latencyMs,omitempty"`
}

// Latency are percentiles of rows behind their due time, in milliseconds.
type Latency struct {
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99.9"`
	P9999 float64 `json:"p99.99"`
	Max   float64 `json:"max"`
	Count int64   `json:"count"`
}

// same: two runs gave the same rows.
func same(a, b Run) bool { return a.Rows == b.Rows && a.Sum == b.Sum }

// DigestError is a run that gave other rows than it should: there is no figure of it.
type DigestError struct {
	Case      string
	Got, Want string
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("%s: digest %s, want %s: a wrong answer has no speed", e.Case, e.Got, e.Want)
}

func (r Run) digest() string { return fmt.Sprintf("%d rows %s", r.Rows, r.Sum) }

// Measure runs a case as often as asked, in turns with its loop.
func (o *Options) Measure(ctx context.Context, c Case) (*Report, error) {
	if c.judged {
		o.Progress(c.Name + ": check the answer")
		if _, err := o.process(ctx, c.verb, append(o.job(), append(c.args, "--check")...)); err != nil {
			return nil, err
		}
	}
	var loops, runs []Run
	for i := range o.Repeat {
		o.Progress(fmt.Sprintf("%s: run %d of %d", c.Name, i+1, o.Repeat))
		if c.loop != nil && o.Rate == 0 {
			r, err := o.process(ctx, "cost", append(o.input(), c.loop...))
			if err != nil {
				return nil, err
			}
			loops = append(loops, r)
		}
		r, err := o.process(ctx, c.verb, append(append(o.job(), o.input()...), c.args...))
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
		want := runs[0]
		if loops != nil {
			want = loops[i]
		}
		if !same(r, want) {
			return nil, &DigestError{c.Name, r.digest(), want.digest()}
		}
	}
	return o.report(c, runs, loops), nil
}

// job are the arguments that only the engine understands.
func (o *Options) job() []string {
	args := []string{"--parallelism=" + strconv.Itoa(o.Parallelism)}
	for _, s := range o.Settings {
		args = append(args, "--set="+s)
	}
	return args
}

// input are the arguments that both sides understand.
func (o *Options) input() []string {
	return []string{
		"--events=" + strconv.FormatInt(o.Events, 10), "--seed=" + strconv.FormatUint(o.Seed, 10), "--usPerEvent=" + strconv.FormatInt(o.UsPerEvent, 10),
		"--rate=" + strconv.Itoa(o.Rate), "--full=" + strconv.FormatBool(o.Full),
	}
}

func (o *Options) procs() int {
	if o.Procs > 0 {
		return o.Procs
	}
	return o.Parallelism
}

// process runs the load binary once.
func (o *Options) process(ctx context.Context, verb string, args []string) (r Run, err error) {
	cmd := exec.CommandContext(ctx, o.Load, append([]string{verb}, args...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(o.procs()))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%s %s: %w: %s", loadName, strings.Join(cmd.Args[1:], " "), err, strings.TrimSpace(stderr.String()))
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("%s %s printed %q: %w", loadName, verb, out, err)
	}
	return r, nil
}
