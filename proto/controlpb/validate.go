package controlpb

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Bounds of what one worker may say at once. They protect the leader's memory, and are far above what a worker means.
const (
	maxID        = 128     // bytes of an id, an address, a version
	maxText      = 1 << 20 // bytes of a captured text
	maxSlots     = 1 << 12
	maxProcesses = 1 << 12
	maxSubtasks  = 1 << 16 // of one process
	maxArtifacts = 1 << 14
)

// Validate checks what a worker sent; the error names the field.
func (m *WorkerMessage) Validate() error {
	switch v := m.GetMessage().(type) {
	case *WorkerMessage_Register:
		return within("register", v.Register.Validate())
	case *WorkerMessage_Heartbeat:
		return within("heartbeat", v.Heartbeat.Validate())
	case *WorkerMessage_Report:
		return within("report", v.Report.Validate())
	case *WorkerMessage_BuildResult:
		return within("build_result", v.BuildResult.Validate())
	case *WorkerMessage_Draining:
		if v.Draining == nil {
			return errors.New("draining: empty")
		}
		return nil
	case *WorkerMessage_Lost:
		return within("lost", v.Lost.validate())
	case *WorkerMessage_Objects:
		return within("objects", v.Objects.Validate())
	}
	return errors.New("no known message is set")
}

func within(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s.%w", field, err)
}

func text(field, value string, limit int) error {
	if len(value) > limit {
		return fmt.Errorf("%s: %d bytes, at most %d", field, len(value), limit)
	}
	return nil
}

func required(field, value string) error {
	if value == "" {
		return fmt.Errorf("%s: empty", field)
	}
	return text(field, value, maxID)
}

// Validate checks a registration.
func (r *Register) Validate() error {
	if r == nil {
		return errors.New("register: empty")
	}
	if err := errors.Join(
		required("worker", r.Worker),
		required("address", r.Address),
		required("data_address", r.DataAddress),
		required("os", r.Os),
		required("arch", r.Arch),
		text("version", r.Version, maxID),
		text("host", r.Host, maxID),
		text("zone", r.Zone, maxID),
	); err != nil {
		return err
	}
	switch {
	case r.Incarnation == 0:
		return errors.New("incarnation: must be positive")
	case r.Slots < 1 || r.Slots > maxSlots:
		return fmt.Errorf("slots: %d is not in 1 to %d", r.Slots, maxSlots)
	case r.Memory < 0:
		return fmt.Errorf("memory: %d bytes is negative", r.Memory)
	case r.ProtocolMin < 1 || r.ProtocolMax < r.ProtocolMin:
		return fmt.Errorf("protocol window: %d to %d is not in order", r.ProtocolMin, r.ProtocolMax)
	case len(r.Processes) > maxProcesses:
		return fmt.Errorf("processes: %d, at most %d", len(r.Processes), maxProcesses)
	case len(r.Artifacts) > maxArtifacts:
		return fmt.Errorf("artifacts: %d, at most %d", len(r.Artifacts), maxArtifacts)
	}
	for i, p := range r.Processes {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("processes[%d].%w", i, err)
		}
	}
	for i, o := range r.Objects {
		if err := o.validate(); err != nil {
			return fmt.Errorf("objects[%d].%w", i, err)
		}
	}
	for i, p := range r.Partitions {
		if err := p.validate(); err != nil {
			return fmt.Errorf("partitions[%d].%w", i, err)
		}
	}
	return nil
}

// validate checks the inventory of one job's stored results.
func (p *PartitionInventory) validate() error {
	if err := required("job", p.GetJob()); err != nil {
		return err
	}
	for i, n := range p.GetPartitions() {
		if err := n.Validate(); err != nil {
			return fmt.Errorf("partitions[%d]: %w", i, err)
		}
	}
	return nil
}

// Validate checks the inventory of one process.
func (p *ProcessInventory) Validate() error {
	if p == nil {
		return errors.New("process: empty")
	}
	if err := required("job", p.Job); err != nil {
		return err
	}
	if p.Process == 0 {
		return errors.New("process: must be positive")
	}
	if len(p.Subtasks) > maxSubtasks {
		return fmt.Errorf("subtasks: %d, at most %d", len(p.Subtasks), maxSubtasks)
	}
	for i, u := range p.Subtasks {
		if err := checkUpdate(u); err != nil {
			return fmt.Errorf("subtasks[%d].%w", i, err)
		}
	}
	for i, c := range p.CommitResults {
		if c == nil {
			return fmt.Errorf("commit_results[%d]: empty", i)
		}
	}
	return nil
}

func checkUpdate(u *taskpb.SubtaskUpdate) error {
	switch {
	case u == nil:
		return errors.New("subtask: empty")
	case u.Chain < 0 || u.Index < 0 || u.Region < 0:
		return fmt.Errorf("subtask %d[%d] of region %d: negative", u.Chain, u.Index, u.Region)
	case u.Attempt == 0:
		return errors.New("attempt: must be positive")
	case u.State <= jobpb.SubtaskState_SUBTASK_UNSPECIFIED || jobpb.SubtaskState_name[int32(u.State)] == "":
		return fmt.Errorf("state: %d is unknown", u.State)
	}
	return nil
}

// Validate checks a heartbeat.
func (h *Heartbeat) Validate() error {
	if h == nil {
		return errors.New("heartbeat: empty")
	}
	if len(h.Samples) > maxProcesses {
		return fmt.Errorf("samples: %d, at most %d", len(h.Samples), maxProcesses)
	}
	for i, s := range h.Samples {
		switch {
		case s == nil || s.Sample == nil:
			return fmt.Errorf("samples[%d]: empty", i)
		case s.Job == "" || len(s.Job) > maxID:
			return fmt.Errorf("samples[%d].job: %d bytes, want 1 to %d", i, len(s.Job), maxID)
		case len(s.Sample.Counters) > maxSubtasks:
			return fmt.Errorf("samples[%d].sample.counters: %d, at most %d", i, len(s.Sample.Counters), maxSubtasks)
		}
		for j, c := range s.Sample.Counters {
			if c == nil {
				return fmt.Errorf("samples[%d].sample.counters[%d]: empty", i, j)
			}
			if err := c.Validate(); err != nil {
				return fmt.Errorf("samples[%d].sample.counters[%d]: %w", i, j, err)
			}
		}
		if len(s.Sample.Clocks) > maxSubtasks {
			return fmt.Errorf("samples[%d].sample.clocks: %d, at most %d", i, len(s.Sample.Clocks), maxSubtasks)
		}
		if err := s.Sample.ValidateTime(); err != nil {
			return fmt.Errorf("samples[%d].sample.%w", i, err)
		}
	}
	return nil
}

// Validate checks a report.
func (r *Report) Validate() error {
	if r == nil {
		return errors.New("report: empty")
	}
	if err := required("job", r.Job); err != nil {
		return err
	}
	switch f := r.Fact.(type) {
	case *Report_Subtask:
		return within("subtask", checkUpdate(f.Subtask))
	case *Report_Exit:
		if f.Exit == nil {
			return errors.New("exit: empty")
		}
		return errors.Join(text("exit.reason", f.Exit.Reason, maxText), text("exit.stderr_tail", f.Exit.StderrTail, maxText))
	case *Report_Commit:
		if f.Commit == nil {
			return errors.New("commit: empty")
		}
		return nil
	case *Report_Splits:
		if f.Splits == nil {
			return errors.New("splits: empty")
		}
		if f.Splits.Offset < 0 || f.Splits.Operator < 0 {
			return fmt.Errorf("splits: operator %d, offset %d: negative", f.Splits.Operator, f.Splits.Offset)
		}
		for i, s := range f.Splits.Splits {
			if s == nil {
				return fmt.Errorf("splits.splits[%d]: empty", i)
			}
		}
		return nil
	case *Report_SplitRequest:
		if f.SplitRequest == nil {
			return errors.New("split_request: empty")
		}
		if f.SplitRequest.Have < 0 || f.SplitRequest.Operator < 0 {
			return fmt.Errorf("split_request: operator %d, have %d: negative", f.SplitRequest.Operator, f.SplitRequest.Have)
		}
		return nil
	case *Report_Ack:
		return within("ack", f.Ack.Validate())
	}
	return errors.New("fact: none that is known")
}

// Validate checks the answer to a build.
func (b *BuildResult) Validate() error {
	if b == nil {
		return errors.New("build_result: empty")
	}
	if (b.Built == nil) == (b.Failure == nil) {
		return errors.New("built, failure: exactly one must be set")
	}
	if b.Built != nil {
		if b.Built.Graph == nil && len(b.Built.Errors) == 0 {
			return errors.New("built: neither a graph nor an error")
		}
		return text("built.output", b.Built.Output, maxText)
	}
	return nil
}

// Validate checks what a coordinator sent; the error names the field. Contents of deployments are validated by the
// task protocol's own rules where they are used.
func (m *CoordinatorMessage) Validate() error {
	if m.GetTerm() == 0 {
		return errors.New("term: must be positive")
	}
	switch v := m.Message.(type) {
	case *CoordinatorMessage_Welcome:
		return within("welcome", v.Welcome.Validate())
	case *CoordinatorMessage_Ack:
		return notEmpty("ack", v.Ack == nil)
	case *CoordinatorMessage_Build:
		if v.Build == nil || v.Build.Spec == nil {
			return errors.New("build: empty")
		}
		if v.Build.TimeLimitUs <= 0 {
			return fmt.Errorf("build.time_limit_us: %d is not positive", v.Build.TimeLimitUs)
		}
		return nil
	case *CoordinatorMessage_Deploy:
		if v.Deploy == nil || v.Deploy.Deployment == nil {
			return errors.New("deploy: empty")
		}
		return within("deploy.deployment", required("job", v.Deploy.Deployment.Job))
	case *CoordinatorMessage_Cancel:
		return notEmpty("cancel", v.Cancel == nil)
	case *CoordinatorMessage_Commit:
		return notEmpty("commit", v.Commit == nil)
	case *CoordinatorMessage_Release:
		return notEmpty("release", v.Release == nil)
	case *CoordinatorMessage_AssignSplits:
		return notEmpty("assign_splits", v.AssignSplits == nil)
	case *CoordinatorMessage_AbandonBuild:
		return notEmpty("abandon_build", v.AbandonBuild == nil)
	case *CoordinatorMessage_OpenGate:
		if v.OpenGate == nil {
			return errors.New("open_gate: empty")
		}
		return within("open_gate", v.OpenGate.Validate())
	case *CoordinatorMessage_DropPartitions:
		if v.DropPartitions == nil {
			return errors.New("drop_partitions: empty")
		}
		return within("drop_partitions", v.DropPartitions.Validate())
	case *CoordinatorMessage_Trigger:
		if v.Trigger == nil {
			return errors.New("trigger: empty")
		}
		return within("trigger", v.Trigger.Validate())
	case *CoordinatorMessage_CheckpointNotice:
		if v.CheckpointNotice == nil {
			return errors.New("checkpoint_notice: empty")
		}
		return within("checkpoint_notice", v.CheckpointNotice.Validate())
	case *CoordinatorMessage_DeleteObjects:
		return within("delete_objects", v.DeleteObjects.Validate())
	case *CoordinatorMessage_CopyObjects:
		return within("copy_objects", v.CopyObjects.Validate())
	case *CoordinatorMessage_GroupClocks:
		if v.GroupClocks == nil {
			return errors.New("group_clocks: empty")
		}
		return within("group_clocks", v.GroupClocks.Validate())
	}
	return errors.New("no known message is set")
}

func notEmpty(field string, empty bool) error {
	if empty {
		return fmt.Errorf("%s: empty", field)
	}
	return nil
}

// Validate checks a welcome.
func (w *Welcome) Validate() error {
	switch {
	case w == nil:
		return errors.New("welcome: empty")
	case w.HeartbeatUs <= 0:
		return fmt.Errorf("heartbeat_us: %d is not positive", w.HeartbeatUs)
	case w.LostAfterUs < 2*w.HeartbeatUs:
		return fmt.Errorf("lost_after_us: %d is less than two heartbeats of %d", w.LostAfterUs, w.HeartbeatUs)
	}
	return required("cluster", w.Cluster)
}
