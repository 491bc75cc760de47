package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/coordinator/plan"
	"github.com/sluiceio/sluice/flow/launch/workdir"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
)

// run is the embedded mode: the job runs here until it has ended, and a signal cancels it.
func (c command) run() int {
	prog, diags := c.job.Build(c.args.Params)
	if len(diags) > 0 {
		return planFault(c.streams, diags)
	}
	p, diags := makePlan(prog.Graph, c.args.Settings, runtime.GOMAXPROCS(0))
	if len(diags) > 0 {
		return planFault(c.streams, diags)
	}
	printDiagnostics(c.streams.Err, "warning", p.Graph.Warnings)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	start := time.Now()
	job, err := Embed(context.Background(), prog, Embedding{
		Name:     c.job.Name,
		Params:   c.args.Params,
		Settings: c.args.Settings,
		Log:      embeddedLog(c.job.Name, c.streams.Err),
		Cancel:   signals,
	})
	if bad, ok := errors.AsType[*PlanError](err); ok {
		return planFault(c.streams, bad.Diagnostics)
	}
	if dir, ok := errors.AsType[*DirectoryError](err); ok {
		printDiagnostics(c.streams.Err, "error", []*jobpb.Diagnostic{dir.Diagnostic})
		return ExitOther
	}
	if err != nil {
		fmt.Fprintf(c.streams.Err, "error: %v\n", err)
		return ExitOther
	}
	return c.ended(job, time.Since(start))
}

// embeddedLog shows what went wrong. It leaves out failed attempts: most are the consequence of another one, whose cause
// is told when the job restarts or ends.
func embeddedLog(name string, w io.Writer) hclog.Logger {
	var known hclog.ExcludeByMessage
	known.Add("attempt failed")
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.Warn, Output: w, Exclude: known.Exclude})
}

func (c command) ended(job *jobpb.Job, took time.Duration) int {
	took = took.Round(time.Millisecond)
	switch job.Status {
	case jobpb.JobStatus_JOB_FINISHED:
		fmt.Fprintf(c.streams.Err, "%s finished in %v\n", c.job.Name, took)
		return ExitOK
	case jobpb.JobStatus_JOB_CANCELLED:
		fmt.Fprintf(c.streams.Err, "%s cancelled after %v\n", c.job.Name, took)
		return ExitInterrupted
	}
	printFailure(c.streams.Err, job)
	return ExitFailed
}

// Embedding is how a job runs in this process.
type Embedding struct {
	Name     string
	Params   map[string]string
	Settings map[string]string // win over those in the code
	Log      hclog.Logger
	// Slots is the number of cores to plan for; 0: all of them.
	Slots int
	// Now is the clock that operators see; nil: that of the machine.
	Now func() time.Time
	// Cancel asks for an orderly end; nil: only the context can. A second value gives up waiting for it.
	Cancel <-chan os.Signal
}

// Embed runs prog in this process until the job is terminal. The end of ctx cancels the job. The error is a *PlanError if the job
// cannot run as it is, a *DirectoryError if there is no place for its files; failures of the job are in its record.
func Embed(ctx context.Context, prog *task.Program, e Embedding) (*jobpb.Job, error) {
	if e.Log == nil {
		e.Log = hclog.NewNullLogger()
	}
	if e.Slots == 0 {
		e.Slots = runtime.GOMAXPROCS(0)
	}
	p, diags := makePlan(prog.Graph, e.Settings, e.Slots)
	if len(diags) > 0 {
		return nil, &PlanError{Diagnostics: diags}
	}
	if p.Slots > commandpb.MaxSlots {
		return nil, &PlanError{Diagnostics: []*jobpb.Diagnostic{{
			Code:    plan.CodeTooLarge,
			Message: fmt.Sprintf("%d subtasks would run side by side in this process; %d may", p.Slots, commandpb.MaxSlots),
			Hints:   []string{"lower the parallelism"},
		}}}
	}
	settings := setting.Values(setting.Merge(e.Settings, prog.Graph.Settings))
	memory, err := setting.Divide(int64(max(e.Slots, int(p.Slots)))*slotMemory, settings)
	if err != nil {
		return nil, &PlanError{Diagnostics: []*jobpb.Diagnostic{{
			Code: setting.CodeBadValue, Message: err.Error(), Hints: []string{"lower network.memory, state.memory or batch.memory"},
		}}}
	}
	var files *disk
	if needsDisk(p) {
		if files, err = openDisk(workdir.Default(), settings); err != nil {
			return nil, noDirectory(p, err)
		}
	}
	return e.run(ctx, prog, files, memory)
}

// run drives the job to its end and removes its files. That they cannot be removed is no part of how the job has ended.
func (e Embedding) run(ctx context.Context, prog *task.Program, files *disk, memory setting.Memory) (*jobpb.Job, error) {
	job, err := newDriver(prog, e, files).run(ctx, memory)
	if left := files.close(); left != nil { // the next run tries again
		e.Log.Warn("files of the run are left behind", "error", left)
	}
	return job, err
}
