package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// agent is a worker of the simulation. It does what the real one promises: reports are numbered, kept, and sent again in
// every session until acknowledged; everything that a leader says may come twice.
type agent struct {
	s           *sim
	id          string
	incarnation uint64
	slots       int32
	connected   bool
	welcomed    bool
	frozen      bool // neither obeys nor speaks, but its connection stands
	inbox       []*controlpb.CoordinatorMessage
	outbox      []*controlpb.Report // not acknowledged
	sent        int                 // of outbox, in this session
	last        uint64              // newest report
	builds      []*controlpb.BuildResult
	procs       []*proc
	gone        map[uint64]bool
	committed   []string // output made visible, by whichever process
	removed     []string
	noBuilds    bool // loses requests to build
	slow        bool // attempts do not stop when cancelled
	retries     int  // commits that are answered with "later"
	commitFails *jobpb.Failure
	noFinish    bool // attempts run until told to finish
	leaves      bool // it asked to be drained
	noRun       bool // attempts do not even say that they run
	slowRead    bool // attempts read no stored results until told to
	counting    bool // enumerators do not come to their end
	down        bool // nothing answers on its data port
	disk        map[fileKey]*file
	vanished    []*file // that disappeared from the disk, and the agent has not noticed
}

// fileKey names a stored result: attempts of a subtask are never numbered twice.
type fileKey struct {
	job            string
	edge, producer int32
	attempt        uint32
}

// file is a stored result in an agent's data directory.
type file struct {
	job  string // of one that is gone
	name *taskpb.PartitionName
	bad  bool // its checksums are wrong
}

// proc is a task process.
type proc struct {
	job      string
	number   uint64
	jobEpoch uint64
	plan     *jobpb.Plan
	layout   *region.Layout
	tasks    []*attempt
}

type attempt struct {
	p         *proc
	d         *taskpb.SubtaskDeployment
	enumerate []int32
	state     jobpb.SubtaskState
	splits    []string // received, in order
	asked     int      // have of the question under way, plus one
	end       bool     // no more splits will come
	idle      bool     // there are none for it now
	read      int      // of them, to their end
	locations map[[2]int32]*taskpb.Location
	results   []result // stored results that it has read
	stored    bool     // its own stored results are on the disk
	produced  bool
	loaded    bool
	open      bool // its gate
}

// result is one stored result that was read.
type result struct {
	edge, producer int32
	attempt        uint32
}

// start attaches a fresh worker.
func (s *sim) start(id string, slots int32) *agent {
	a := &agent{s: s, id: id, incarnation: 1, slots: slots, gone: map[uint64]bool{}, disk: map[fileKey]*file{}}
	if old := s.workers[id]; old != nil {
		a.incarnation = old.incarnation + 1
		a.committed, a.removed = old.committed, old.removed
		a.noBuilds, a.slow, a.noFinish, a.noRun, a.slowRead = old.noBuilds, old.slow, old.noFinish, old.noRun, old.slowRead
		a.disk = old.disk
	}
	s.workers[id] = a
	a.connect()
	return a
}

func (a *agent) connect() {
	if a.connected {
		return
	}
	a.connected, a.welcomed, a.sent, a.inbox, a.down = true, false, 0, nil, false
	r := &controlpb.Register{
		Worker: a.id, Incarnation: a.incarnation, Address: a.id + ":1", DataAddress: a.id + ":2", Slots: a.slots, Memory: 1 << 30,
		ProtocolMin: 1, ProtocolMax: 1, Os: "linux", Arch: "amd64",
	}
	for _, p := range a.procs {
		inv := &controlpb.ProcessInventory{Job: p.job, JobEpoch: p.jobEpoch, Process: p.number}
		for _, t := range p.tasks {
			if t.active() || a.unacknowledged(t) {
				inv.Subtasks = append(inv.Subtasks, t.update(nil))
			}
		}
		r.Processes = append(r.Processes, inv)
	}
	r.Partitions = a.inventory()
	a.s.step(Attached{Register: r})
}

// inventory lists the stored results in the data directory, in order.
func (a *agent) inventory() (list []*controlpb.PartitionInventory) {
	for _, k := range slices.SortedFunc(maps.Keys(a.disk), compareFiles) {
		if n := len(list); n == 0 || list[n-1].Job != k.job {
			list = append(list, &controlpb.PartitionInventory{Job: k.job})
		}
		inv := list[len(list)-1]
		inv.Partitions = append(inv.Partitions, a.disk[k].name)
	}
	return list
}

func compareFiles(a, b fileKey) int {
	return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.edge, b.edge), cmp.Compare(a.producer, b.producer), cmp.Compare(a.attempt, b.attempt))
}

func (a *agent) disconnect() {
	if !a.connected {
		return
	}
	a.connected, a.welcomed, a.inbox = false, false, nil
	a.askAgain() // questions are not kept
}

// askAgain has every reader repeat its question, as tasks do every second.
func (a *agent) askAgain() {
	for _, p := range a.procs {
		for _, t := range p.tasks {
			t.asked = 0
		}
	}
}

// cut breaks the session; the leader hears of it.
func (a *agent) cut() {
	if !a.connected {
		return
	}
	a.disconnect()
	a.s.step(Detached{Worker: a.id, Incarnation: a.incarnation})
}

// kill ends the agent with its processes. Only its data directory survives.
func (a *agent) kill() {
	a.cut()
	a.procs, a.outbox, a.last, a.builds, a.down = nil, nil, 0, nil, true
}

func (t *attempt) update(f *jobpb.Failure) *taskpb.SubtaskUpdate {
	return &taskpb.SubtaskUpdate{Chain: t.d.Chain, Index: t.d.Index, Attempt: t.d.Attempt, Region: t.d.Region, RegionEpoch: t.d.RegionEpoch, State: t.state, Failure: f,
		Produced: t.produced, Loaded: t.loaded}
}

func (a *agent) report(p *proc, r *controlpb.Report) {
	a.last++
	r.Sequence, r.Job, r.JobEpoch, r.Process = a.last, p.job, p.jobEpoch, p.number
	a.outbox = append(a.outbox, r)
}

// become moves an attempt and reports it.
func (a *agent) become(t *attempt, s jobpb.SubtaskState, f *jobpb.Failure) {
	t.state = s
	u := t.update(f)
	if s == jobpb.SubtaskState_SUBTASK_FINISHED {
		for _, o := range t.p.plan.Chains[t.d.Chain].Operators {
			if op := t.p.plan.Graph.Operators[o]; op.Kind == "sink" {
				u.Committables = []*jobpb.Committable{{Sink: op.Id, Subtask: t.d.Index, Data: []byte(outputName(t))}}
			}
		}
		for _, e := range t.p.layout.Out(t.d.Chain) {
			u.Partitions = append(u.Partitions, &jobpb.Partition{Edge: e, State: jobpb.PartitionState_PARTITION_STORED, Bytes: 100,
				Records: 10, Digest: make([]byte, 32), RegionEpoch: t.d.RegionEpoch, Attempt: t.d.Attempt})
		}
		a.s.finished(t)
	}
	a.report(t.p, &controlpb.Report{Fact: &controlpb.Report_Subtask{Subtask: u}})
}

func outputName(t *attempt) string {
	return fmt.Sprintf("%s/%d[%d]#%d", t.p.job, t.d.Chain, t.d.Index, t.d.Attempt)
}

// speakNext sends one message to the leader, or lets one attempt do its next step.
func (a *agent) speakNext() bool {
	if a.frozen {
		return false
	}
	if a.connected && a.welcomed {
		if a.sent < len(a.outbox) {
			r := a.outbox[a.sent]
			a.sent++
			a.s.step(Reported{Worker: a.id, Incarnation: a.incarnation, Report: proto.CloneOf(r)})
			return true
		}
		if len(a.builds) > 0 {
			b := a.builds[0]
			a.builds = a.builds[1:]
			a.s.step(Built{Worker: a.id, Incarnation: a.incarnation, Result: b})
			return true
		}
	}
	for _, p := range a.procs {
		for _, t := range p.tasks {
			if a.act(t) {
				return true
			}
		}
	}
	return false
}

// act is the life of an attempt: it runs, enumerates, reads its splits, finishes.
func (a *agent) act(t *attempt) bool {
	switch t.state {
	case jobpb.SubtaskState_SUBTASK_SCHEDULED:
		if a.noRun {
			return false
		}
		a.become(t, jobpb.SubtaskState_SUBTASK_RUNNING, nil)
		return true
	case jobpb.SubtaskState_SUBTASK_RUNNING:
		if len(t.enumerate) > 0 {
			a.discover(t)
			return true
		}
		if a.isSource(t) && !t.end {
			return a.ask(t) || len(t.splits) > 0 && a.produce(t)
		}
		return a.work(t)
	}
	return false
}

// work reads stored results one by one, tells how far it has come, stores its own results, and finishes.
func (a *agent) work(t *attempt) bool {
	l := t.p.layout
	switch todo := a.unread(t); {
	case t.d.Gated && !t.open:
		return false
	case todo != nil:
		return !a.slowRead && a.readResult(t, *todo)
	case l.Gated(t.d.Chain) && !t.loaded:
		t.loaded = true
		return a.say(t)
	case a.produce(t):
		return true
	case a.noFinish || !t.p.plan.Graph.Operators[t.p.plan.Chains[t.d.Chain].Operators[0]].Bounded:
		return false
	case len(l.Out(t.d.Chain)) > 0 && !t.stored:
		t.stored = true
		for _, e := range l.Out(t.d.Chain) {
			a.disk[fileKey{t.p.job, e, t.d.Index, t.d.Attempt}] = &file{name: &taskpb.PartitionName{
				JobEpoch: t.p.jobEpoch, Region: t.d.Region, RegionEpoch: t.d.RegionEpoch, Edge: e, Producer: t.d.Index, Attempt: t.d.Attempt}}
		}
		return true
	}
	a.become(t, jobpb.SubtaskState_SUBTASK_FINISHED, nil)
	return true
}

// produce tells once that an attempt has handed over records, where somebody waits for that.
func (a *agent) produce(t *attempt) bool {
	if t.produced || t.d.Gated && !t.open || !t.d.Gated && t.p.plan.Settings["schedule"] != "lazy" {
		return false
	}
	t.produced = true
	return a.say(t)
}

// say reports how far an attempt has come.
func (a *agent) say(t *attempt) bool {
	a.report(t.p, &controlpb.Report{Fact: &controlpb.Report_Subtask{Subtask: t.update(nil)}})
	return true
}

// unread is the next stored result that an attempt has to read, where its deployment says that it lies.
func (a *agent) unread(t *attempt) *result {
	l, n := t.p.layout, len(t.results)
	for _, e := range l.In(t.d.Chain) {
		from := l.Producers(e, t.d.Index)
		if n >= int(from.Count) {
			n -= int(from.Count)
			continue
		}
		edge := t.p.plan.Edges[e]
		producer := from.First + int32(n) - l.First(edge.FromChain)
		loc := t.locations[[2]int32{edge.FromChain, producer}]
		if loc == nil {
			a.s.t.Fatalf("%s: %s was deployed without the place of %d[%d]", a.id, outputName(t), edge.FromChain, producer)
		}
		r := &result{edge: e, producer: producer, attempt: loc.Attempt}
		for _, p := range loc.Partitions {
			if p.Edge == e {
				r.attempt = p.Attempt
			}
		}
		return r
	}
	return nil
}

// readResult reads one stored result over the holder's data port.
func (a *agent) readResult(t *attempt, r result) bool {
	edge := t.p.plan.Edges[r.edge]
	holder := a.s.workers[t.locations[[2]int32{edge.FromChain, r.producer}].Worker]
	fail := func(code, message string, lost ...*jobpb.PartitionRef) bool {
		a.become(t, jobpb.SubtaskState_SUBTASK_FAILED, &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_LOSS, Code: code, Message: message, Lost: lost})
		return true
	}
	switch {
	case holder == nil || holder.down:
		return fail("E057", "the link to the holder is broken")
	case holder.frozen:
		return false
	}
	f := holder.disk[fileKey{t.p.job, r.edge, r.producer, r.attempt}]
	ref := &jobpb.PartitionRef{Edge: r.edge, Producer: r.producer, Attempt: r.attempt}
	switch {
	case f == nil && slices.ContainsFunc(holder.running(t.p.job), func(p *attempt) bool {
		return p.d.Chain == edge.FromChain && p.d.Index == r.producer && p.d.Attempt <= r.attempt
	}), f == nil && r.attempt == 0:
		return false // not yet
	case f == nil:
		holder.audit(t.p.job)
		return fail("E120", "the stored result is missing", append(a.goneToo(t), ref)...)
	case f.bad:
		return fail("E121", "the stored result is corrupt", append(a.goneToo(t), ref)...)
	}
	t.results = append(t.results, r)
	return true
}

// lose deletes a stored result behind the agent's back.
func (a *agent) lose(k fileKey) {
	a.vanished = append(a.vanished, a.disk[k])
	a.vanished[len(a.vanished)-1].job = k.job
	delete(a.disk, k)
}

// audit tells of everything of a job that has disappeared.
func (a *agent) audit(job string) {
	inv := &controlpb.PartitionInventory{Job: job}
	for _, f := range a.vanished {
		if f.job == job {
			inv.Partitions = append(inv.Partitions, f.name)
		}
	}
	a.vanished = slices.DeleteFunc(a.vanished, func(f *file) bool { return f.job == job })
	if len(inv.Partitions) > 0 && a.connected && a.welcomed {
		a.s.step(Missing{Worker: a.id, Incarnation: a.incarnation, Results: inv})
	}
}

// goneToo are the results behind the next one that an attempt will find missing: it asks for them when it has lost that one.
func (a *agent) goneToo(t *attempt) (refs []*jobpb.PartitionRef) {
	read := t.results
	defer func() { t.results = read }()
	t.results = append(slices.Clone(read), *a.unread(t))
	for r := a.unread(t); r != nil; r = a.unread(t) {
		edge := t.p.plan.Edges[r.edge]
		loc := t.locations[[2]int32{edge.FromChain, r.producer}]
		holder := a.s.workers[loc.Worker]
		stored := slices.ContainsFunc(loc.Partitions, func(p *jobpb.Partition) bool { return p.Edge == r.edge })
		if stored && holder != nil && !holder.down && !holder.frozen && holder.disk[fileKey{t.p.job, r.edge, r.producer, r.attempt}] == nil {
			refs = append(refs, &jobpb.PartitionRef{Edge: r.edge, Producer: r.producer, Attempt: r.attempt})
		}
		t.results = append(t.results, *r)
	}
	return refs
}

func (a *agent) isSource(t *attempt) bool {
	return len(t.p.plan.Graph.Operators[t.p.plan.Chains[t.d.Chain].Operators[0]].Inputs) == 0
}

// discover reports the splits of a source in two messages: twice as many as there are readers, or as many as the
// operator's detail says, in as many phases.
func (a *agent) discover(t *attempt) {
	op := t.enumerate[0]
	t.enumerate = t.enumerate[1:]
	n, phases := int(2*t.p.plan.Chains[t.d.Chain].Parallelism), 1
	fmt.Sscanf(t.p.plan.Graph.Operators[op].Detail, "%d splits in %d phases", &n, &phases)
	d := func(from, to int, end bool) {
		m := &taskpb.SplitsDiscovered{Operator: op, Region: t.d.Region, RegionEpoch: t.d.RegionEpoch, Offset: int32(from), End: end}
		for i := from; i < to; i++ {
			m.Splits = append(m.Splits, &jobpb.Split{Id: fmt.Sprint("s", i), Phase: int32(i * phases / n)})
		}
		a.report(t.p, &controlpb.Report{Fact: &controlpb.Report_Splits{Splits: m}})
	}
	d(0, n/2, false)
	if a.counting {
		return
	}
	d(n/2, n, t.p.plan.Graph.Operators[op].Bounded)
}

func (a *agent) ask(t *attempt) bool {
	if !a.connected || !a.welcomed || t.asked == len(t.splits)+1 {
		return false
	}
	t.asked = len(t.splits) + 1
	if !a.slowRead {
		t.read = len(t.splits) // it asks when it has read what it has
	}
	op := t.p.plan.Chains[t.d.Chain].Operators[0]
	q := &taskpb.SplitRequest{Operator: op, Chain: t.d.Chain, Index: t.d.Index, Attempt: t.d.Attempt, Region: t.d.Region, RegionEpoch: t.d.RegionEpoch, Have: int32(len(t.splits)), Read: int32(t.read)}
	a.s.step(Reported{Worker: a.id, Incarnation: a.incarnation, Report: &controlpb.Report{Job: t.p.job, JobEpoch: t.p.jobEpoch, Process: t.p.number, Fact: &controlpb.Report_SplitRequest{SplitRequest: q}}})
	return true
}

// obeyNext acts on the oldest message of the leader.
func (a *agent) obeyNext() bool {
	if a.frozen || len(a.inbox) == 0 {
		return false
	}
	m := a.inbox[0]
	a.inbox = a.inbox[1:]
	a.obey(m)
	return true
}

func (a *agent) obey(m *controlpb.CoordinatorMessage) {
	switch m := m.Message.(type) {
	case *controlpb.CoordinatorMessage_Welcome:
		a.welcomed = true
	case *controlpb.CoordinatorMessage_Ack:
		a.acknowledged(m.Ack.Sequence)
	case *controlpb.CoordinatorMessage_Build:
		if !a.noBuilds {
			g, ds := graphOf(m.Build.Spec.Params["graph"])
			a.builds = append(a.builds, &controlpb.BuildResult{Job: m.Build.Job, Build: m.Build.Build, Built: &taskpb.Built{Graph: g, Errors: ds}})
		}
	case *controlpb.CoordinatorMessage_AbandonBuild:
		a.s.tracef("%s: abandon build %d of %s", a.id, m.AbandonBuild.Build, m.AbandonBuild.Job)
	case *controlpb.CoordinatorMessage_Deploy:
		a.deploy(m.Deploy.Deployment)
	case *controlpb.CoordinatorMessage_Cancel:
		a.cancel(m.Cancel)
	case *controlpb.CoordinatorMessage_Commit:
		a.commit(m.Commit)
	case *controlpb.CoordinatorMessage_Release:
		a.release(m.Release)
	case *controlpb.CoordinatorMessage_AssignSplits:
		a.assign(m.AssignSplits)
	case *controlpb.CoordinatorMessage_OpenGate:
		a.openGate(m.OpenGate)
	case *controlpb.CoordinatorMessage_DropPartitions:
		a.drop(m.DropPartitions)
	}
	if _, first := m.Message.(*controlpb.CoordinatorMessage_Welcome); !first && !a.welcomed {
		a.s.t.Fatalf("%s was sent %T before a welcome", a.id, m.Message)
	}
}

// acknowledged forgets reports, and checks that what they say is in the facts or void.
func (a *agent) acknowledged(sequence uint64) {
	for len(a.outbox) > 0 && a.outbox[0].Sequence <= sequence {
		r := a.outbox[0]
		a.outbox = a.outbox[1:]
		if a.sent == 0 {
			a.s.t.Fatalf("%s: report %d was acknowledged before it was sent in this session", a.id, r.Sequence)
		}
		a.sent--
		j := a.s.facts.View().Job(r.Job)
		u := r.GetSubtask()
		if j == nil || u == nil {
			continue
		}
		t := j.Subtask(u.Chain, u.Index)
		ended := t.State != jobpb.SubtaskState_SUBTASK_SCHEDULED && t.State != jobpb.SubtaskState_SUBTASK_RUNNING
		if t.Attempt == u.Attempt && !ended && u.State != jobpb.SubtaskState_SUBTASK_RUNNING {
			a.s.t.Fatalf("%s: report %d (%s of attempt %d) was acknowledged and is not in the facts", a.id, r.Sequence, u.State, u.Attempt)
		}
	}
}

func (a *agent) find(job string, number uint64) *proc {
	for _, p := range a.procs {
		if p.job == job && p.number == number {
			return p
		}
	}
	return nil
}

func (a *agent) absent(job string, number uint64) {
	a.report(&proc{job: job, number: number}, &controlpb.Report{Fact: &controlpb.Report_Exit{Exit: &controlpb.ProcessExit{Code: -1, Reason: "no such process", Kind: jobpb.FailureKind_FAILURE_LOSS}}})
}

func (a *agent) deploy(d *taskpb.Deployment) {
	if a.gone[d.Process] {
		a.absent(d.Job, d.Process)
		return
	}
	if err := d.Validate(); err != nil {
		a.s.t.Fatalf("deployment: %v", err)
	}
	p := a.find(d.Job, d.Process)
	if p == nil {
		l, err := region.NewLayout(d.Plan)
		if err != nil {
			a.s.t.Fatalf("deployment: %v", err)
		}
		p = &proc{job: d.Job, number: d.Process, plan: d.Plan, layout: l}
		a.procs = append(a.procs, p)
	}
	if d.JobEpoch < p.jobEpoch {
		return
	}
	p.jobEpoch = d.JobEpoch
	for _, sd := range d.Subtasks {
		if i := slices.IndexFunc(p.tasks, func(t *attempt) bool {
			return t.d.Chain == sd.Chain && t.d.Index == sd.Index && t.d.Attempt >= sd.Attempt
		}); i >= 0 {
			if t := p.tasks[i]; t.d.Attempt == sd.Attempt && t.state != jobpb.SubtaskState_SUBTASK_SCHEDULED {
				a.become(t, t.state, nil)
			}
			continue
		}
		t := &attempt{p: p, d: sd, enumerate: slices.Clone(sd.Enumerate), state: jobpb.SubtaskState_SUBTASK_SCHEDULED, locations: map[[2]int32]*taskpb.Location{}}
		for _, l := range d.Locations {
			t.locations[[2]int32{l.Chain, l.Index}] = l
		}
		p.tasks = append(p.tasks, t)
	}
	a.s.tracef("%s: deploy %s process %d: %s", a.id, d.Job, d.Process, deployText(d))
}

func deployText(d *taskpb.Deployment) string {
	s := fmt.Sprintf("%d subtasks", len(d.Subtasks))
	for _, t := range d.Subtasks {
		s += fmt.Sprintf(" %d[%d]#%d", t.Chain, t.Index, t.Attempt)
		if t.Gated {
			s += " gated"
		}
	}
	s += fmt.Sprintf(", %d locations", len(d.Locations))
	stored := 0
	for _, l := range d.Locations {
		stored += len(l.Partitions)
	}
	if stored > 0 {
		s += fmt.Sprintf(", %d stored results", stored)
	}
	return s
}

func (a *agent) cancel(c *taskpb.Cancel) {
	a.s.tracef("%s: cancel %s%s", a.id, c.Job, epochsText(c.Regions))
	for _, p := range a.procs {
		if p.job != c.Job || c.JobEpoch < p.jobEpoch || a.slow {
			continue
		}
		for _, t := range p.tasks {
			in := len(c.Regions) == 0 || slices.ContainsFunc(c.Regions, func(r *taskpb.RegionEpoch) bool { return r.Region == t.d.Region && t.d.RegionEpoch <= r.Epoch })
			if in && (t.state == jobpb.SubtaskState_SUBTASK_SCHEDULED || t.state == jobpb.SubtaskState_SUBTASK_RUNNING) {
				a.become(t, jobpb.SubtaskState_SUBTASK_CANCELLED, nil)
			}
		}
	}
}

func (a *agent) commit(c *taskpb.Commit) {
	p := a.find(c.Job, c.Process)
	if p == nil {
		a.absent(c.Job, c.Process)
		return
	}
	p.jobEpoch = max(p.jobEpoch, c.JobEpoch)
	verb := "commit"
	if c.Abort {
		verb = "remove"
	}
	a.s.tracef("%s: %s output of %s in process %d, %d parts", a.id, verb, c.Job, c.Process, len(c.Committables))
	r := &taskpb.CommitResult{Job: c.Job, JobEpoch: c.JobEpoch, Process: c.Process, Checkpoint: c.Checkpoint}
	switch {
	case a.retries > 0:
		a.retries--
		r.Retry = true
	case a.commitFails != nil:
		r.Failure = a.commitFails
	default:
		for _, x := range c.Committables {
			if c.Abort {
				a.removed = append(a.removed, string(x.Data))
			} else if !slices.Contains(a.committed, string(x.Data)) {
				a.committed = append(a.committed, string(x.Data))
			}
		}
	}
	a.report(p, &controlpb.Report{Fact: &controlpb.Report_Commit{Commit: r}})
}

// exit ends a process.
func (a *agent) exit(p *proc, x *controlpb.ProcessExit) {
	a.gone[p.number] = true
	a.procs = slices.DeleteFunc(a.procs, func(q *proc) bool { return q == p })
	a.report(p, &controlpb.Report{Fact: &controlpb.Report_Exit{Exit: x}})
}

func (a *agent) release(r *controlpb.Release) {
	a.s.tracef("%s: release %s process %d (%s)", a.id, r.Job, r.Process, r.Reason)
	p := a.find(r.Job, r.Process)
	if p == nil {
		a.absent(r.Job, r.Process)
		return
	}
	a.exit(p, &controlpb.ProcessExit{Reason: "released: " + r.Reason})
}

func (a *agent) assign(m *taskpb.AssignSplits) {
	p := a.find(m.Job, m.Process)
	if p == nil {
		a.absent(m.Job, m.Process)
		return
	}
	for _, t := range p.tasks {
		if t.d.Chain != m.Chain || t.d.Index != m.Index || t.d.Attempt != m.Attempt || int(m.Offset) > len(t.splits) {
			continue
		}
		for i, x := range m.Splits {
			if int(m.Offset)+i == len(t.splits) {
				t.splits = append(t.splits, x.Id)
			} else if t.splits[int(m.Offset)+i] != x.Id {
				a.s.t.Fatalf("%s: split %d of %s was %s, now it is %s", a.id, int(m.Offset)+i, outputName(t), t.splits[int(m.Offset)+i], x.Id)
			}
		}
		if len(m.Splits) == 0 && !m.End {
			if !t.idle {
				a.s.tracef("%s: no splits for %d[%d]#%d now", a.id, t.d.Chain, t.d.Index, t.d.Attempt)
			}
			t.idle = true
			continue // it asks again in a second
		}
		t.end = t.end || m.End
		t.asked, t.idle = 0, false
	}
}

func (a *agent) openGate(m *taskpb.OpenGate) {
	a.s.tracef("%s: open gate of %s process %d%s", a.id, m.Job, m.Process, epochsText(m.Regions))
	p := a.find(m.Job, m.Process)
	if p == nil {
		return
	}
	for _, t := range p.tasks {
		t.open = t.open || slices.ContainsFunc(m.Regions, func(r *taskpb.RegionEpoch) bool { return r.Region == t.d.Region && r.Epoch == t.d.RegionEpoch })
	}
}

// drop deletes stored results, and checks that no fact needs them.
func (a *agent) drop(m *taskpb.DropPartitions) {
	if err := m.Validate(); err != nil {
		a.s.t.Fatalf("drop: %v", err)
	}
	var gone []string
	for _, k := range slices.SortedFunc(maps.Keys(a.disk), compareFiles) {
		named := m.All || slices.ContainsFunc(m.Partitions, func(n *taskpb.PartitionName) bool { return proto.Equal(n, a.disk[k].name) })
		if k.job != m.Job || !named {
			continue
		}
		if j := a.s.facts.View().Job(k.job); j != nil && !state.Terminal(j.Status()) {
			t := j.Subtask(j.Plan().Edges[k.edge].FromChain, k.producer)
			counts := t.Attempt == k.attempt && t.Worker == a.id
			if counts && (t.State == jobpb.SubtaskState_SUBTASK_RUNNING || t.State == jobpb.SubtaskState_SUBTASK_SCHEDULED) && j.Region(t.Region).Epoch == a.disk[k].name.RegionEpoch {
				a.s.t.Fatalf("%s: the result of an attempt that has not reported was dropped: %v", a.id, k)
			}
			if p := j.Partition(k.edge, k.producer); counts && p.GetState() == jobpb.PartitionState_PARTITION_STORED && a.s.leader.missing(a.s.leader.jobs[k.job], t, p) == "" {
				a.s.t.Fatalf("%s: a result that is a fact was dropped: %v", a.id, k)
			}
		}
		delete(a.disk, k)
		gone = append(gone, fmt.Sprintf("%d.%d#%d", k.edge, k.producer, k.attempt))
	}
	if len(gone) > 0 {
		a.s.tracef("%s: drop results of %s: %v", a.id, m.Job, gone)
	}
}

func (t *attempt) active() bool {
	return t.state == jobpb.SubtaskState_SUBTASK_SCHEDULED || t.state == jobpb.SubtaskState_SUBTASK_RUNNING
}

// unacknowledged reports whether what an attempt said last is still kept.
func (a *agent) unacknowledged(t *attempt) bool {
	return slices.ContainsFunc(a.outbox, func(r *controlpb.Report) bool {
		u := r.GetSubtask()
		return u != nil && r.Job == t.p.job && u.Chain == t.d.Chain && u.Index == t.d.Index && u.Attempt == t.d.Attempt
	})
}

// attempts that can act on this worker.
func (a *agent) running(job string) (ts []*attempt) {
	for _, p := range a.procs {
		for _, t := range p.tasks {
			if p.job == job && (t.state == jobpb.SubtaskState_SUBTASK_SCHEDULED || t.state == jobpb.SubtaskState_SUBTASK_RUNNING) {
				ts = append(ts, t)
			}
		}
	}
	return ts
}
