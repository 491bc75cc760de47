package schedule

import (
	"github.com/sluiceio/sluice/coordinator/checkpoint"
	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/snapshot"
)

// sweep keeps the objects of a job in order, also when it has ended.
func (l *Leader) sweep(j *job, facts *state.Job) {
	copies := checkpoint.Configure(setting.Values(facts.Plan().GetSettings())).Copies
	u := j.shelf.Step(j.id, facts.Checkpoints(), copies, l.now, glance.Stores(l.v, l.now, l.reaches))
	for _, o := range u.Orders {
		l.send(l.keeper(o.Store), o.Message)
	}
	if !u.Again.IsZero() {
		l.wakeAt(j, u.Again)
	}
	if key := objectLane + j.id; u.Command != nil && !l.busy(key) {
		l.propose(key, u.Command, &flight{Job: j.id})
	}
}

// tidy goes on with the objects of a job that has ended, until none is left that could be removed or copied.
func (l *Leader) tidy(facts *state.Job) {
	if len(facts.Checkpoints().GetObjects()) == 0 {
		l.lanes.Forget(objectLane + facts.ID())
		delete(l.over, facts.ID())
		return
	}
	j := l.over[facts.ID()]
	if j == nil {
		j = &job{id: facts.ID(), number: facts.Number()}
		l.over[j.id] = j
	}
	l.wakeAt(j, l.now.Add(glance.LostFor))
	l.sweep(j, facts)
}

// compare holds what a worker has, at the begin of its session, against what the facts say of it.
func (l *Leader) compare(worker string, inventory []*controlpb.ObjectInventory) {
	has := map[string]bool{}
	for _, i := range inventory {
		for _, o := range i.Objects {
			has[o.Name] = true
		}
	}
	for _, jobs := range []map[string]*job{l.jobs, l.over} {
		for id, j := range jobs { // in any order: each is told
			if facts := l.v.Job(id); facts != nil {
				j.shelf.Inventory(facts.Checkpoints(), worker, has)
			}
		}
	}
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

// objectsOf takes what a worker says of its store. Objects of one job may be in the facts of others, which began with them.
func (l *Leader) objectsOf(worker string, r *controlpb.ObjectsReport) {
	for _, jobs := range []map[string]*job{l.jobs, l.over} {
		for id, j := range jobs { // in any order: each is told
			if facts := l.v.Job(id); facts != nil && (id == r.Job || facts.Checkpoints().GetOrigin() != 0) {
				j.shelf.Heard(worker, r)
				l.wakeAt(j, l.now)
			}
		}
	}
}
