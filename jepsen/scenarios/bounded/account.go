package bounded

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluiceio/sluice/jepsen/model"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// account compares what ran again in a job with what the model allows.
type account struct {
	made   *jobpb.Plan // by the planner
	plan   *model.Plan // as the model sees it
	watch  *watch
	events []*jobpb.Event // of the cluster, since the job was submitted
	final  *apipb.StatusResponse
}

// loss is what a fault has taken away.
type loss struct {
	// workers whose attempts are over. Of those that are true, what they had stored could not be read, for a time or for good.
	workers map[string]bool
	// damaged can no longer be read.
	damaged []model.Subtask
	// direct: only what was lost itself fails. Else also attempts that read from the workers may, because their links broke.
	direct bool
}

// known are the states of a revision, as they are. Regions that wait have no attempt that counts.
func (a *account) known(st *apipb.StatusResponse) []model.State {
	states := make([]model.State, len(a.plan.Subtasks))
	for i := range states {
		states[i] = model.Waiting
	}
	for _, t := range st.Subtasks {
		switch i := a.plan.Position(t.Chain, t.Index); {
		case waits(st, t.Region):
		case t.State == jobpb.SubtaskState_SUBTASK_FINISHED:
			states[i] = model.Finished
		default:
			states[i] = model.Acting
		}
	}
	return states
}

func waits(st *apipb.StatusResponse, region int32) bool {
	for _, r := range st.Regions {
		if r.Index == region {
			return r.State == jobpb.RegionStatus_REGION_CREATED || r.State == jobpb.RegionStatus_REGION_RESTARTING
		}
	}
	return true
}

// later are the states that are possible from then on, while nothing restarts.
func later(states []model.State) []model.State {
	all := make([]model.State, len(states))
	for i, s := range states {
		if all[i] = s | model.Finished; s&model.Waiting != 0 {
			all[i] |= model.Acting
		}
	}
	return all
}

// between are the states that are possible between two revisions. What has restarted meanwhile may have got further
// before.
func (a *account) between(before, after *apipb.StatusResponse) []model.State {
	was, is := a.known(before), a.known(after)
	all, moved := later(was), a.moved(before, after)
	for i := range all {
		if !moved[i] { // it went from the one to the other, and not beyond
			switch is[i] {
			case model.Waiting:
				all[i] = model.Waiting
			case model.Acting:
				all[i] &^= model.Finished
			}
		}
	}
	return all
}

// moved are the subtasks whose regions were restarted between two revisions.
func (a *account) moved(before, after *apipb.StatusResponse) []bool {
	epochs := func(st *apipb.StatusResponse) map[int32]uint64 {
		m := map[int32]uint64{}
		for _, r := range st.Regions {
			m[r.Index] = r.Epoch
		}
		return m
	}
	was, is := epochs(before), epochs(after)
	moved := make([]bool, len(a.plan.Subtasks))
	for _, t := range after.Subtasks {
		moved[a.plan.Position(t.Chain, t.Index)] = is[t.Region] != was[t.Region]
	}
	return moved
}

// moment is what a loss means for a job in states that began at a revision. Where a subtask was is known if it had an
// attempt by then; else it may have been anywhere.
func (a *account) moment(st *apipb.StatusResponse, states []model.State, l loss) model.Moment {
	n := len(a.plan.Subtasks)
	m := model.Moment{States: states, Fails: make([]bool, n), Unreadable: make([]bool, n)}
	anywhere := make([]bool, n)
	for _, t := range st.Subtasks {
		i := a.plan.Position(t.Chain, t.Index)
		anywhere[i] = waits(st, t.Region)
		gone, there := l.workers[t.Worker]
		if anywhere[i] {
			there = len(l.workers) > 0
			gone = slices.Contains(slices.Collect(maps.Values(l.workers)), true)
		}
		m.Fails[i] = there
		m.Unreadable[i] = gone || slices.Contains(l.damaged, a.plan.Subtasks[i])
	}
	if l.direct {
		return m
	}
	for i, there := range slices.Clone(m.Fails) {
		if there {
			for _, r := range a.plan.Readers(i) {
				m.Fails[r] = true
			}
		}
	}
	return m
}

// restarts of the job, in order.
func (a *account) restarts(job string) (events []*jobpb.Event) {
	for _, e := range a.events {
		if e.Kind == "region-restarted" && e.Job == job {
			events = append(events, e)
		}
	}
	return events
}

// balance: the attempts beyond the first are exactly those that the history tells of.
func (a *account) balance() (again int, err error) {
	told := 0
	for _, e := range a.restarts(a.final.Id) {
		told += int(e.Subtasks)
	}
	for _, t := range a.final.Subtasks {
		again += int(t.Attempt) - 1
	}
	if told != again {
		return again, fmt.Errorf("%d attempts beyond the first ones, the history tells of %d", again, told)
	}
	return again, nil
}

// protected: a subtask that had finished before the loss has not run again unless the model allows it, whatever happened
// in between. It returns how many it was asserted of.
func (a *account) protected(before *apipb.StatusResponse, l loss) (n int, err error) {
	may := a.plan.May(a.moment(before, later(a.known(before)), l))
	var errs []error
	for i, s := range a.known(before) {
		if s != model.Finished || may[i] {
			continue
		}
		n++
		if was, is := a.attempt(before, i), a.attempt(a.final, i); was != is {
			errs = append(errs, fmt.Errorf("%s had finished as attempt %d and was out of reach of the loss; it ran again as %d", a.name(i), was, is))
		}
	}
	return n, errors.Join(errs...)
}

// explained: every restart in the history holds only what the model allows at that moment.
func (a *account) explained(l loss) error {
	var errs []error
	for _, e := range a.restarts(a.final.Id) {
		before, after := a.watch.around(e.Index)
		if before == nil || after == nil {
			errs = append(errs, fmt.Errorf("the restart at %d was not seen: %s", e.Index, e.Message))
			continue
		}
		states := a.between(before, after)
		may := a.plan.May(a.moment(before, states, l))
		for i, moved := range a.moved(before, after) {
			if moved && !may[i] {
				errs = append(errs, fmt.Errorf("%s ran again, the model does not allow it; restart at %d: %s", a.name(i), e.Index, e.Message))
			}
		}
	}
	return errors.Join(errs...)
}

// exactly: the first restart behind a revision, at which nothing moved, is what the model says of the loss of a worker,
// neither more nor less.
func (a *account) exactly(before *apipb.StatusResponse, worker string) error {
	e := a.firstRestart(before)
	l := loss{workers: map[string]bool{worker: false}, direct: true}
	for _, lost := range a.events {
		if lost.Kind == "worker-lost" && lost.Worker == worker && lost.Index > before.Revision && (e == nil || lost.Index < e.Index) {
			l.workers[worker] = true
		}
	}
	m := a.moment(before, a.known(before), l)
	may, must := a.plan.May(m), a.plan.Must(m)
	if !slices.Equal(may, must) {
		return errors.New("the model does not know what must run again although every state is known")
	}
	want := 0
	for i, s := range a.known(before) {
		if must[i] && s != model.Waiting {
			want++
		}
	}
	switch {
	case e == nil && want == 0:
		return nil
	case e == nil:
		return fmt.Errorf("nothing ran again, the model wants %s", a.names(must))
	}
	_, after := a.watch.around(e.Index)
	if after == nil {
		return fmt.Errorf("the restart at %d was not seen: %s", e.Index, e.Message)
	}
	if moved := a.moved(before, after); !slices.Equal(moved, must) || int(e.Subtasks) != want {
		return fmt.Errorf("%s ran again (%d subtasks), the model wants %s (%d); restart at %d: %s", a.names(moved), e.Subtasks, a.names(must), want, e.Index, e.Message)
	}
	return nil
}

func (a *account) firstRestart(before *apipb.StatusResponse) *jobpb.Event {
	for _, e := range a.restarts(before.Id) {
		if e.Index > before.Revision {
			return e
		}
	}
	return nil
}

func (a *account) attempt(st *apipb.StatusResponse, i int) uint32 {
	for _, t := range st.Subtasks {
		if a.plan.Position(t.Chain, t.Index) == i {
			return t.Attempt
		}
	}
	return 0
}

func (a *account) name(i int) string {
	for _, t := range a.final.Subtasks {
		if a.plan.Position(t.Chain, t.Index) == i {
			return fmt.Sprintf("%s[%d]", t.Operator, t.Index)
		}
	}
	return fmt.Sprint(a.plan.Subtasks[i])
}

func (a *account) names(set []bool) (all []string) {
	for i, in := range set {
		if in {
			all = append(all, a.name(i))
		}
	}
	return all
}
