package scenarios

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/nemesis"
	"github.com/sluiceio/sluice/jepsen/traffic"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Options of a run. Zero values are the scenario's own.
type Options struct {
	Binary                string // sluice
	Dir                   string // report, history, data and logs of the run
	Seed                  uint64
	Duration              time.Duration // of the faults
	Workers, Coordinators int
	Log                   func(format string, args ...any)
	Command               string // that has this run again
}

// Lab is one run of a scenario.
type Lab struct {
	Options
	Scenario Scenario
	C        *cluster.Cluster
	Hand     *nemesis.Hand
	Client   *traffic.Client // of the scenario's own goroutine
	Job      string          // the ledger
	rnd      *rand.Rand

	log      *history.Recorder
	artifact string
	ledger   traffic.Ledger
	load     *traffic.Load
	reader   *traffic.Reader
	observer *traffic.Observer
	auditor  *traffic.Auditor
}

// Figures of the workload: what two cores bear beside a cluster of six processes.
const (
	ledgerRate    = 4000
	ledgerKeys    = 200
	baseline      = 4 * time.Second // without a fault, at first
	afterwards    = 8 * time.Second // of the workload behind the last fault: if it is over before the budget of recovery is, it has recovered
	settleAtMost  = 60 * time.Second
	finishAtMost  = 3 * time.Minute
	workerSlots   = 4
	defaultFaults = 15 * time.Second
)

// intervals of checkpoints, from which the seed draws one; checkpointsTake is how long one may last.
var intervals = []time.Duration{100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second}

const checkpointsTake = 5 * time.Second

// perform the scenario. An error is one of the harness: it means unknown.
func (l *Lab) perform(ctx context.Context) (err error) {
	file, err := os.Create(filepath.Join(l.Dir, "history.jsonl"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	l.log = history.New(file, time.Now)
	l.rnd = rand.New(rand.NewPCG(l.Seed, uint64(l.Scenario.Number)+1))
	l.log.Note(history.NoteRun, history.Run{
		Scenario: l.Scenario.Name, Number: l.Scenario.Number, Seed: l.Seed, Command: l.Command, Judged: l.Scenario.Judged,
	})
	if l.Scenario.own {
		return errors.Join(l.Scenario.faults(ctx, l), l.log.Err())
	}
	if l.artifact, err = traffic.Artifact(l.Binary); err != nil {
		return err
	}
	if err := l.raise(ctx); err != nil {
		return err
	}
	return errors.Join(l.experiment(ctx), l.end(), l.log.Err())
}

// raise the cluster.
func (l *Lab) raise(ctx context.Context) (err error) {
	place := map[placement]func() cluster.Placement{
		plain: cluster.Loopback, netns: func() cluster.Placement { return cluster.Namespaces(uint8((os.Getpid()+50*l.Scenario.Number)%250 + 1)) },
		proxies: func() cluster.Placement { return cluster.Proxied(l.Seed) },
	}[l.Scenario.Place]
	l.C, err = cluster.New(cluster.Options{
		Binary: l.Binary, Dir: filepath.Join(l.Dir, "data"), Coordinators: l.Coordinators, Workers: l.Workers, Slots: cmp.Or(l.Scenario.slots, workerSlots), Placement: place(),
	})
	if err != nil {
		return err
	}
	if err := l.arm(); err != nil {
		return errors.Join(err, l.C.Close())
	}
	l.Hand = &nemesis.Hand{C: l.C, Log: l.log}
	l.Client = traffic.NewClient(l.C, l.log, "scenario", l.Seed, 1)
	starting, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	if err = l.C.Start(starting); err == nil {
		err = traffic.Upload(starting, l.C, l.Binary)
	}
	if err != nil {
		return errors.Join(err, l.C.Close())
	}
	return nil
}

// experiment: workload and clients, faults, quiet, the rest of the workload, a last look.
func (l *Lab) experiment(ctx context.Context) error {
	if err := l.submitLedger(ctx); err != nil {
		return err
	}
	g := run.NewGroup(ctx, "lab")
	over, stop := context.WithCancel(g.Context())
	defer stop()
	g.Go("observer", func(context.Context) error { return l.observer.Follow(over) })
	g.Go("auditor", func(context.Context) error { return l.auditor.Follow(over) })
	g.Go("reader", func(context.Context) error { return l.reader.Follow(over) })
	clients, hush := context.WithCancel(over)
	defer hush()
	g.Go("load", func(context.Context) error { return l.load.Run(clients) })
	g.Go("scenario", func(ctx context.Context) error {
		defer stop()
		if err := cluster.Rest(ctx, baseline); err != nil {
			return err
		}
		err := l.Scenario.faults(ctx, l)
		err = errors.Join(err, l.Hand.HealAll(context.WithoutCancel(ctx)))
		if err != nil {
			return fmt.Errorf("faults: %w", err)
		}
		l.log.Note(history.NoteQuiet, nil)
		return l.settle(ctx, hush)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return l.lastLook(ctx)
}

func (l *Lab) submitLedger(ctx context.Context) (err error) {
	length := baseline + l.Duration + afterwards
	every := l.Scenario.Interval
	if every == 0 {
		every = intervals[l.rnd.IntN(len(intervals))]
	}
	l.ledger = traffic.Ledger{
		Workload: history.Workload{
			Seed: l.Seed, Partitions: 4, Keys: cmp.Or(l.Scenario.keys, ledgerKeys), Window: 500, Rate: ledgerRate, Records: int64(length.Seconds() * ledgerRate), Checkpointed: true,
		},
		Artifact: l.artifact, Out: filepath.Join(l.Dir, "out", "ledger"), Parallelism: 2,
		// All of it runs at once, and what runs again for a fault of the cluster's is no failure of the job's.
		// Checkpoints that such faults prevent are not counted against it either.
		Settings: map[string]string{
			"mode": "streaming", "checkpoint.interval": every.String(), "checkpoint.min-pause": (every / 4).String(), "checkpoint.timeout": checkpointsTake.String(),
			"checkpoint.tolerable": "1000",
		},
	}
	if l.Job, err = l.Client.Submit(ctx, l.ledger.Spec("ledger"), "ledger"); err != nil {
		return err
	}
	l.ledger.Job = l.Job
	l.log.Note(history.NoteWorkload, l.ledger.Workload)
	starting, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	if _, err := l.Client.AwaitRunning(starting, l.Job); err != nil {
		return err
	}
	l.reader = &traffic.Reader{Log: l.log, Job: l.Job, Dir: l.ledger.Out, Checkpointed: true}
	jobs := []string{l.Job}
	l.observer = &traffic.Observer{Client: traffic.NewClient(l.C, l.log, "observer", l.Seed, 2), Jobs: jobs, Checkpointed: jobs, Every: 200 * time.Millisecond}
	l.auditor = &traffic.Auditor{Client: traffic.NewClient(l.C, l.log, "auditor", l.Seed, 3), Job: l.Job, Every: 500 * time.Millisecond}
	l.load = &traffic.Load{
		Cluster: l.C, Log: l.log, Artifact: l.artifact, Dir: filepath.Join(l.Dir, "out", "load"), Seed: l.Seed, Clients: l.Scenario.Clients, Pause: 150 * time.Millisecond, Most: 200,
	}
	return nil
}

// settle waits until everything is back and the ledger has ended.
func (l *Lab) settle(ctx context.Context, hush func()) error {
	back, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	if err := l.C.Ready(back); err != nil {
		return err
	}
	if err := cluster.Rest(ctx, 2*time.Second); err != nil { // of calls to a cluster that is well again
		return err
	}
	hush()
	ctx, cancelAll := context.WithTimeout(ctx, finishAtMost+2*l.Duration)
	defer cancelAll()
	if _, err := l.Client.AwaitStatus(ctx, l.Job, jobpb.JobStatus_JOB_FINISHED); err != nil {
		return err
	}
	for _, j := range l.load.Jobs() {
		if _, err := l.Client.Wait(ctx, j.Job); err != nil {
			return err
		}
	}
	return nil
}

// lastLook records what is left when everything has come to rest.
func (l *Lab) lastLook(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	if err := l.reader.Look(); err != nil {
		return err
	}
	if err := errors.Join(l.observer.Last(ctx), l.auditor.Last(ctx)); err != nil {
		return err
	}
	for _, j := range l.load.Jobs() {
		l.Client.StatusOnce(ctx, j)
	}
	l.Client.ListOnce(ctx)
	if len(l.Client.Cluster().Role(cluster.Coordinator)) > 1 {
		if err := l.chains(ctx); err != nil {
			return err
		}
	}
	return l.census(ctx)
}

// chains waits until two coordinators were seen at one index, which they are when nothing moves any more.
func (l *Lab) chains(ctx context.Context) error {
	for {
		leader, err := l.C.AwaitLeader(ctx, nil)
		if err != nil {
			return err
		}
		got, err := apipb.NewClusterClient(l.C.Conn(leader)).Peers(ctx, &apipb.PeersRequest{})
		at := map[uint64]int{}
		for _, p := range got.GetPeers() {
			if len(p.Chain) > 0 {
				l.log.Note(history.NoteChain, history.Chain{Node: p.Id, Applied: p.Applied, Chain: p.Chain})
				at[p.Applied]++
			}
		}
		for _, n := range at {
			if err == nil && n == len(got.Peers) {
				return nil
			}
		}
		if stop := cluster.Rest(ctx, 100*time.Millisecond); stop != nil {
			return nil // the checker says unknown if nothing could be compared
		}
	}
}

// censusWithin is how long what is left may take to go.
const censusWithin = 10 * time.Second

// census counts what is left while nothing runs. What is still there at the end of its time stays in the record.
func (l *Lab) census(ctx context.Context) error {
	for begun := time.Now(); ; {
		c, err := l.count(ctx)
		if err != nil {
			return err
		}
		if empty := len(c.Files) == 0 && c.Slots == 0; empty || time.Since(begun) > censusWithin {
			l.log.Note(history.NoteCensus, c)
			return nil
		}
		if err := cluster.Rest(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

func (l *Lab) count(ctx context.Context) (c history.Census, err error) {
	workers, err := l.workers(ctx)
	if err != nil {
		return c, err
	}
	for _, w := range workers {
		if w.Worker.Health.String() == "WORKER_ALIVE" {
			c.Slots += w.UsedSlots
		}
	}
	if c.Files, err = traffic.Unfinished(filepath.Join(l.Dir, "out")); err != nil {
		return c, err
	}
	if err := l.retained(ctx, &c); err != nil {
		return c, err
	}
	for _, n := range l.C.Role(cluster.Worker) {
		stored, err := filepath.Glob(filepath.Join(n.Dir(), "partitions", "*", "*", "*"))
		if err != nil {
			return c, err
		}
		c.Files = append(c.Files, stored...)
	}
	if l.Scenario.strays {
		stray, err := l.auditor.Stray(ctx)
		c.Files = append(c.Files, stray...)
		return c, err
	}
	return c, nil
}

// retained takes out of a census what stays by intention: output that an attempt had prepared on a worker that was lost, and whose job was
// cancelled before anybody heard of it. No process is started to remove it.
func (l *Lab) retained(ctx context.Context, c *history.Census) error {
	if len(c.Files) == 0 || !l.Hand.HurtWorkers() {
		return nil
	}
	jobs, err := l.Client.List(ctx)
	if err != nil {
		return err
	}
	c.Files = slices.DeleteFunc(c.Files, func(path string) bool {
		return slices.ContainsFunc(jobs, func(j *apipb.JobSummary) bool {
			return j.Status == jobpb.JobStatus_JOB_CANCELLED && strings.Contains(filepath.Base(path), "~"+j.Id+"~")
		})
	})
	return nil
}

// end stops every process; task processes that outlive their workers are orphans.
func (l *Lab) end() error {
	var tasks []cluster.Task
	for _, n := range l.C.Role(cluster.Worker) {
		if n.Alive() {
			if t, err := n.Tasks(); err == nil {
				tasks = append(tasks, t...)
			}
		}
	}
	err := l.C.Close()
	var c history.Census
	for _, t := range tasks {
		if t.Alive() {
			c.Orphans = append(c.Orphans, fmt.Sprint(t.PID))
			err = errors.Join(err, t.Kill())
		}
	}
	l.log.Note(history.NoteCensus, c)
	return err
}
