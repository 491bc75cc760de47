package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := demo(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}

const (
	records = 200_000
	rate    = 20_000 // per second: the job takes ten seconds, enough to kill a leader in the middle
)

func demo(ctx context.Context) (err error) {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &shell{sluice: filepath.Join(root, "bin", "sluice"), data: filepath.Join(dir, "cluster")}
	example := filepath.Join(root, "examples", "flights")
	out := filepath.Join(dir, "out")

	say("1. A cluster: three coordinators (Raft) and three workers, six processes on loopback")
	if err := d.show(ctx, "dev", "--coordinators", "3", "--workers", "3", "--slots", "2", "--data-dir", d.data, "--detach"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.readNodes(); err != nil {
		return err
	}

	say("2. A job: hourly flights, delays and the worst delay per airport (f2), %d records at %d per second", records, rate)
	job, err := d.submit(ctx, filepath.Join(root, "bin", "examples", "flights"), map[string]string{
		"query": "f2", "input": filepath.Join(example, "data", "flights-200k.csv.gz"), "out": out, "rate": fmt.Sprint(rate),
	})
	if err != nil {
		return err
	}
	before, err := d.awaitRecords(ctx, job, records/4)
	if err != nil {
		return err
	}
	before.print()
	fmt.Println("   hourly has no attempt yet: its region starts when everything that flights gives is stored")

	say("3. kill -9 of the Raft leader, in the middle")
	gap, err := d.killLeader(ctx, job)
	if err != nil {
		return err
	}
	fmt.Printf("   the next answer came from a new leader after %v\n", gap.Round(time.Millisecond))
	if gap > 4*time.Second {
		return fmt.Errorf("the new leader took %v, more than 4 s", gap)
	}
	after, err := d.awaitRecords(ctx, job, before.most()+1) // the new leader hears of progress: nothing stood still
	if err != nil {
		return err
	}
	after.print()
	if err := sameAttempts(before, after); err != nil {
		return err
	}
	fmt.Println("   every task has kept its attempt number: nothing restarted")

	say("4. The answer")
	if err := d.show(ctx, "wait", job); err != nil {
		return err
	}
	final, err := d.status(ctx, job)
	if err != nil {
		return err
	}
	if err := sameAttempts(before, final); err != nil {
		return err
	}
	return d.compare(ctx, out, filepath.Join(example, "data", "flights200k_expected.json"))
}

func say(format string, args ...any) { fmt.Printf("\n"+format+"\n", args...) }

// compare checks the committed rows against an answer that another system has computed.
func (d *shell) compare(ctx context.Context, out, expected string) error {
	got, err := d.output(ctx, "digest", out)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(expected)
	if err != nil {
		return err
	}
	var want struct {
		Queries map[string]struct {
			Count    int64
			Sum, Xor string
		}
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		return fmt.Errorf("%s: %w", expected, err)
	}
	q := want.Queries["f2"]
	line := fmt.Sprintf("%d %s %s", q.Count, q.Sum, q.Xor)
	fmt.Printf("   digest of the output  %s\n   independent answer    %s\n", got, line)
	if got != line {
		return errors.New("the digests differ")
	}
	fmt.Println("   equal")
	return nil
}
