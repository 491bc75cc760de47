package bounded

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/jepsen/model"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// ledger is the account of a job of two stages with two subtasks each, "make" and "read" by key. Subtask i runs on worker wi.
// Both makers had finished and both readers were at work at revision 10; at 20 something restarted; at 30 all had finished.
func ledger(t *testing.T) *account {
	t.Helper()
	p := &jobpb.Plan{
		Graph:  &jobpb.Graph{Operators: []*jobpb.Operator{{Id: "make", Bounded: true}, {Id: "read", Bounded: true}}},
		Chains: []*jobpb.Chain{{Operators: []int32{0}, Parallelism: 2}, {Index: 1, Operators: []int32{1}, Parallelism: 2}},
		Edges: []*jobpb.Edge{{
			ToOperator: 1, ToChain: 1, Partitioner: jobpb.Partitioner_PARTITIONER_HASH, Exchange: jobpb.ExchangeKind_EXCHANGE_BLOCKING, Reproducible: true,
		}},
	}
	a := &account{watch: &watch{}}
	var err error
	if a.plan, err = model.NewPlan(p); err != nil {
		t.Fatal(err)
	}
	a.watch.mu.seen = []*apipb.StatusResponse{revision(10, "ffaa"), revision(21, "ffwa"), revision(30, "ffff")}
	a.final = a.watch.mu.seen[2]
	restart(a, "read", 0)
	return a
}

// revision of the job, with a letter for each subtask: w, a, f.
func revision(n uint64, states string) *apipb.StatusResponse {
	st := &apipb.StatusResponse{Id: "job-1", Revision: n}
	for i, r := range states {
		sub := &apipb.SubtaskStatus{
			Chain: int32(i / 2), Index: int32(i % 2), Region: int32(i), Operator: []string{"make", "read"}[i/2],
			Attempt: 1, Worker: []string{"w0", "w1"}[i%2], State: jobpb.SubtaskState_SUBTASK_RUNNING,
		}
		region := &apipb.RegionInfo{Index: int32(i), Epoch: 1, State: jobpb.RegionStatus_REGION_RUNNING}
		switch r {
		case 'w':
			region.State, sub.State = jobpb.RegionStatus_REGION_RESTARTING, jobpb.SubtaskState_SUBTASK_CREATED
		case 'f':
			region.State, sub.State = jobpb.RegionStatus_REGION_FINISHED, jobpb.SubtaskState_SUBTASK_FINISHED
		}
		st.Subtasks, st.Regions = append(st.Subtasks, sub), append(st.Regions, region)
	}
	return st
}

// restart has a subtask run again at index 20, and the history tell of one subtask more.
func restart(a *account, operator string, index int32) {
	for _, st := range a.watch.mu.seen[1:] {
		for _, sub := range st.Subtasks {
			if sub.Operator == operator && sub.Index == index {
				st.Regions[sub.Region].Epoch++
				if sub.State == jobpb.SubtaskState_SUBTASK_FINISHED {
					sub.Attempt++
				}
			}
		}
	}
	if len(a.events) == 0 {
		a.events = []*jobpb.Event{{Index: 20, Kind: "region-restarted", Job: "job-1"}}
	}
	a.events[0].Subtasks++
}

func (a *account) verdicts(l loss) (broken []string) {
	before := a.watch.mu.seen[0]
	_, balance := a.balance()
	_, protected := a.protected(before, l)
	found := map[string]error{"balance": balance, "protected": protected, "explained": a.explained(l)}
	for worker, gone := range l.workers {
		if gone {
			a.events = append([]*jobpb.Event{{Index: 15, Kind: "worker-lost", Worker: worker}}, a.events...)
		}
		found["exactly"] = a.exactly(before, worker)
	}
	for name, err := range found {
		if err != nil {
			broken = append(broken, name)
		}
	}
	slices.Sort(broken)
	return broken
}

func TestAnHonestHistoryIsAccepted(t *testing.T) {
	if broken := ledger(t).verdicts(loss{workers: map[string]bool{"w0": false}}); broken != nil {
		t.Errorf("refused: %v", broken)
	}
	lost := ledger(t) // with what had been stored there: its maker and both readers
	restart(lost, "make", 0)
	restart(lost, "read", 1)
	if broken := lost.verdicts(loss{workers: map[string]bool{"w0": true}}); broken != nil {
		t.Errorf("refused: %v", broken)
	}
	damaged := ledger(t)
	restart(damaged, "make", 0)
	restart(damaged, "read", 1)
	if broken := damaged.verdicts(loss{damaged: []model.Subtask{{Chain: 0, Index: 0}}, direct: true}); broken != nil {
		t.Errorf("refused: %v", broken)
	}
}

func TestAHistoryThatIsNotAllowedIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name  string
		l     loss
		spoil func(a *account)
		want  string
	}{
		{"a maker out of reach runs again", loss{workers: map[string]bool{"w0": false}}, func(a *account) { restart(a, "make", 1) }, "exactly explained protected"},
		{"a maker whose result lives runs again", loss{workers: map[string]bool{"w0": false}}, func(a *account) { restart(a, "make", 0) }, "exactly explained protected"},
		{"a reader too few runs again", loss{workers: map[string]bool{"w0": true}}, func(a *account) { restart(a, "make", 0) }, "exactly"},
		{"a subtask is not told of", loss{workers: map[string]bool{"w0": false}}, func(a *account) { a.events[0].Subtasks-- }, "balance exactly"},
		{"a restart is not told of", loss{workers: map[string]bool{"w0": false}}, func(a *account) { a.events = nil }, "balance exactly"},
		{"somebody else runs again", loss{workers: map[string]bool{"w2": false}}, func(*account) {}, "exactly explained"},
		{"an attempt beyond the restarts", loss{workers: map[string]bool{"w0": false}}, func(a *account) { a.final.Subtasks[1].Attempt++ }, "balance protected"},
		{"another job's restart does not count", loss{workers: map[string]bool{"w0": false}}, func(a *account) { a.events[0].Job = "job-2" }, "balance exactly"},
	} {
		a := ledger(t)
		c.spoil(a)
		if broken := strings.Join(a.verdicts(c.l), " "); broken != c.want {
			t.Errorf("%s: %q noticed, want %q", c.name, broken, c.want)
		}
	}
}

// While a watch looks away, a job goes on: what restarts then need not have been in the state that was seen last.
func TestWhatAWatchMissesIsAllowedForAndNotMore(t *testing.T) {
	a := ledger(t)
	a.watch.mu.seen[0] = revision(10, "faww") // make[1] may have finished, and the readers begun, before w0 was lost
	if err := a.explained(loss{workers: map[string]bool{"w0": false}}); err != nil {
		t.Errorf("refused: %v", err)
	}
	a = ledger(t)
	a.watch.mu.seen[1] = revision(21, "fwww") // the readers had not begun afterwards either
	a.watch.mu.seen[1].Regions[1].Epoch, a.watch.mu.seen[1].Regions[2].Epoch = 2, 1
	a.watch.mu.seen[0] = revision(10, "faww")
	if err := a.explained(loss{workers: map[string]bool{"w0": false}}); err == nil {
		t.Error("a maker on another worker ran again while nobody read")
	}
}

func TestTheRightRowsOfStagesAreThoseOfALoop(t *testing.T) {
	j := Stages{Records: 25, Keys: 12}
	// Keys 0 and 10 have the digit 0: records 0, 12, 24 and 10, 22.
	if rows := j.rows(); len(rows) != 10 || rows[0] != "0|2|5|68|8" || rows[9] != "9|1|2|30|28" {
		t.Errorf("%v", rows)
	}
}
