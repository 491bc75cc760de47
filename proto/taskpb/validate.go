package taskpb

import (
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Bounds of what a peer may send.
const (
	// MaxOutput bounds what a build may write to standard output and still be told about, in bytes.
	MaxOutput = 64 << 10
	// maxName bounds ids and names, in bytes.
	maxName = 1 << 10
)

// at puts the place of a fault in front of it.
func at(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

func checkName(what, name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%s of %d bytes: must have 1 to %d", what, len(name), maxName)
	}
	return nil
}

func checkNotNegative(what string, n int32) error {
	if n < 0 {
		return fmt.Errorf("%s %d: must not be negative", what, n)
	}
	return nil
}

func checkAttempt(chain, index int32, attempt uint32) error {
	switch {
	case chain < 0:
		return fmt.Errorf("chain %d: must not be negative", chain)
	case index < 0:
		return fmt.Errorf("subtask index %d: must not be negative", index)
	case attempt == 0:
		return fmt.Errorf("chain %d, subtask %d: attempts count from 1", chain, index)
	}
	return nil
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// ---------------------------------------------------------------- agent → task process

// Validate checks what an agent says.
func (m *AgentMessage) Validate() error {
	switch b := m.Message.(type) {
	case *AgentMessage_Build:
		return at(b.Build.Validate(), "build")
	case *AgentMessage_Deploy:
		return at(b.Deploy.Validate(), "deployment")
	case *AgentMessage_Cancel:
		return at(b.Cancel.Validate(), "cancel")
	case *AgentMessage_Commit:
		return at(b.Commit.Validate(), "commit")
	case *AgentMessage_Shutdown:
		return nil
	case *AgentMessage_AssignSplits:
		return at(b.AssignSplits.Validate(), "assign splits")
	case *AgentMessage_OpenGate:
		return at(b.OpenGate.Validate(), "open gate")
	case *AgentMessage_Trigger:
		return at(b.Trigger.Validate(), "trigger")
	case *AgentMessage_CheckpointNotice:
		return at(b.CheckpointNotice.Validate(), "checkpoint notice")
	case *AgentMessage_GroupClocks:
		return at(b.GroupClocks.Validate(), "group clocks")
	}
	return fmt.Errorf("agent message of unknown kind %T", m.Message)
}

// Validate needs a specification.
func (b *Build) Validate() error { return b.Spec.Validate() }

// Validate checks that every subtask and location is one of the plan, and that no subtask appears twice.
func (d *Deployment) Validate() error {
	if err := checkName("job id", d.Job); err != nil {
		return err
	}
	if err := d.Plan.Validate(); err != nil {
		return at(err, "job %s", d.Job)
	}
	if d.ProcessMemory < 0 || d.Slots < 0 {
		return fmt.Errorf("job %s: %d bytes of memory, %d slots: must not be negative", d.Job, d.ProcessMemory, d.Slots)
	}
	if d.Restore != nil {
		if err := d.Restore.Validate(); err != nil {
			return at(err, "job %s", d.Job)
		}
	}
	seen := map[[2]int32]bool{}
	for i, s := range d.Subtasks {
		if s.Restore > 0 && s.Restore != d.Restore.GetCheckpoint() {
			return fmt.Errorf("job %s: subtasks[%d] restores checkpoint %d, the deployment has %d", d.Job, i, s.Restore, d.Restore.GetCheckpoint())
		}
		if err := s.validate(d.Plan); err != nil {
			return at(err, "job %s: subtasks[%d]", d.Job, i)
		}
		key := [2]int32{s.Chain, s.Index}
		if seen[key] {
			return fmt.Errorf("job %s: subtasks[%d]: chain %d, subtask %d appears twice", d.Job, i, s.Chain, s.Index)
		}
		seen[key] = true
	}
	for i, l := range d.Locations {
		if l.GetAttempt() == 0 && l.GetWorker() == "" {
			continue // nowhere yet: whoever reads what is stored may come much later
		}
		if err := l.validate(d.Plan); err != nil {
			return at(err, "job %s: locations[%d]", d.Job, i)
		}
	}
	return nil
}

// inPlan checks that a subtask exists.
func inPlan(p *jobpb.Plan, chain, index int32) error {
	if int(chain) >= len(p.Chains) {
		return fmt.Errorf("chain %d of %d", chain, len(p.Chains))
	}
	if n := p.Chains[chain].Parallelism; index >= n {
		return fmt.Errorf("chain %d: subtask %d of %d", chain, index, n)
	}
	return nil
}

func (s *SubtaskDeployment) validate(p *jobpb.Plan) error {
	err := first(checkAttempt(s.Chain, s.Index, s.Attempt), inPlan(p, max(s.Chain, 0), s.Index),
		checkNotNegative("region", s.Region))
	if err != nil {
		return err
	}
	for _, op := range s.Enumerate {
		if op < 0 || int(op) >= len(p.Graph.Operators) {
			return fmt.Errorf("enumerates operator %d of %d", op, len(p.Graph.Operators))
		}
	}
	return nil
}

func (l *Location) validate(p *jobpb.Plan) error {
	err := first(checkAttempt(l.Chain, l.Index, l.Attempt), inPlan(p, max(l.Chain, 0), l.Index), checkName("worker", l.Worker))
	if err != nil {
		return err
	}
	for i, r := range l.Partitions {
		switch e := r.GetEdge(); {
		case e < 0 || int(e) >= len(p.Edges) || p.Edges[e].FromChain != l.Chain || p.Edges[e].Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING:
			return fmt.Errorf("partitions[%d]: edge %d is no BLOCKING one that leaves chain %d", i, e, l.Chain)
		case r.GetAttempt() == 0:
			return fmt.Errorf("partitions[%d]: attempts count from 1", i)
		}
	}
	return nil
}

// Validate checks the target.
func (c *Cancel) Validate() error { return checkRegions(c.Job, c.Regions) }

// Validate checks the target.
func (o *OpenGate) Validate() error { return checkRegions(o.Job, o.Regions) }

func checkRegions(job string, regions []*RegionEpoch) error {
	if err := checkName("job id", job); err != nil {
		return err
	}
	for i, r := range regions {
		if err := checkNotNegative("region", r.Region); err != nil {
			return at(err, "job %s: regions[%d]", job, i)
		}
	}
	return nil
}

// Validate wants names, or all of the job's, and not both.
func (d *DropPartitions) Validate() error {
	if err := checkName("job id", d.Job); err != nil {
		return err
	}
	if d.All == (len(d.Partitions) > 0) {
		return fmt.Errorf("job %s: neither partitions nor all of them, or both", d.Job)
	}
	for i, n := range d.Partitions {
		if err := n.Validate(); err != nil {
			return at(err, "job %s: partitions[%d]", d.Job, i)
		}
	}
	return nil
}

// Validate checks that the name is one.
func (n *PartitionName) Validate() error {
	if n.GetAttempt() == 0 {
		return fmt.Errorf("attempts count from 1")
	}
	return first(checkNotNegative("region", n.Region), checkNotNegative("edge", n.Edge), checkNotNegative("producer", n.Producer))
}

// Validate checks the target and every committable.
func (c *Commit) Validate() error {
	return first(checkName("job id", c.Job), checkCommittables(c.Committables))
}

func checkCommittables(cs []*jobpb.Committable) error {
	for i, c := range cs {
		if err := c.Validate(); err != nil {
			return at(err, "committables[%d]", i)
		}
		if c.Sink == "" || c.Subtask < 0 || c.N < 0 {
			return fmt.Errorf("committables[%d]: sink %q, subtask %d, number %d", i, c.Sink, c.Subtask, c.N)
		}
	}
	return nil
}

// Validate checks the target and every split.
func (a *AssignSplits) Validate() error {
	return first(checkName("job id", a.Job), checkNotNegative("operator", a.Operator),
		checkAttempt(a.Chain, a.Index, a.Attempt), checkNotNegative("offset", a.Offset), checkSplits(a.Splits))
}

func checkSplits(splits []*jobpb.Split) error {
	for i, s := range splits {
		if err := s.Validate(); err != nil {
			return at(err, "splits[%d]", i)
		}
		if s.Id == "" {
			return fmt.Errorf("splits[%d]: no id", i)
		}
	}
	return nil
}

// ---------------------------------------------------------------- task process → agent

// Validate checks what a task process says. It trusts nothing: user code runs there.
func (m *TaskMessage) Validate() error {
	switch b := m.Message.(type) {
	case *TaskMessage_Hello:
		return at(b.Hello.Validate(), "hello")
	case *TaskMessage_Built:
		return at(b.Built.Validate(), "built")
	case *TaskMessage_Update:
		return at(b.Update.Validate(), "update")
	case *TaskMessage_Sample:
		return at(b.Sample.Validate(), "sample")
	case *TaskMessage_CommitResult:
		return at(b.CommitResult.Validate(), "commit result")
	case *TaskMessage_Failure:
		return at(b.Failure.Validate(), "process failure")
	case *TaskMessage_SplitsDiscovered:
		return at(b.SplitsDiscovered.Validate(), "splits discovered")
	case *TaskMessage_SplitRequest:
		return at(b.SplitRequest.Validate(), "split request")
	case *TaskMessage_Ack:
		return at(b.Ack.Validate(), "acknowledgement")
	}
	return fmt.Errorf("task message of unknown kind %T", m.Message)
}

// Validate checks the version number only: whether it is in the window is for the agent to say, with a code.
func (h *Hello) Validate() error {
	if h.Protocol < 1 {
		return fmt.Errorf("protocol %d: must be positive", h.Protocol)
	}
	return checkName("job name", h.JobName)
}

// Validate wants a graph or errors, and not both.
func (b *Built) Validate() error {
	if (b.Graph == nil) == (len(b.Errors) == 0) {
		return fmt.Errorf("neither graph nor errors, or both")
	}
	if len(b.Output) > MaxOutput {
		return fmt.Errorf("output of %d bytes is above the bound of %d", len(b.Output), MaxOutput)
	}
	if b.Graph != nil {
		return b.Graph.Validate()
	}
	for i, d := range b.Errors {
		if d.Code == "" {
			return fmt.Errorf("errors[%d]: no code", i)
		}
	}
	return nil
}

// Validate checks that state, failure and committables belong together.
func (u *SubtaskUpdate) Validate() error {
	err := first(checkAttempt(u.Chain, u.Index, u.Attempt), checkNotNegative("region", u.Region),
		checkCommittables(u.Committables))
	if err != nil {
		return err
	}
	switch u.State {
	case jobpb.SubtaskState_SUBTASK_SCHEDULED, jobpb.SubtaskState_SUBTASK_RUNNING, jobpb.SubtaskState_SUBTASK_FINISHED,
		jobpb.SubtaskState_SUBTASK_CANCELLED, jobpb.SubtaskState_SUBTASK_FINISHING:
		if u.Failure != nil {
			return fmt.Errorf("chain %d, subtask %d: %s with a failure", u.Chain, u.Index, u.State)
		}
	case jobpb.SubtaskState_SUBTASK_FAILED:
		if u.Failure == nil {
			return fmt.Errorf("chain %d, subtask %d: failed without a failure", u.Chain, u.Index)
		}
	default:
		return fmt.Errorf("chain %d, subtask %d: state %s is not for a task process to say", u.Chain, u.Index, u.State)
	}
	if len(u.Committables) > 0 && u.State != jobpb.SubtaskState_SUBTASK_FINISHED {
		return fmt.Errorf("chain %d, subtask %d: committables with %s", u.Chain, u.Index, u.State)
	}
	if err := u.checkPartitions(); err != nil {
		return at(err, "chain %d, subtask %d", u.Chain, u.Index)
	}
	if c := u.Counters; c != nil && (c.Chain != u.Chain || c.Index != u.Index || c.Attempt != u.Attempt) {
		return fmt.Errorf("chain %d, subtask %d, attempt %d: counters of chain %d, subtask %d, attempt %d",
			u.Chain, u.Index, u.Attempt, c.Chain, c.Index, c.Attempt)
	}
	if err := u.Counters.Validate(); err != nil {
		return at(err, "chain %d, subtask %d: counters", u.Chain, u.Index)
	}
	return nil
}

func (u *SubtaskUpdate) checkPartitions() error {
	if len(u.Partitions) > 0 && u.State != jobpb.SubtaskState_SUBTASK_FINISHED {
		return fmt.Errorf("stored results with %s", u.State)
	}
	for i, p := range u.Partitions {
		switch {
		case p.GetState() != jobpb.PartitionState_PARTITION_STORED || p.GetAttempt() != u.Attempt || p.GetRegionEpoch() != u.RegionEpoch:
			return fmt.Errorf("partitions[%d]: %s, attempt %d, region epoch %d, reported by attempt %d of %d",
				i, p.GetState(), p.GetAttempt(), p.GetRegionEpoch(), u.Attempt, u.RegionEpoch)
		case p.GetEdge() < 0 || p.GetBytes() < 0 || p.GetRecords() < 0 || len(p.GetDigest()) != jobpb.DigestBytes:
			return fmt.Errorf("partitions[%d]: edge %d, %d bytes, %d records, digest of %d bytes",
				i, p.GetEdge(), p.GetBytes(), p.GetRecords(), len(p.GetDigest()))
		}
	}
	return nil
}

// Validate checks the counters' attempts, and what is said about time.
func (s *Sample) Validate() error {
	for i, c := range s.Counters {
		if err := checkAttempt(c.Chain, c.Index, c.Attempt); err != nil {
			return at(err, "counters[%d]", i)
		}
		if err := c.Validate(); err != nil {
			return at(err, "counters[%d]", i)
		}
	}
	return s.ValidateTime()
}

// Validate checks the target.
func (r *CommitResult) Validate() error { return checkName("job id", r.Job) }

// Validate wants a failure.
func (f *ProcessFailure) Validate() error {
	if f.Failure == nil {
		return fmt.Errorf("no failure")
	}
	return nil
}

// Validate checks the place and every split.
func (s *SplitsDiscovered) Validate() error {
	return first(checkNotNegative("operator", s.Operator), checkNotNegative("region", s.Region),
		checkNotNegative("offset", s.Offset), checkSplits(s.Splits))
}

// Validate checks who asks.
func (r *SplitRequest) Validate() error {
	return first(checkNotNegative("operator", r.Operator), checkAttempt(r.Chain, r.Index, r.Attempt),
		checkNotNegative("region", r.Region), checkNotNegative("splits received", r.Have))
}
