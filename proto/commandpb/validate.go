package commandpb

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Bounds of a command.
const (
	MaxID    = 128     // bytes of an id, an address, a request id
	MaxSlots = 4096    // of one worker
	MaxList  = 100_000 // entries of a repeated field
)

// Validate checks the shape of a command: what code that applies it may rely on without looking again. It knows
// nothing of the facts. The same bytes give the same error everywhere, since the error becomes a replicated result.
func (c *Command) Validate() error {
	if c == nil {
		return errors.New("command: missing")
	}
	if err := errors.Join(checkID("proposer", c.Proposer, optional), checkID("request_id", c.RequestId, optional)); err != nil {
		return err
	}
	if c.TimeUs < 0 {
		return fmt.Errorf("time_us: %d is negative", c.TimeUs)
	}
	switch b := c.Command.(type) {
	case *Command_InitCluster:
		return checkID("init_cluster.cluster", b.InitCluster.GetCluster(), required)
	case *Command_PutNode:
		return b.PutNode.GetNode().validate()
	case *Command_RemoveNode:
		return checkID("remove_node.id", b.RemoveNode.GetId(), required)
	case *Command_LeaderElected:
		return checkID("leader_elected.id", b.LeaderElected.GetId(), required)
	case *Command_RegisterWorker:
		return b.RegisterWorker.GetWorker().validate()
	case *Command_LoseWorker:
		return errors.Join(checkID("lose_worker.worker", b.LoseWorker.GetWorker(), required),
			checkText("lose_worker.reason", b.LoseWorker.GetReason()))
	case *Command_SetDrain:
		return checkID("set_drain.worker", b.SetDrain.GetWorker(), required)
	case *Command_PutArtifact:
		return b.PutArtifact.validate()
	case *Command_RemoveArtifact:
		return checkDigest("remove_artifact.digest", b.RemoveArtifact.GetDigest())
	case *Command_SubmitJob:
		return errors.Join(b.SubmitJob.GetSpec().Validate(), checkID("request_id", c.RequestId, required))
	case *Command_ForgetJobs:
		return checkCount("forget_jobs.jobs", len(b.ForgetJobs.GetJobs()))
	default:
		return c.validateJob()
	}
}

func (c *Command) validateJob() error {
	switch b := c.Command.(type) {
	case *Command_StartPlanning:
		return checkID("start_planning.worker", b.StartPlanning.GetWorker(), required)
	case *Command_PlanJob:
		return errors.Join(b.PlanJob.GetPlan().Validate(), b.PlanJob.GetAdopted().validate("plan_job.adopted"))
	case *Command_RejectPlan:
		return checkFailure("reject_plan.failure", b.RejectPlan.GetFailure())
	case *Command_HoldJob:
		return checkText("hold_job.message", b.HoldJob.GetMessage())
	case *Command_ScheduleRegions:
		return b.ScheduleRegions.validate()
	case *Command_UpdateSubtasks:
		return b.UpdateSubtasks.validate()
	case *Command_RestartRegions:
		return errors.Join(checkRegions("restart_regions.regions", b.RestartRegions.GetRegions()),
			checkFailure("restart_regions.cause", b.RestartRegions.GetCause()), checkResults("restart_regions.lost", b.RestartRegions.GetLost()),
			checkMost("restart_regions.reordered", len(b.RestartRegions.GetReordered())))
	case *Command_ReleasePartitions:
		return errors.Join(checkCount("release_partitions.partitions", len(b.ReleasePartitions.GetPartitions())),
			checkResults("release_partitions.partitions", b.ReleasePartitions.GetPartitions()))
	case *Command_ReleaseSlots:
		return checkCount("release_slots.slots", len(b.ReleaseSlots.GetSlots()))
	case *Command_FailJob:
		return checkFailure("fail_job.cause", b.FailJob.GetCause())
	case *Command_DeployCommitter:
		return checkID("deploy_committer.worker", b.DeployCommitter.GetWorker(), required)
	case *Command_EndJob:
		return checkText("end_job.note", b.EndJob.GetNote())
	case *Command_AddSplits:
		return b.AddSplits.validate()
	case *Command_AssignSplits:
		return b.AssignSplits.validate()
	case *Command_CancelJob, *Command_ConfirmCommits:
		return nil
	}
	if known, err := c.validateCheckpoint(); known {
		return err
	}
	return errors.New("command: none")
}

func (n *Node) validate() error {
	if n == nil {
		return errors.New("put_node.node: missing")
	}
	return errors.Join(checkID("put_node.node.id", n.Id, required), checkID("put_node.node.api_address", n.ApiAddress, optional),
		checkID("put_node.node.raft_address", n.RaftAddress, optional), checkID("put_node.node.version", n.Version, optional))
}

func (w *Worker) validate() error {
	if w == nil {
		return errors.New("register_worker.worker: missing")
	}
	if w.Incarnation == 0 {
		return errors.New("register_worker.worker.incarnation: missing")
	}
	if w.Slots < 1 || w.Slots > MaxSlots {
		return fmt.Errorf("register_worker.worker.slots: %d is not in 1…%d", w.Slots, MaxSlots)
	}
	if w.Memory < 0 {
		return fmt.Errorf("register_worker.worker.memory: %d is negative", w.Memory)
	}
	return errors.Join(checkID("register_worker.worker.id", w.Id, required),
		checkID("register_worker.worker.address", w.Address, optional),
		checkID("register_worker.worker.data_address", w.DataAddress, optional),
		checkID("register_worker.worker.version", w.Version, optional), checkID("register_worker.worker.os", w.Os, optional),
		checkID("register_worker.worker.arch", w.Arch, optional), checkText("register_worker.worker.host", w.Host),
		checkID("register_worker.worker.zone", w.Zone, optional))
}

func (a *PutArtifact) validate() error {
	if a.GetSize() < 0 {
		return fmt.Errorf("put_artifact.size: %d is negative", a.Size)
	}
	for _, n := range a.GetNodes() {
		if err := checkID("put_artifact.nodes", n, required); err != nil {
			return err
		}
	}
	return errors.Join(checkDigest("put_artifact.digest", a.GetDigest()), checkID("put_artifact.os", a.GetOs(), optional),
		checkID("put_artifact.arch", a.GetArch(), optional), checkMost("put_artifact.nodes", len(a.GetNodes())))
}

func (s *ScheduleRegions) validate() error {
	if err := checkRegions("schedule_regions.regions", s.GetRegions()); err != nil {
		return err
	}
	if err := checkCount("schedule_regions.assignments", len(s.Assignments)); err != nil {
		return err
	}
	for i, a := range s.Assignments {
		if a == nil {
			return fmt.Errorf("schedule_regions.assignments[%d]: missing", i)
		}
		if err := checkID("schedule_regions.assignments", a.Worker, required); err != nil {
			return err
		}
	}
	for _, w := range s.Keep {
		if err := checkID("schedule_regions.keep", w, required); err != nil {
			return err
		}
	}
	return checkMost("schedule_regions.keep", len(s.Keep))
}

func (u *UpdateSubtasks) validate() error {
	if err := checkCount("update_subtasks.updates", len(u.GetUpdates())); err != nil {
		return err
	}
	for i, x := range u.GetUpdates() {
		if x == nil {
			return fmt.Errorf("update_subtasks.updates[%d]: missing", i)
		}
		if x.Failure != nil {
			if err := checkFailure("update_subtasks.updates.failure", x.Failure); err != nil {
				return err
			}
		}
		for _, c := range x.Committables {
			if err := c.Validate(); err != nil {
				return fmt.Errorf("update_subtasks.updates[%d]: %w", i, err)
			}
		}
	}
	return nil
}

func (a *AddSplits) validate() error {
	if err := checkMost("add_splits.splits", len(a.GetSplits())); err != nil {
		return err
	}
	if n := len(a.GetEnumerator()); n > jobpb.MaxEnumerator {
		return fmt.Errorf("add_splits.enumerator: %d bytes, at most %d", n, jobpb.MaxEnumerator)
	}
	for i, s := range a.GetSplits() {
		if err := s.Validate(); err != nil {
			return fmt.Errorf("add_splits.splits[%d]: %w", i, err)
		}
	}
	return nil
}

func (a *AssignSplits) validate() error {
	if err := checkCount("assign_splits.assignments", len(a.GetAssignments())); err != nil {
		return err
	}
	for i, s := range a.GetAssignments() {
		if s == nil {
			return fmt.Errorf("assign_splits.assignments[%d]: missing", i)
		}
	}
	return nil
}

type presence uint8

const (
	optional presence = iota
	required
)

func checkID(path, id string, p presence) error {
	if id == "" && p == required {
		return fmt.Errorf("%s: missing", path)
	}
	if len(id) > MaxID {
		return fmt.Errorf("%s: %d bytes, at most %d", path, len(id), MaxID)
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return fmt.Errorf("%s: %q has a character that is not printable ASCII", path, id)
		}
	}
	return nil
}

func checkText(path, s string) error {
	if len(s) > jobpb.MaxText || !utf8.ValidString(s) {
		return fmt.Errorf("%s: not UTF-8 or above %d bytes", path, jobpb.MaxText)
	}
	return nil
}

func checkDigest(path, d string) error {
	if !jobpb.IsDigest(d) {
		return fmt.Errorf("%s: no sha256 in lower-case hex", path)
	}
	return nil
}

func checkCount(path string, n int) error {
	if n == 0 {
		return fmt.Errorf("%s: empty", path)
	}
	return checkMost(path, n)
}

func checkMost(path string, n int) error {
	if n > MaxList {
		return fmt.Errorf("%s: %d entries, at most %d", path, n, MaxList)
	}
	return nil
}

func checkRegions(path string, rs []*taskpb.RegionEpoch) error {
	if err := checkCount(path, len(rs)); err != nil {
		return err
	}
	seen := make(map[int32]bool, len(rs))
	for i, r := range rs {
		if r == nil || seen[r.Region] {
			return fmt.Errorf("%s[%d]: missing or named twice", path, i)
		}
		seen[r.Region] = true
	}
	return nil
}

func checkResults(path string, rs []*jobpb.PartitionRef) error {
	for i, r := range rs {
		if r == nil || r.Edge < 0 || r.Producer < 0 || r.Attempt == 0 {
			return fmt.Errorf("%s[%d]: missing, or edge, producer or attempt out of range", path, i)
		}
	}
	return checkMost(path, len(rs))
}

func checkFailure(path string, f *jobpb.Failure) error {
	if f == nil {
		return fmt.Errorf("%s: missing", path)
	}
	if f.Bounded() != f {
		return fmt.Errorf("%s: a text is not UTF-8 or too long, or too many lost results", path)
	}
	return nil
}
