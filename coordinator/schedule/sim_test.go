package schedule

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

const digest = "00000000000000000000000000000000000000000000000000000000000000aa"

// tester is what testing.T and rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// sim is a cluster without a network: the facts, one leader at a time, workers that do what agents do. Whatever is on
// its way waits in a queue until the test delivers it, so the test decides about order, loss and repetition.
type sim struct {
	t       tester
	now     time.Time
	facts   *state.State
	twin    *state.State // applies the same log from bytes
	index   uint64
	term    uint64
	leader  *Leader
	shadow  *Leader // sees the same and must decide the same
	wake    time.Time
	pending []Propose // decided and not in the log
	workers map[string]*agent
	trace   []string
	seen    map[string]attempts // by job: newest attempt of each subtask
	ended   map[string]*jobpb.Job
	read    map[string][]result // by output name: stored results that went into it
	took    map[string][]string // by output name: splits that were read for it
	cfg     Config
	turn    int  // whose turn it is
	quiet   bool // no trace
}

type attempts map[[2]int32]uint32

func newSim(t tester) *sim {
	s := &sim{t: t, now: time.UnixMicro(1_000_000_000), facts: state.New(), twin: state.New(), workers: map[string]*agent{}, seen: map[string]attempts{}, ended: map[string]*jobpb.Job{},
		read: map[string][]result{}, took: map[string][]string{}, cfg: DefaultConfig()}
	s.apply(&commandpb.Command{Command: &commandpb.Command_InitCluster{InitCluster: &commandpb.InitCluster{Cluster: "test"}}})
	s.apply(&commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: &commandpb.PutArtifact{Digest: digest, Size: 1, Os: "linux", Arch: "amd64"}}})
	s.elect()
	return s
}

func (s *sim) tracef(format string, args ...any) {
	if !s.quiet {
		s.trace = append(s.trace, fmt.Sprintf(format, args...))
	}
}

// take returns the trace since the last call.
func (s *sim) take() string {
	t := strings.Join(s.trace, "\n")
	s.trace = nil
	if t == "" {
		return ""
	}
	return t + "\n"
}

// elect throws the leader away and starts the next one, as a new term does. Its proposals that are not in the log yet
// are lost.
func (s *sim) elect() {
	s.replace()
	s.step(Applied{Index: s.index})
}

// replace is elect for a leader that has seen nothing yet.
func (s *sim) replace() {
	s.term++
	s.pending = nil
	c := s.cfg
	c.Leader, c.Term = fmt.Sprint("c", s.term), s.term
	s.leader, s.shadow = New(c), New(c)
	s.wake = time.Time{}
	for _, a := range s.agents() {
		a.disconnect()
	}
	s.apply(&commandpb.Command{Command: &commandpb.Command_LeaderElected{LeaderElected: &commandpb.LeaderElected{Id: c.Leader, Term: s.term}}})
}

// apply appends one command to the log and checks what must hold after every command.
func (s *sim) apply(c *commandpb.Command) state.Result {
	if c.Version == 0 {
		c.Version, c.TimeUs, c.Proposer = state.Version, s.now.UnixMicro(), "test"
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		s.t.Fatalf("command cannot be encoded: %v", err)
	}
	s.index++
	r := s.facts.Apply(s.index, s.term, c)
	if other := s.twin.ApplyBytes(s.index, s.term, data); r != other || s.facts.Chain() != s.twin.Chain() {
		s.t.Fatalf("two nodes differ after the same log: %v and %v", r, other)
	}
	s.check()
	return r
}

// check holds after every command, whatever happened.
func (s *sim) check() {
	v := s.facts.View()
	used := map[string]int{}
	for j := range v.Jobs() {
		id := j.ID()
		if before := s.ended[id]; before != nil {
			if !proto.Equal(before, j.Proto()) {
				s.t.Fatalf("job %s was %s and changed after its end", id, before.Status)
			}
			continue
		}
		if state.Terminal(j.Status()) {
			s.ended[id] = proto.CloneOf(j.Proto())
		}
		if s.seen[id] == nil {
			s.seen[id] = attempts{}
		}
		for t := range j.Subtasks() {
			k := [2]int32{t.Chain, t.Index}
			if last := s.seen[id][k]; t.Attempt < last || t.Attempt > last+1 {
				s.t.Fatalf("job %s: attempt of %v goes from %d to %d", id, k, last, t.Attempt)
			}
			s.seen[id][k] = t.Attempt
		}
		for w, n := range slotsHeld(v, j) {
			used[w] += n
		}
		s.checkResults(j)
	}
	for w := range v.Workers() {
		if used[w.Id] > int(w.Slots) || v.UsedSlots(w.Id) < used[w.Id] {
			s.t.Fatalf("worker %s: %d of %d slots hold attempts, %d are counted", w.Id, used[w.Id], w.Slots, v.UsedSlots(w.Id))
		}
	}
}

// checkResults: what is needed is never given up, and a region runs only when what it reads is there or will come.
func (s *sim) checkResults(j *state.Job) {
	if j.Plan() == nil || state.Terminal(j.Status()) || j.Status() == jobpb.JobStatus_JOB_FINISHING {
		return
	}
	needs := j.Needs()
	for t := range j.Subtasks() {
		for _, p := range t.Partitions {
			if p.State == jobpb.PartitionState_PARTITION_RELEASED && needs.Partition(p.Edge, t.Index) && !glance.Ends(j.Status()) {
				s.t.Fatalf("job %s: the result of %d[%d] for edge %d is needed and released", j.ID(), t.Chain, t.Index, p.Edge)
			}
		}
	}
}

// finished remembers what an attempt has read. The same subtask of a bounded source reads the same splits every time.
func (s *sim) finished(t *attempt) {
	s.read[outputName(t)], s.took[outputName(t)] = t.results, t.splits
	for a := uint32(1); a < t.d.Attempt; a++ {
		before, known := s.took[fmt.Sprintf("%s/%d[%d]#%d", t.p.job, t.d.Chain, t.d.Index, a)]
		if known && t.end && !slices.Equal(before, t.splits) {
			s.t.Fatalf("%s read %v, attempt %d had read %v", outputName(t), t.splits, a, before)
		}
	}
}

// slotsHeld counts by definition: distinct slots of a job in which an attempt may act, by worker.
func slotsHeld(v *state.View, j *state.Job) map[string]int {
	slots, n := map[string]bool{}, map[string]int{}
	for t := range j.Subtasks() {
		w := v.Worker(t.Worker)
		if t.State != jobpb.SubtaskState_SUBTASK_SCHEDULED && t.State != jobpb.SubtaskState_SUBTASK_RUNNING || w == nil || w.Incarnation != t.Incarnation {
			continue
		}
		if k := fmt.Sprint(t.Worker, j.SlotOf(t.Chain, t.Index)); !slots[k] {
			slots[k] = true
			n[t.Worker]++
		}
	}
	return n
}

// step feeds the leader and performs its actions.
func (s *sim) step(e Event) {
	actions := s.leader.Step(s.facts.View(), e, s.now)
	if !slices.EqualFunc(actions, s.shadow.Step(s.facts.View(), e, s.now), sameAction) {
		s.t.Fatalf("two leaders that saw the same do different things after %T", e)
	}
	for _, a := range actions {
		switch a := a.(type) {
		case Propose:
			for _, p := range s.pending {
				if p.Key == a.Key {
					s.t.Fatalf("two proposals on lane %s", a.Key)
				}
			}
			s.pending = append(s.pending, a)
		case Send:
			s.deliver(a)
		case Drop:
			s.tracef("drop %s: %s", a.Worker, a.Reason)
			if w := s.workers[a.Worker]; w != nil && w.connected && w.incarnation == a.Incarnation {
				w.disconnect()
			}
		case WakeAt:
			s.wake = a.At
		}
	}
}

func sameAction(a, b Action) bool {
	switch a := a.(type) {
	case Propose:
		b, ok := b.(Propose)
		return ok && a.Key == b.Key && proto.Equal(a.Command, b.Command)
	case Send:
		b, ok := b.(Send)
		return ok && a.Worker == b.Worker && a.Incarnation == b.Incarnation && proto.Equal(a.Message, b.Message)
	}
	return a == b
}

func (s *sim) deliver(a Send) {
	w := s.workers[a.Worker]
	if w == nil || !w.connected || w.incarnation != a.Incarnation {
		return
	}
	w.inbox = append(w.inbox, proto.CloneOf(a.Message))
}

// commit takes the oldest proposal into the log and answers it.
func (s *sim) commit() {
	p := s.pending[0]
	s.pending = s.pending[1:]
	r := s.apply(p.Command)
	s.tracef("commit %s: %s", describeCommand(p.Command), r)
	s.step(ProposalDone{Key: p.Key, Result: r})
}

var errUnknown = errors.New("outcome unknown")

// lose answers the oldest proposal with an unknown outcome; applied says what really happened.
func (s *sim) lose(applied bool) {
	p := s.pending[0]
	s.pending = s.pending[1:]
	if applied {
		s.apply(p.Command)
	}
	s.step(ProposalDone{Key: p.Key, Err: errUnknown})
}

func (s *sim) agents() []*agent {
	return slices.SortedFunc(maps.Values(s.workers), func(a, b *agent) int { return cmp.Compare(a.id, b.id) })
}

// settle delivers everything until nothing is on its way. It does not move the clock.
func (s *sim) settle() {
	for range 100_000 {
		if !s.progress() {
			return
		}
	}
	s.t.Fatalf("the cluster never comes to rest; the last steps:\n%s", strings.Join(s.trace[max(0, len(s.trace)-40):], "\n"))
}

func (s *sim) progress() bool {
	if len(s.pending) > 0 {
		s.commit()
		return true
	}
	ws := s.agents()
	for range ws {
		s.turn++
		if w := ws[s.turn%len(ws)]; w.obeyNext() || w.speakNext() {
			return true
		}
	}
	return false
}

// pass lets time go by, with a Tick whenever the leader asked for one and heartbeats in between.
func (s *sim) pass(d time.Duration) {
	end := s.now.Add(d)
	for s.now.Before(end) {
		next := s.now.Add(s.cfg.Heartbeat)
		if s.wake.After(s.now) && s.wake.Before(next) {
			next = s.wake
		}
		if next.After(end) {
			next = end
		}
		s.now = next
		if !s.wake.IsZero() && !s.wake.After(s.now) {
			s.step(Tick{})
		}
		for _, w := range s.agents() {
			w.askAgain()
			if w.connected && !w.frozen {
				s.step(Heartbeat{Worker: w.id, Incarnation: w.incarnation})
			}
		}
		s.settle()
	}
}

func (s *sim) submit(name string, graph string, settings map[string]string) string {
	if settings == nil {
		settings = map[string]string{}
	}
	settings["checkpoint.interval"] = "0" // the agents here answer no trigger
	spec := &jobpb.JobSpec{Name: name, Artifact: digest, Params: map[string]string{"graph": graph}, Settings: settings}
	r := s.apply(&commandpb.Command{RequestId: fmt.Sprintf("%s-%d", name, s.index), Command: &commandpb.Command_SubmitJob{SubmitJob: &commandpb.SubmitJob{Spec: spec}}})
	if r.Status != state.Applied {
		s.t.Fatalf("submit: %s", r)
	}
	s.step(Applied{Index: s.index})
	return r.Job
}

func (s *sim) cancel(id string) state.Result {
	r := s.apply(&commandpb.Command{Command: &commandpb.Command_CancelJob{CancelJob: &commandpb.CancelJob{Job: id}}})
	s.step(Applied{Index: s.index})
	return r
}

func (s *sim) job(id string) *state.Job {
	j := s.facts.View().Job(id)
	if j == nil {
		s.t.Fatalf("no job %s", id)
	}
	return j
}

// roundTrip saves the facts and loads them again.
func (s *sim) roundTrip() {
	var a, b bytes.Buffer
	if err := s.facts.View().Save(&a); err != nil {
		s.t.Fatalf("save: %v", err)
	}
	loaded, err := state.Load(bytes.NewReader(a.Bytes()))
	if err != nil {
		s.t.Fatalf("load: %v", err)
	}
	if err := loaded.View().Save(&b); err != nil {
		s.t.Fatalf("save again: %v", err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		s.t.Fatalf("a loaded snapshot is saved as other bytes")
	}
	for w := range loaded.View().Workers() {
		if loaded.View().UsedSlots(w.Id) != s.facts.View().UsedSlots(w.Id) {
			s.t.Fatalf("worker %s: %d used slots after loading, %d before", w.Id, loaded.View().UsedSlots(w.Id), s.facts.View().UsedSlots(w.Id))
		}
	}
	s.facts = loaded
	s.twin, err = state.Load(bytes.NewReader(a.Bytes()))
	if err != nil {
		s.t.Fatalf("load: %v", err)
	}
}

func TestSimulatedJobFinishes(t *testing.T) {
	s := newSim(t)
	s.start("w1", 2)
	id := s.submit("wc", "keyed 2", nil)
	s.settle()
	s.pass(10 * time.Second)
	if j := s.job(id); j.Status() != jobpb.JobStatus_JOB_FINISHED {
		t.Fatalf("%s\n%s", j.Status(), s.take())
	}
}

func TestALeaderWhoseFirstEventIsAWorkerKnowsWhatTheWorkerHas(t *testing.T) {
	s := newSim(t)
	w := s.start("w1", 2)
	w.slowRead = true
	id := s.submit("stages", "stages 2", nil)
	s.settle()
	s.pass(2 * time.Second)
	kept, procs := len(w.disk), len(w.procs)
	if kept == 0 || procs == 0 {
		t.Fatalf("%d stored results in %d processes: the job has not come so far\n%s", kept, procs, s.take())
	}
	s.replace()
	w.slowRead = false
	w.connect()
	if len(w.disk) < kept {
		t.Errorf("%d of %d stored results were dropped", kept-len(w.disk), kept)
	}
	s.settle()
	s.pass(10 * time.Second)
	j := s.job(id)
	if j.Status() != jobpb.JobStatus_JOB_FINISHED {
		t.Fatalf("%s\n%s", j.Status(), s.take())
	}
	for r := range j.Regions() {
		if r.Epoch != 1 {
			t.Errorf("region %d was begun %d times", r.Index, r.Epoch)
		}
	}
}

// graphs that jobs of the simulation build: a name and a parallelism.
func graphOf(kind string) (*jobpb.Graph, []*jobpb.Diagnostic) {
	var name string
	n := int32(1)
	fmt.Sscan(kind, &name, &n)
	g := &jobpb.Graph{Name: name, Mode: jobpb.Mode_MODE_STREAMING}
	op := func(id, kind string, bounded bool, ins ...*jobpb.Input) *jobpb.Operator {
		o := &jobpb.Operator{Id: id, Kind: kind, Bounded: bounded, Parallelism: n, Inputs: ins}
		if kind == "sink" {
			o.Guarantee = jobpb.Guarantee_GUARANTEE_EXACTLY_ONCE
		}
		g.Operators = append(g.Operators, o)
		return o
	}
	in := func(from int32, p jobpb.Partitioner, x jobpb.ExchangeKind) *jobpb.Input {
		return &jobpb.Input{Operator: from, Partitioner: p, Exchange: x}
	}
	const (
		hash      = jobpb.Partitioner_PARTITIONER_HASH
		pipelined = jobpb.ExchangeKind_EXCHANGE_PIPELINED
		blocking  = jobpb.ExchangeKind_EXCHANGE_BLOCKING
	)
	switch name {
	case "keyed":
		op("in", "source", true)
		op("out", "sink", true, in(0, hash, pipelined))
	case "pair": // two pipelines without an edge between them
		op("in", "source", true)
		op("out", "sink", true, in(0, hash, pipelined))
		op("in2", "source", true)
	case "apart": // as pair, in slots of their own
		op("in", "source", true).SlotGroup = "a"
		op("out", "sink", true, in(0, hash, pipelined)).SlotGroup = "a"
		op("in2", "source", true).SlotGroup = "b"
	case "endless":
		op("in", "source", false)
		op("out", "sink", false, in(0, hash, pipelined))
	case "few": // fewer splits than readers
		op("in", "source", false).Detail = "1 splits in 1 phases"
		op("out", "sink", false, in(0, hash, pipelined))
	case "concat": // a history, and what comes after it
		op("in", "source", false).Detail = fmt.Sprint(4*n, " splits in 2 phases")
		op("out", "sink", false, in(0, hash, pipelined))
	case "batch":
		op("in", "source", true)
		op("out", "sink", true, in(0, hash, blocking))
	case "stages":
		op("in", "source", true)
		op("a", "map", true, in(0, hash, blocking))
		op("b", "map", true, in(1, hash, blocking))
		op("out", "sink", true, in(2, hash, blocking))
	case "lanes":
		op("in", "source", true)
		op("a", "map", true, in(0, jobpb.Partitioner_PARTITIONER_FORWARD, blocking))
		op("out", "sink", true, in(1, jobpb.Partitioner_PARTITIONER_FORWARD, blocking))
	case "merge": // records are dealt out in the order in which two inputs happen to come
		op("in", "source", true)
		op("in2", "source", true)
		op("m", "map", true, in(0, hash, pipelined), in(1, hash, pipelined))
		op("out", "sink", true, in(2, jobpb.Partitioner_PARTITIONER_REBALANCE, blocking))
	case "deep": // what was dealt out in the order of a merge goes on
		op("in", "source", true)
		op("in2", "source", true)
		op("m", "map", true, in(0, hash, pipelined), in(1, hash, pipelined))
		op("d", "map", true, in(2, jobpb.Partitioner_PARTITIONER_REBALANCE, blocking))
		op("out", "sink", true, in(3, hash, blocking))
	case "join": // two inputs of one stage, and one of them for two stages
		op("in", "source", true)
		op("in2", "source", true)
		op("a", "map", true, in(0, hash, blocking))
		op("j", "map", true, in(2, hash, blocking), in(1, hash, blocking))
		op("out", "sink", true, in(3, jobpb.Partitioner_PARTITIONER_GLOBAL, blocking), in(1, jobpb.Partitioner_PARTITIONER_BROADCAST, blocking))
	case "pipe": // three stages, all at once
		op("in", "source", true)
		op("a", "map", true, in(0, hash, pipelined))
		op("out", "sink", true, in(1, hash, pipelined))
	case "mixed": // state is loaded from a bounded input before the live one is read
		op("init", "source", true)
		op("live", "source", false)
		op("boot", "map", false, in(0, hash, blocking), &jobpb.Input{Operator: 1, Partitioner: hash, Exchange: pipelined, Phase: 1, Gated: true})
		op("out", "sink", false, in(2, hash, pipelined))
	case "groups": // producers and consumers never share a slot
		op("in", "source", true).SlotGroup = "read"
		op("out", "sink", true, in(0, hash, blocking)).SlotGroup = "write"
	default:
		return nil, []*jobpb.Diagnostic{{Code: "E031", Message: "unknown parameter", Where: "main.go:3", Hints: []string{"say keyed"}}}
	}
	return g, nil
}

func describeCommand(c *commandpb.Command) string {
	switch b := c.Command.(type) {
	case *commandpb.Command_RegisterWorker:
		return fmt.Sprintf("register %s#%d", b.RegisterWorker.Worker.Id, b.RegisterWorker.Worker.Incarnation)
	case *commandpb.Command_LoseWorker:
		return fmt.Sprintf("lose %s#%d (%s)", b.LoseWorker.Worker, b.LoseWorker.Incarnation, b.LoseWorker.Reason)
	case *commandpb.Command_SetDrain:
		return fmt.Sprintf("drain %s", b.SetDrain.Worker)
	case *commandpb.Command_StartPlanning:
		return fmt.Sprintf("plan %s, attempt %d on %s", b.StartPlanning.Job, b.StartPlanning.Attempt, b.StartPlanning.Worker)
	case *commandpb.Command_PlanJob:
		return fmt.Sprintf("planned %s: %d chains, %d regions, %d slots", b.PlanJob.Job, len(b.PlanJob.Plan.Chains), len(b.PlanJob.Plan.Regions), b.PlanJob.Plan.Slots)
	case *commandpb.Command_RejectPlan:
		return fmt.Sprintf("reject plan of %s: %s", b.RejectPlan.Job, failureText(b.RejectPlan.Failure))
	case *commandpb.Command_HoldJob:
		return fmt.Sprintf("hold %s: %s (release %t)", b.HoldJob.Job, b.HoldJob.Message, b.HoldJob.Release)
	case *commandpb.Command_ScheduleRegions:
		where := map[string]int{}
		for _, a := range b.ScheduleRegions.Assignments {
			where[a.Worker]++
		}
		return fmt.Sprintf("schedule %s: regions%s on %v", b.ScheduleRegions.Job, epochsText(b.ScheduleRegions.Regions), where)
	case *commandpb.Command_ReleaseSlots:
		return fmt.Sprintf("give back slots %v of %s", b.ReleaseSlots.Slots, b.ReleaseSlots.Job)
	case *commandpb.Command_ReleasePartitions:
		return fmt.Sprintf("release results of %s:%s", b.ReleasePartitions.Job, refsText(b.ReleasePartitions.Partitions))
	case *commandpb.Command_UpdateSubtasks:
		var us []string
		for _, u := range b.UpdateSubtasks.Updates {
			text := fmt.Sprintf("%d[%d]#%d %s", u.Chain, u.Index, u.Attempt, strings.TrimPrefix(u.State.String(), "SUBTASK_"))
			if u.Produced && u.State == jobpb.SubtaskState_SUBTASK_RUNNING {
				text += " produced"
			}
			if u.Loaded && u.State == jobpb.SubtaskState_SUBTASK_RUNNING {
				text += " loaded"
			}
			if u.Failure != nil {
				text += " " + failureText(u.Failure)
			}
			us = append(us, text)
		}
		return fmt.Sprintf("update %s: %s", b.UpdateSubtasks.Job, strings.Join(us, ", "))
	case *commandpb.Command_RestartRegions:
		lost := ""
		if len(b.RestartRegions.Lost) > 0 {
			lost = ", lost" + refsText(b.RestartRegions.Lost)
		}
		return fmt.Sprintf("restart %s: regions%s after %s%s", b.RestartRegions.Job, epochsText(b.RestartRegions.Regions), failureText(b.RestartRegions.Cause), lost)
	case *commandpb.Command_FailJob:
		return fmt.Sprintf("fail %s: %s", b.FailJob.Job, failureText(b.FailJob.Cause))
	case *commandpb.Command_DeployCommitter:
		return fmt.Sprintf("deploy committer of %s on %s", b.DeployCommitter.Job, b.DeployCommitter.Worker)
	case *commandpb.Command_ConfirmCommits:
		return fmt.Sprintf("confirm output of %s", b.ConfirmCommits.Job)
	case *commandpb.Command_EndJob:
		return strings.TrimSpace(fmt.Sprintf("end %s %s", b.EndJob.Job, b.EndJob.Note))
	case *commandpb.Command_AddSplits:
		return fmt.Sprintf("splits of %s/%d: %d from %d, end %t", b.AddSplits.Job, b.AddSplits.Operator, len(b.AddSplits.Splits), b.AddSplits.Offset, b.AddSplits.End)
	case *commandpb.Command_AssignSplits:
		var as []string
		for _, a := range b.AssignSplits.Assignments {
			as = append(as, fmt.Sprintf("%d to [%d]", a.Split, a.Subtask))
		}
		return fmt.Sprintf("assign %s/%d: %s", b.AssignSplits.Job, b.AssignSplits.Operator, strings.Join(as, ", "))
	case *commandpb.Command_ForgetJobs:
		return fmt.Sprintf("forget %v", b.ForgetJobs.Jobs)
	}
	return fmt.Sprintf("%T", c.Command)
}

// refsText names stored results: edge.producer#attempt.
func refsText(refs []*jobpb.PartitionRef) string {
	s := ""
	for _, r := range refs {
		s += fmt.Sprintf(" %d.%d#%d", r.Edge, r.Producer, r.Attempt)
	}
	return s
}

func failureText(f *jobpb.Failure) string {
	return fmt.Sprintf("%s %s %q", strings.ToLower(strings.TrimPrefix(f.Kind.String(), "FAILURE_")), f.Code, f.Message)
}

func epochsText(rs []*taskpb.RegionEpoch) string {
	s := ""
	for _, r := range rs {
		s += fmt.Sprintf(" %d@%d", r.Region, r.Epoch)
	}
	return s
}
