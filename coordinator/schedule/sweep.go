package schedule

import (
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/snapshot"
)

// sweep removes the objects of a job that no kept checkpoint needs.
func (l *Leader) sweep(j *job, facts *state.Job) {
	s := j.broom.Step(facts.Checkpoints(), l.now, func(store string) (can, known bool) {
		return l.keeper(store) != nil, store == snapshot.SharedStore || l.v.Worker(store) != nil
	})
	for store, names := range s.Ask { // in any order: each store hears of its own
		l.send(l.keeper(store), &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_DeleteObjects{DeleteObjects: &controlpb.DeleteObjects{Job: j.id, Names: names}}})
	}
	if !s.Again.IsZero() {
		l.wakeAt(j, s.Again)
	}
	c := &commandpb.Command{}
	switch key := objectLane + j.id; {
	case l.busy(key):
		return
	case len(s.Forget) > 0:
		c.Command = &commandpb.Command_ForgetObjects{ForgetObjects: &commandpb.ForgetObjects{Job: j.id, Names: s.Forget}}
	case len(s.Plan) > 0:
		c.Command = &commandpb.Command_DeleteObjects{DeleteObjects: &commandpb.DeleteObjects{Job: j.id, Names: s.Plan}}
	default:
		return
	}
	l.propose(objectLane+j.id, c, &flight{Job: j.id})
}

// keeper is the worker that deletes in a store; nil: it cannot be spoken to. A shared one is reached by all: the first by its id.
func (l *Leader) keeper(store string) *worker {
	for w := range l.v.Workers() {
		if u := l.usable(w.Id); u != nil && (store == w.Id || store == snapshot.SharedStore) {
			return u
		}
	}
	return nil
}

// objectsOf takes what a worker says of its store.
func (l *Leader) objectsOf(worker string, r *controlpb.ObjectsReport) {
	j := l.jobs[r.GetJob()]
	if j == nil {
		return
	}
	j.broom.Gone(worker, r.Deleted)
	j.broom.Gone(snapshot.SharedStore, r.Deleted)
	l.mark(j)
}
