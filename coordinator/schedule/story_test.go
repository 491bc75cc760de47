package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// TestStories plays the scripts of testdata (README.md there has the language). -rewrite writes what happens now.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		st := &story{t: t, sim: newSim(t)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			st.sim.t = t
			return st.play(d)
		})
	})
}

type story struct {
	*sim
	t *testing.T
	d *datadriven.TestData
}

func (st *story) play(d *datadriven.TestData) string {
	st.d = d
	if answer, known := st.cluster(); known {
		return answer
	}
	if answer, known := st.agentCommand(); known {
		return answer
	}
	d.Fatalf(st.t, "unknown command %s", d.Cmd)
	return ""
}

// arg is the n-th argument that has no value.
func (st *story) arg(n int) string {
	for _, a := range st.d.CmdArgs {
		if len(a.Vals) > 0 {
			continue
		}
		if n--; n < 0 {
			return a.Key
		}
	}
	return ""
}

func (st *story) option(name, otherwise string) string {
	for _, a := range st.d.CmdArgs {
		if a.Key == name && len(a.Vals) > 0 {
			return strings.Join(a.Vals, ",")
		}
	}
	return otherwise
}

func (st *story) number(name string, otherwise int) int {
	n, err := strconv.Atoi(st.option(name, strconv.Itoa(otherwise)))
	if err != nil {
		st.d.Fatalf(st.t, "%s: %v", name, err)
	}
	return n
}

func (st *story) duration(n int) time.Duration {
	d, err := time.ParseDuration(st.arg(n))
	if err != nil {
		st.d.Fatalf(st.t, "%v", err)
	}
	return d
}

// rest lets the cluster come to rest and tells what happened.
func (st *story) rest() string {
	st.settle()
	return st.take()
}

// cluster has the commands that concern no single worker.
func (st *story) cluster() (answer string, known bool) {
	switch st.d.Cmd {
	case "submit":
		settings := map[string]string{}
		for _, name := range []string{"restart", "schedule"} {
			if s := st.option(name, ""); s != "" {
				settings[name] = s
			}
		}
		st.submit(st.arg(0), st.arg(1)+" "+st.option("p", "1"), settings)
	case "settle":
		return st.rest(), true
	case "pass":
		st.pass(st.duration(0))
	case "elect":
		st.elect()
		for _, a := range st.agents() {
			if st.arg(0) != "alone" {
				a.connect()
			}
		}
		return st.take(), true
	case "cancel":
		return fmt.Sprintln(st.cancel(st.arg(0))), true
	case "commit":
		for i := 0; i < st.number("n", 1) && len(st.pending) > 0; i++ {
			st.sim.commit()
		}
	case "lose":
		st.lose(st.arg(0) == "applied")
	case "roundtrip":
		st.roundTrip()
	case "status":
		return st.status(st.arg(0)), true
	case "results":
		return st.results(st.arg(0)), true
	case "events":
		return st.events(st.arg(0)), true
	case "workers":
		return st.workerList(), true
	case "keep":
		st.cfg.KeepJobs = st.number("jobs", 1)
	default:
		return "", false
	}
	return st.take(), true
}

// status is what an operator would see of a job.
func (st *story) status(id string) string {
	j := st.sim.facts.View().Job(id)
	if j == nil {
		return "no such job\n"
	}
	h := j.Head()
	var b strings.Builder
	fmt.Fprintf(&b, "%s epoch %d", state.StatusName(h.Status), h.Epoch)
	if h.Restarts+h.Losses > 0 {
		fmt.Fprintf(&b, ", %d restarts, %d losses", h.Restarts, h.Losses)
	}
	if h.Message != "" {
		fmt.Fprintf(&b, ": %s", h.Message)
	}
	if h.Failure != nil {
		fmt.Fprintf(&b, "\nfailure: %s", failureText(h.Failure))
	}
	for r := range j.Regions() {
		fmt.Fprintf(&b, "\nregion %d@%d %s", r.Index, r.Epoch, strings.TrimPrefix(r.Status.String(), "REGION_"))
	}
	for s := range j.Subtasks() {
		fmt.Fprintf(&b, "\n%d[%d]#%d %s %s process %d", s.Chain, s.Index, s.Attempt, strings.TrimPrefix(s.State.String(), "SUBTASK_"), s.Worker, s.Process)
	}
	for _, s := range j.Sources() {
		fmt.Fprintf(&b, "\nsource %d@%d: %d splits, %d assigned, complete %t", s.Operator(), s.RegionEpoch(), s.Len(), s.Assigned(), s.Complete())
	}
	if n := len(j.Committables()); n > 0 {
		fmt.Fprintf(&b, "\n%d parts of output", n)
	}
	return b.String() + "\n"
}

// results is what the facts say of stored results, and what lies on the disks.
func (st *story) results(id string) string {
	var b strings.Builder
	j := st.sim.facts.View().Job(id)
	if j != nil && j.Plan() != nil {
		for t := range j.Subtasks() {
			for _, p := range t.Partitions {
				fmt.Fprintf(&b, "%d.%d#%d %s on %s\n", p.Edge, t.Index, p.Attempt, strings.TrimPrefix(p.State.String(), "PARTITION_"), t.Worker)
			}
		}
	}
	for _, a := range st.agents() {
		for _, inv := range a.inventory() {
			if inv.Job == id {
				fmt.Fprintf(&b, "disk of %s:", a.id)
				for _, n := range inv.Partitions {
					fmt.Fprintf(&b, " %d.%d#%d", n.Edge, n.Producer, n.Attempt)
				}
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

// events are those that count what runs again.
func (st *story) events(id string) string {
	var b strings.Builder
	for e := range st.sim.facts.View().Events(0) {
		if e.Job == id && e.Kind == "region-restarted" {
			fmt.Fprintf(&b, "%s: %d subtasks again\n", e.Kind, e.Subtasks)
		}
	}
	return b.String()
}

func (st *story) workerList() string {
	var b strings.Builder
	v := st.sim.facts.View()
	for f := range v.Workers() {
		fmt.Fprintf(&b, "%s#%d %s, %d of %d slots", f.Id, f.Incarnation, strings.TrimPrefix(f.Health.String(), "WORKER_"), v.UsedSlots(f.Id), f.Slots)
		if f.Draining {
			b.WriteString(", draining")
		}
		b.WriteByte('\n')
	}
	for _, a := range st.agents() {
		for _, p := range a.procs {
			fmt.Fprintf(&b, "%s runs %s process %d\n", a.id, p.job, p.number)
		}
		if len(a.outbox) > 0 {
			fmt.Fprintf(&b, "%s keeps %d reports\n", a.id, len(a.outbox))
		}
		if len(a.committed)+len(a.removed) > 0 {
			fmt.Fprintf(&b, "%s made visible %v, removed %v\n", a.id, a.committed, a.removed)
		}
	}
	return b.String()
}

var kinds = map[string]jobpb.FailureKind{
	"": jobpb.FailureKind_FAILURE_UNSPECIFIED, "user": jobpb.FailureKind_FAILURE_USER, "loss": jobpb.FailureKind_FAILURE_LOSS, "fatal": jobpb.FailureKind_FAILURE_FATAL,
}

// agentCommand has the commands whose first argument is a worker.
func (st *story) agentCommand() (answer string, known bool) {
	if st.d.Cmd == "worker" {
		st.start(st.arg(0), int32(st.number("slots", 2)))
		return st.rest(), true
	}
	a := st.workers[st.arg(0)]
	if a == nil {
		return "no such worker\n", true
	}
	switch st.d.Cmd {
	case "cut":
		a.cut()
	case "connect":
		a.connect()
	case "kill":
		a.kill()
	case "freeze":
		a.frozen = true
	case "thaw":
		a.frozen = false
	case "set":
		st.set(a)
	case "obey":
		for range st.number("n", 1) {
			a.obeyNext()
		}
	case "forget": // the messages on their way to it are lost
		a.inbox = nil
	case "speak":
		for range st.number("n", 1) {
			a.speakNext()
		}
	case "fail":
		st.fail(a)
	case "lose-result", "corrupt-result": // W edge=E producer=P
		st.spoil(a)
	case "exit":
		if len(a.procs) == 0 {
			return "no process runs there\n", true
		}
		a.exit(a.procs[0], &controlpb.ProcessExit{Code: 2, Kind: kinds[st.option("kind", "")], Reason: "it died", StderrTail: "last words"})
	case "drain":
		st.step(Draining{Worker: a.id, Incarnation: a.incarnation, Deadline: st.now.Add(st.duration(1))})
	case "undrain":
		st.apply(&commandpb.Command{Command: &commandpb.Command_SetDrain{SetDrain: &commandpb.SetDrain{Worker: a.id}}})
		st.step(Applied{Index: st.index})
	case "again": // the n-th report that is kept is sent once more
		st.step(Reported{Worker: a.id, Incarnation: a.incarnation, Report: proto.CloneOf(a.outbox[st.number("report", 0)])})
	case "skip": // the next report is lost although the session lives on
		a.sent++
	default:
		return "", false
	}
	return st.take(), true
}

func (st *story) set(a *agent) {
	on := st.option("to", "true") == "true"
	switch st.arg(1) {
	case "endless": // attempts run until this is switched off
		a.noFinish = on
	case "mute": // attempts do not even say that they run
		a.noRun = on
	case "stubborn": // attempts do not stop when they are cancelled
		a.slow = on
	case "deaf": // requests to build are lost
		a.noBuilds = on
	case "reading": // readers do not come to the end of their splits
		a.slowRead = on
	case "counting": // enumerators do not come to their end
		a.counting = on
	case "illiterate": // attempts read no stored results
		a.slowRead = on
	case "later":
		a.retries = st.number("n", 1)
	case "uncommitted":
		a.commitFails = &jobpb.Failure{Kind: kinds[st.option("kind", "fatal")], Code: "E056", Message: "the transaction has timed out"}
		if !on {
			a.commitFails = nil
		}
	default:
		st.d.Fatalf(st.t, "unknown property %s", st.arg(1))
	}
}

// spoil deletes or corrupts the newest result of a producer for an edge.
func (st *story) spoil(a *agent) {
	edge, producer := int32(st.number("edge", 0)), int32(st.number("producer", 0))
	var found fileKey
	for k := range a.disk {
		if k.edge == edge && k.producer == producer && k.attempt > found.attempt {
			found = k
		}
	}
	if found.attempt == 0 {
		st.d.Fatalf(st.t, "no such result lies there")
	}
	if st.d.Cmd == "lose-result" {
		a.lose(found)
	} else {
		a.disk[found].bad = true
	}
}

// fail CHAIN INDEX: the running attempt of a subtask fails.
func (st *story) fail(a *agent) {
	chain, index := st.number("chain", 0), st.number("index", 0)
	var lost []*jobpb.PartitionRef
	for text := range strings.FieldsFuncSeq(st.option("lost", ""), func(r rune) bool { return r == '+' }) { // edge.producer#attempt+…
		r := &jobpb.PartitionRef{}
		if _, err := fmt.Sscanf(text, "%d.%d#%d", &r.Edge, &r.Producer, &r.Attempt); err != nil {
			st.d.Fatalf(st.t, "lost: %v", err)
		}
		lost = append(lost, r)
	}
	for _, p := range a.procs {
		i := slices.IndexFunc(p.tasks, func(t *attempt) bool { return int(t.d.Chain) == chain && int(t.d.Index) == index && t.active() })
		if i >= 0 {
			a.become(p.tasks[i], jobpb.SubtaskState_SUBTASK_FAILED, &jobpb.Failure{
				Kind: kinds[st.option("kind", "user")], Code: st.option("code", "E050"), Message: st.option("message", "it broke"), Position: "file.csv:7", Lost: lost,
			})
			return
		}
	}
	st.d.Fatalf(st.t, "no such attempt runs")
}
