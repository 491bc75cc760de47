package jepsen

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/cluster/link"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/nemesis"
	"github.com/sluiceio/sluice/jepsen/traffic"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// TB is what a cluster needs of a *testing.T.
type TB interface {
	Helper()
	Name() string
	Context() context.Context
	Cleanup(func())
	Failed() bool
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

type options struct {
	cluster.Options
	disk     int64
	proxies  bool
	patience time.Duration
}

// Option of a cluster.
type Option func(*options)

// Coordinators is 1, 3 or 5; 3 by default.
func Coordinators(n int) Option { return func(o *options) { o.Coordinators = n } }

// Workers is the number of workers; 3 by default.
func Workers(n int) Option { return func(o *options) { o.Workers = n } }

// Slots of each worker; 4 by default.
func Slots(n int) Option { return func(o *options) { o.Slots = n } }

// Binary is the sluice to run.
func Binary(path string) Option { return func(o *options) { o.Binary = path } }

// Proxies stand between the nodes, so that Partition and Proxy work. No rights are needed.
func Proxies() Option { return func(o *options) { o.proxies = true } }

// Disks gives every node a disk of that many bytes, so that DiskFull works. It needs root on Linux; without, the test is skipped.
func Disks(bytes int64) Option { return func(o *options) { o.disk = bytes } }

// Patience bounds how long anything waits; a minute by default.
func Patience(d time.Duration) Option { return func(o *options) { o.patience = d } }

// Node of a cluster.
type Node = cluster.Node

// Rule is what a proxy does to one direction of a link.
type Rule = link.Rule

// Job that was submitted.
type Job string

// State of a job.
type State = jobpb.JobStatus

// The states that tests wait for.
const (
	Running    = jobpb.JobStatus_JOB_RUNNING
	Restarting = jobpb.JobStatus_JOB_RESTARTING
	Finished   = jobpb.JobStatus_JOB_FINISHED
	Failed     = jobpb.JobStatus_JOB_FAILED
	Cancelled  = jobpb.JobStatus_JOB_CANCELLED
)

// Cluster of real processes, for one test.
type Cluster struct {
	t      TB
	opts   options
	c      *cluster.Cluster
	hand   *nemesis.Hand
	client *traffic.Client
}

// NewCluster starts a cluster and returns when it is ready. It ends with the test; data, logs and the history of faults are kept if the
// test failed.
func NewCluster(t TB, opts ...Option) *Cluster {
	t.Helper()
	o := options{patience: time.Minute}
	o.Coordinators, o.Workers, o.Slots = 3, 3, 4
	for _, f := range opts {
		f(&o)
	}
	if o.proxies {
		o.Placement = cluster.Proxied(1)
	}
	c := &Cluster{t: t, opts: o}
	c.must("find the sluice binary", c.find())
	_, err := cluster.Sweep()
	c.must("remove what a former run has left", err)
	c.opts.Dir, err = os.MkdirTemp("", "sluice-jepsen-")
	c.must("make a directory", err)
	t.Cleanup(c.keepOrRemove)
	c.c, err = cluster.New(c.opts.Options)
	c.must("lay out the cluster", err)
	c.disks()
	t.Cleanup(func() {
		if err := c.c.Close(); err != nil {
			t.Errorf("jepsen: stop the cluster: %v", err)
		}
	})
	file, err := os.Create(filepath.Join(c.opts.Dir, "history.jsonl"))
	c.must("record", err)
	t.Cleanup(func() { _ = file.Close() })
	log := history.New(file, time.Now)
	c.hand, c.client = &nemesis.Hand{C: c.c, Log: log}, traffic.NewClient(c.c, log, t.Name(), 1, 1)
	ctx, cancel := c.limited()
	defer cancel()
	t.Cleanup(func() { // before the nodes end, so that they can end in order
		if err := c.hand.HealAll(context.Background()); err != nil {
			t.Errorf("jepsen: heal: %v", err)
		}
	})
	c.must("start the cluster", c.c.Start(ctx))
	return c
}

// must ends the test if the machinery failed.
func (c *Cluster) must(what string, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("jepsen: %s: %v", what, err)
	}
}

func (c *Cluster) find() (err error) {
	c.opts.Binary = cmp.Or(c.opts.Binary, os.Getenv("SLUICE_BINARY"))
	if c.opts.Binary == "" {
		if c.opts.Binary, err = exec.LookPath("sluice"); err != nil {
			return errors.New("none on the path: give jepsen.Binary, set SLUICE_BINARY, or `go install github.com/sluiceio/sluice/cmd/sluice`")
		}
	}
	c.opts.Binary, err = filepath.Abs(c.opts.Binary)
	return err
}

func (c *Cluster) disks() {
	c.t.Helper()
	if c.opts.disk == 0 {
		return
	}
	for _, n := range c.c.Nodes() {
		c.must("make a data directory", os.MkdirAll(n.Dir(), 0o700))
		undo, err := cluster.SmallDisk(n.Dir(), c.opts.disk)
		if err != nil {
			c.t.Skipf("jepsen: small disks need root on Linux: %v", err)
		}
		c.t.Cleanup(func() {
			if err := undo(); err != nil {
				c.t.Errorf("jepsen: %v", err)
			}
		})
	}
}

func (c *Cluster) keepOrRemove() {
	if c.t.Failed() {
		c.t.Logf("jepsen: data, logs and history are kept in %s", c.opts.Dir)
		return
	}
	if err := os.RemoveAll(c.opts.Dir); err != nil {
		c.t.Errorf("jepsen: %v", err)
	}
}

func (c *Cluster) limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.t.Context(), c.opts.patience)
}

// Coordinator and Worker are nodes by number, from 1 on.
func (c *Cluster) Coordinator(i int) *Node { return c.nth(cluster.Coordinator, i) }
func (c *Cluster) Worker(i int) *Node      { return c.nth(cluster.Worker, i) }

func (c *Cluster) nth(r cluster.Role, i int) *Node {
	c.t.Helper()
	all := c.c.Role(r)
	if i < 1 || i > len(all) {
		c.t.Fatalf("jepsen: there is no %s %d", r, i)
	}
	return all[i-1]
}

// Leader waits for a leader of the coordinators.
func (c *Cluster) Leader() *Node {
	c.t.Helper()
	ctx, cancel := c.limited()
	defer cancel()
	n, err := c.c.AwaitLeader(ctx, nil)
	c.must("leader", err)
	return n
}

// Kill a node as the death of its machine does: kill -9, of a worker with all that it has started. Start runs it again.
func (c *Cluster) Kill(n *Node) {
	c.t.Helper()
	if n.Role() == cluster.Worker {
		ctx, cancel := c.limited()
		defer cancel()
		c.must("kill", c.hand.Crash(ctx, n))
		return
	}
	c.must("kill", c.hand.Kill(n))
}

// Start a node that was killed, on what it left.
func (c *Cluster) Start(n *Node) {
	c.t.Helper()
	c.must("start", c.hand.Start(c.t.Context(), n))
}

// Pause a node with all that it has started, until Resume.
func (c *Cluster) Pause(n *Node) {
	c.t.Helper()
	c.must("pause", c.hand.Pause(n))
}

// Resume a paused node.
func (c *Cluster) Resume(n *Node) {
	c.t.Helper()
	c.must("resume", c.hand.Resume(n))
}

// Partition cuts every link between two sets of nodes, until Heal. It needs the option Proxies.
func (c *Cluster) Partition(a, b []*Node) {
	c.t.Helper()
	c.must("partition", c.hand.Cut(a, b))
}

// Proxy hurts one direction of a link, until Heal. It needs the option Proxies.
func (c *Cluster) Proxy(from, to *Node, r Rule) {
	c.t.Helper()
	c.must("proxy", c.hand.Link("proxy", from.Name(), to.Name(), r))
}

// DiskFull leaves no room on the disk of a node, until Heal. It needs the option Disks.
func (c *Cluster) DiskFull(n *Node) {
	c.t.Helper()
	if c.opts.disk == 0 {
		c.t.Fatalf("jepsen: DiskFull needs the option Disks")
	}
	c.must("fill the disk", c.hand.Fill(n))
}

// Heal ends every fault that lasts: dead nodes start, paused ones go on, links carry, disks have room.
func (c *Cluster) Heal() {
	c.t.Helper()
	c.must("heal", c.hand.HealAll(c.t.Context()))
}

// FailPoint starts a node again with named points of its program armed, in the words of internal/failpoint, for example
// "worker.report=2:kill". Heal does not undo it: FailPoint with an empty text does.
func (c *Cluster) FailPoint(n *Node, points string) {
	c.t.Helper()
	n.SetEnv("SLUICE_FAILPOINTS=" + points)
	if n.Alive() {
		c.must("kill", c.hand.Kill(n))
	}
	c.must("start", c.hand.Start(c.t.Context(), n))
}

// SubmitOption is part of a submit.
type SubmitOption func() []string

// Param is a parameter of the job.
func Param(name, value string) SubmitOption {
	return func() []string { return []string{"-p", name + "=" + value} }
}

// Setting of the engine.
func Setting(name, value string) SubmitOption {
	return func() []string { return []string{"--set", name + "=" + value} }
}

// Parallelism of each operator.
func Parallelism(n int) SubmitOption {
	return func() []string { return []string{"--parallelism", fmt.Sprint(n)} }
}

// Submit a program: a binary, or the directory of a main package.
func (c *Cluster) Submit(program string, opts ...SubmitOption) Job {
	c.t.Helper()
	ctx, cancel := c.limited()
	defer cancel()
	args := []string{"submit", program, "-o", "json", "--request-id", rand.Text()}
	for _, o := range opts {
		args = append(args, o()...)
	}
	cmd := exec.CommandContext(ctx, c.opts.Binary, args...)
	cmd.Env = append(os.Environ(), "SLUICE_ADDR="+strings.Join(c.c.Addresses(), ","))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("jepsen: submit %s: %v: %s%s", program, err, said.String(), out.String())
	}
	var answer struct{ Job string }
	c.must("submit "+program, json.Unmarshal(out.Bytes(), &answer))
	if answer.Job == "" {
		c.t.Fatalf("jepsen: submit %s answers without a job: %s", program, out.String())
	}
	return Job(answer.Job)
}

// AwaitState waits until a job has one of the states. It ends the test if the job ends otherwise, or does not get there in time.
func (c *Cluster) AwaitState(job Job, states ...State) *apipb.StatusResponse {
	c.t.Helper()
	ctx, cancel := c.limited()
	defer cancel()
	st, err := c.client.AwaitStatus(ctx, string(job), states...)
	c.must("await", err)
	return st
}

// WorkerOf waits until some of a job is at work, and returns a worker that has it.
func (c *Cluster) WorkerOf(job Job) *Node {
	c.t.Helper()
	ctx, cancel := c.limited()
	defer cancel()
	for {
		n, err := c.client.Holder(ctx, string(job))
		c.must("worker of "+string(job), err)
		if n != nil {
			return n
		}
		c.must("worker of "+string(job), cluster.Rest(ctx, 20*time.Millisecond))
	}
}

// Status of a job, with its attempts.
func (c *Cluster) Status(job Job) *apipb.StatusResponse {
	c.t.Helper()
	ctx, cancel := c.limited()
	defer cancel()
	st, err := c.client.Status(ctx, string(job))
	c.must("status", err)
	return st
}

// Rows that a file sink has committed below a directory, sorted.
func (c *Cluster) Rows(dir string) []string {
	c.t.Helper()
	rows, err := traffic.Committed(dir)
	c.must("read the rows", err)
	return rows
}
