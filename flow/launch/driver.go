package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/sluiceio/sluice/coordinator/schedule"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/worker/task"
)

const (
	// worker is the only worker of an embedded job, and coordinator the only coordinator.
	workerID      = "embedded"
	coordinatorID = "embedded"
	incarnation   = 1
	term          = 1
	// slotMemory is the share of one slot, in bytes.
	slotMemory = 512 << 20
	// never is longer than any process lives: nobody is there to be lost.
	never = 100 * 365 * 24 * time.Hour
)

// driver is the embedded cluster: it applies commands to facts in memory and performs the leader's actions by direct
// calls on one task.Process. Only the goroutine of run touches it; the process reports through the inbox.
type driver struct {
	e     Embedding
	prog  *task.Program
	group *run.Group // the tasks, and the commits of their output
	outer *run.Group // the network, which outlives them
	proc  *task.Process
	disk  *disk          // nil: the job keeps nothing in files
	store snapshot.Store // of its checkpoints
	inbox *inbox
	ended chan struct{} // every attempt has ended

	facts   *state.State
	leader  *schedule.Leader
	index   uint64
	pending []schedule.Event // answers to actions, in order
	reports uint64           // sequence of the last one
	slots   int
	wake    *time.Timer
	job     string
	planned bool   // and the worker has grown
	told    int32  // restarts that were logged
	waits   string // what was logged last that the end of the job waits for
	stuck   *jobpb.Failure
	dropped error // nobody is there who could run the job
}

func newDriver(prog *task.Program, e Embedding, files *disk) *driver {
	d := &driver{e: e, prog: prog, disk: files, inbox: newInbox(), ended: make(chan struct{}), facts: state.New(), slots: e.Slots}
	c := schedule.DefaultConfig()
	c.Leader, c.Term = coordinatorID, term
	c.Heartbeat, c.LossTimeout, c.BuildLimit, c.PlanTimeout = never, never, never, never
	c.DefaultParallelism, c.DefaultRestart, c.Fits = e.Slots, "none", codec.Fits
	d.leader = schedule.New(c)
	return d
}

// run drives the job to its end, and returns when everything that it started has ended.
func (d *driver) run(ctx context.Context, memory setting.Memory) (*jobpb.Job, error) {
	d.wake = time.NewTimer(never)
	defer d.wake.Stop()
	d.attach()
	if err := d.submit(); err != nil {
		return nil, err
	}
	if err := d.start(ctx, memory); err != nil {
		return nil, err
	}
	job, err := d.drive(ctx)
	d.group.Stop()
	if d.stuck != nil {
		return job, err // user code does not return: waiting for it would be for ever
	}
	return job, errors.Join(err, d.wait())
}

// start makes the task runtime of the submitted job and its network, which joins subtasks of this process only. The end
// of ctx cancels the job, not the runtime: what it does about that is still to be reported.
func (d *driver) start(ctx context.Context, memory setting.Memory) error {
	network, err := shuffle.NewNetwork(shuffle.NetworkConfig{Job: d.job, Memory: memory.Network, Log: d.e.Log})
	if err != nil {
		return err
	}
	c := task.Config{Program: d.prog, Job: d.job, Worker: workerID, Network: network, Log: d.e.Log, Host: d.inbox, Now: d.e.Now}
	if d.disk != nil {
		c.Spill = d.disk.spill
		c.Results, err = stored.NewExchange(stored.Config{Store: d.disk.store, Memory: network.Account(), Log: d.e.Log})
		if err != nil {
			return err
		}
	}
	if d.store, err = d.disk.openSnapshots(); err != nil {
		return err
	}
	c.Stores = snapshot.Shared(d.store)
	if c.State, err = d.disk.openState(memory.State); err != nil {
		return err
	}
	if d.proc, err = task.NewProcess(c); err != nil {
		return err
	}
	outer := run.NewGroup(context.WithoutCancel(ctx), "embedded")
	d.group = run.NewGroup(outer.Context(), "job")
	outer.Go("network", network.Run)
	if c.Results != nil {
		outer.Go("results", c.Results.Run)
	}
	if c.State.Overflow != nil {
		outer.Go("state", runState(c.State))
	}
	d.group.Go("tasks", d.proc.Run)
	outer.Go("end", func(context.Context) error {
		defer close(d.ended)
		err := d.group.Wait()
		outer.Stop() // the network outlives what uses it
		return err
	})
	d.outer = outer
	return nil
}

// wait returns when the process has ended, or when it reports user code that does not return.
func (d *driver) wait() error {
	for {
		select {
		case <-d.ended:
			return d.outer.Wait()
		case <-d.inbox.ready:
			for _, l := range d.inbox.take() {
				if l.stuck != nil {
					return fmt.Errorf("%s: %s", l.stuck.Code, l.stuck.Message)
				}
			}
		}
	}
}

func (d *driver) drive(ctx context.Context) (*jobpb.Job, error) {
	done := ctx.Done()
	for interrupts := 0; ; {
		d.settle()
		job := d.facts.View().Job(d.job)
		if terminal(job.Status()) {
			return job.Proto(), nil
		}
		if d.dropped != nil {
			return nil, d.dropped
		}
		d.tell(job.Head())
		select {
		case <-d.inbox.ready:
			for _, l := range d.inbox.take() {
				d.receive(l)
			}
			if d.stuck != nil {
				return d.abandoned(job), nil
			}
		case <-d.wake.C:
			d.step(schedule.Tick{})
		case <-d.ended:
			return nil, errors.New("the task runtime has ended before the job")
		case <-done:
			done = nil
			d.cancel()
		case <-d.e.Cancel:
			if interrupts++; interrupts > 1 {
				return d.abandoned(job), nil
			}
			d.cancel()
		}
	}
}

// submit takes the way of a client: the artifact first, then the job.
func (d *driver) submit() error {
	digest := sha256.Sum256([]byte("embedded"))
	artifact := hex.EncodeToString(digest[:])
	d.apply(&commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: &commandpb.PutArtifact{
		Digest: artifact, Size: 1, Os: runtime.GOOS, Arch: runtime.GOARCH, Nodes: []string{coordinatorID},
	}}})
	res := d.apply(&commandpb.Command{RequestId: "embedded", Command: &commandpb.Command_SubmitJob{SubmitJob: &commandpb.SubmitJob{
		Spec: &jobpb.JobSpec{Name: d.e.Name, Artifact: artifact, Params: d.e.Params, Settings: d.e.Settings},
	}}})
	if res.Status != state.Applied {
		return fmt.Errorf("submit: %s %s", res.Code, res.Message)
	}
	d.job = res.Job
	d.step(schedule.Applied{Index: d.index})
	return nil
}

func (d *driver) attach() {
	r := &controlpb.Register{
		Worker: workerID, Incarnation: incarnation, Address: "127.0.0.1:1", DataAddress: "127.0.0.1:1",
		Slots: int32(d.slots), Memory: int64(d.slots) * slotMemory, Version: "embedded",
		ProtocolMin: taskpb.Protocol, ProtocolMax: taskpb.Protocol, Os: runtime.GOOS, Arch: runtime.GOARCH,
	}
	if have := d.disk.inventory(); len(have) > 0 {
		r.Partitions = []*controlpb.PartitionInventory{{Job: d.job, Partitions: have}}
	}
	d.step(schedule.Attached{Register: r})
}

// grow gives the worker as many slots as the plan asks for to run everything at once: cores are shared, a job that waits
// for them would wait for ever. It happens as soon as there is a plan, when nothing runs that a worker would have to tell
// about as it registers.
func (d *driver) grow() {
	p := d.facts.View().Job(d.job).Plan()
	if p == nil {
		return
	}
	d.planned = true
	if int(p.Slots) > d.slots {
		d.slots = int(p.Slots)
		d.attach()
	}
}

// tell logs a restart with its cause, and what the end of the job waits for.
func (d *driver) tell(head *jobpb.Job) {
	if head.Status == jobpb.JobStatus_JOB_FINISHING && head.Message != "" && head.Message != d.waits {
		d.waits = head.Message
		d.e.Log.Warn("job does not end yet", "reason", head.Message)
	}
	if head.Restarts == d.told {
		return
	}
	d.told = head.Restarts
	f := d.facts.View().Job(d.job).Proto().Failures
	if len(f) == 0 {
		return
	}
	last := f[len(f)-1]
	d.e.Log.Warn("job restarts", "restarts", head.Restarts, "code", last.Code, "operator", last.Operator, "error", last.Message, "record", last.Position)
}

func (d *driver) cancel() {
	d.apply(&commandpb.Command{Command: &commandpb.Command_CancelJob{CancelJob: &commandpb.CancelJob{Job: d.job}}})
	d.step(schedule.Applied{Index: d.index})
}

// abandoned is the record of a job whose end is not waited for.
func (d *driver) abandoned(job *state.Job) *jobpb.Job {
	head := job.Head()
	if d.stuck == nil {
		d.stuck = &jobpb.Failure{} // do not wait
		head.Status = jobpb.JobStatus_JOB_CANCELLED
		return head
	}
	head.Status, head.Failure = jobpb.JobStatus_JOB_FAILED, d.stuck
	return head
}

func terminal(s jobpb.JobStatus) bool {
	switch s {
	case jobpb.JobStatus_JOB_FINISHED, jobpb.JobStatus_JOB_FAILED, jobpb.JobStatus_JOB_CANCELLED, jobpb.JobStatus_JOB_STOPPED:
		return true
	}
	return false
}

// settle feeds the answers to actions until there are none.
func (d *driver) settle() {
	for len(d.pending) > 0 {
		e := d.pending[0]
		d.pending = d.pending[1:]
		d.step(e)
		if !d.planned {
			d.grow()
		}
	}
}

func (d *driver) step(e schedule.Event) {
	for _, a := range d.leader.Step(d.facts.View(), e, time.Now()) {
		d.perform(a)
	}
}

func (d *driver) perform(a schedule.Action) {
	switch a := a.(type) {
	case schedule.Propose:
		d.pending = append(d.pending, schedule.ProposalDone{Key: a.Key, Result: d.apply(a.Command)})
	case schedule.Send:
		d.send(a.Message)
	case schedule.Publish:
		d.publish(a)
	case schedule.Fetch:
		d.fetch(a)
	case schedule.WakeAt:
		d.wake.Reset(time.Until(a.At))
	case schedule.Drop:
		d.dropped = fmt.Errorf("the job cannot use its only worker: %s", a.Reason)
	}
}

// apply commits a command: with one node, to append is to commit.
func (d *driver) apply(c *commandpb.Command) state.Result {
	if c.Version == 0 {
		c.Version, c.TimeUs, c.Proposer = state.Version, time.Now().UnixMicro(), coordinatorID
	}
	d.index++
	return d.facts.Apply(d.index, term, c)
}

// send is what a worker does with a message of its leader.
func (d *driver) send(m *controlpb.CoordinatorMessage) {
	switch m := m.Message.(type) {
	case *controlpb.CoordinatorMessage_Build:
		d.pending = append(d.pending, schedule.Built{Worker: workerID, Incarnation: incarnation, Result: &controlpb.BuildResult{
			Job: m.Build.Job, Build: m.Build.Build, Built: &taskpb.Built{Graph: d.prog.Graph}, Protocol: taskpb.Protocol,
		}})
	case *controlpb.CoordinatorMessage_Deploy:
		d.deploy(m.Deploy.Deployment)
	case *controlpb.CoordinatorMessage_Cancel:
		d.proc.Cancel(m.Cancel)
	case *controlpb.CoordinatorMessage_AssignSplits:
		d.proc.AssignSplits(m.AssignSplits)
	case *controlpb.CoordinatorMessage_OpenGate:
		d.proc.OpenGate(m.OpenGate)
	case *controlpb.CoordinatorMessage_Trigger:
		d.proc.Trigger(m.Trigger)
	case *controlpb.CoordinatorMessage_CheckpointNotice:
		d.proc.Notice(m.CheckpointNotice)
	case *controlpb.CoordinatorMessage_DeleteObjects:
		d.deleteObjects(m.DeleteObjects)
	case *controlpb.CoordinatorMessage_DropPartitions:
		d.group.Go("drop", func(context.Context) error {
			if err := d.disk.drop(m.DropPartitions); err != nil { // the directory of the run goes at its end
				d.e.Log.Warn("stored results cannot be deleted", "error", err)
			}
			return nil
		})
	case *controlpb.CoordinatorMessage_Commit:
		d.group.Go("commit", func(ctx context.Context) error {
			d.inbox.put(letter{process: m.Commit.Process, commit: d.proc.Commit(ctx, m.Commit)})
			return nil
		})
	}
	// Welcome, Ack and Release ask nothing of a worker that is this very loop.
}

// deploy starts attempts; a deployment that cannot be run fails each of them.
func (d *driver) deploy(dep *taskpb.Deployment) {
	d.inbox.deployed(dep)
	err := d.proc.Deploy(dep)
	if err == nil || errors.Is(err, task.ErrStale) {
		return
	}
	for _, s := range dep.Subtasks {
		d.inbox.Update(&taskpb.SubtaskUpdate{
			Chain: s.Chain, Index: s.Index, Attempt: s.Attempt, Region: s.Region, RegionEpoch: s.RegionEpoch,
			State: jobpb.SubtaskState_SUBTASK_FAILED, Failure: task.Failure(err),
		})
	}
}

// audit looks at all stored results, because one was found to be lost.
func (d *driver) audit() {
	d.group.Go("audit", func(ctx context.Context) error {
		if lost := d.disk.audit(ctx, d.job); len(lost.Partitions) > 0 {
			d.inbox.put(letter{lost: lost})
		}
		return nil
	})
}

// receive turns what the process reports into a report of the worker.
func (d *driver) receive(l letter) {
	if l.stuck != nil {
		d.stuck = l.stuck
		return
	}
	if l.lost != nil {
		d.step(schedule.Missing{Worker: workerID, Incarnation: incarnation, Results: l.lost})
		d.settle()
		return
	}
	if l.event != nil {
		d.step(l.event)
		d.settle()
		return
	}
	if len(l.update.GetFailure().GetLost()) > 0 {
		d.audit()
	}
	d.reports++
	r := &controlpb.Report{Sequence: d.reports, Job: d.job, JobEpoch: d.facts.View().Job(d.job).Epoch(), Process: l.process}
	switch {
	case l.update != nil:
		r.Fact = &controlpb.Report_Subtask{Subtask: l.update}
	case l.commit != nil:
		r.Fact = &controlpb.Report_Commit{Commit: l.commit}
	case l.ack != nil:
		r.Fact = &controlpb.Report_Ack{Ack: l.ack}
	case l.found != nil:
		r.Fact = &controlpb.Report_Splits{Splits: l.found}
	case l.request != nil:
		r.Fact = &controlpb.Report_SplitRequest{SplitRequest: l.request}
	}
	d.step(schedule.Reported{Worker: workerID, Incarnation: incarnation, Report: r})
	d.settle()
}
