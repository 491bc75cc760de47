package schedule

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluiceio/sluice/coordinator/rollout"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/tally"
	"github.com/sluiceio/sluice/coordinator/timer"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// opening is how far the leader is with telling sources that their gates are open. Each deployment closes them again, so
// what was told belongs to an attempt and a session.
type opening struct {
	look bool
	told rollout.ToldList
	pace timer.Pace
}

// openGates tells live sources that everything in front of their gates has been loaded. Again after a while to those
// that have not emitted since: nobody acknowledges it.
func (l *Leader) openGates(j *job, facts *state.Job) {
	o := &j.opening
	if j.rollout.Gates == nil || !o.look && l.now.Before(o.pace.Next()) {
		return
	}
	again := !l.now.Before(o.pace.Next())
	o.look = false
	open, silent := map[processOn][]*regionEpoch{}, false
	for r, g := range j.rollout.Gates {
		at := facts.Region(int32(r))
		if g.Loads == 0 || j.counts.Loaded(int32(r)) < g.Loads || at.Status == jobpb.RegionStatus_REGION_RESTARTING {
			continue
		}
		for _, pos := range g.Sources {
			k, tell, waits := l.opens(j, facts, int(pos), again)
			silent = silent || waits
			if n := len(open[k]); tell && (n == 0 || open[k][n-1].Region != at.Index) {
				open[k] = append(open[k], &regionEpoch{Region: at.Index, Epoch: at.Epoch})
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(open), func(a, b processOn) int {
		return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.process, b.process))
	}) {
		l.send(l.soft[k.worker], &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_OpenGate{OpenGate: &taskpb.OpenGate{
			Job: j.id, JobEpoch: facts.Epoch(), Process: k.process, Regions: open[k],
		}}})
	}
	if len(open) > 0 && !again {
		o.pace = timer.Pace{}
	}
	if silent {
		o.pace.Due(l.now, l.cfg.Resend, mostPause)
		l.wakeAt(j, o.pace.Next())
	}
}

type processOn struct {
	worker  string
	process uint64
}

// opens reports where a source behind an open gate runs, whether it has to be told, and whether it has not emitted yet.
func (l *Leader) opens(j *job, facts *state.Job, pos int, again bool) (k processOn, tell, silent bool) {
	t := facts.At(pos)
	w := l.usable(t.Worker)
	if !tally.Acts(t.State) || w == nil || !j.sent.Knows(pos, t.Attempt, w.session.serial) {
		return k, false, false
	}
	told := &j.opening.told
	tell = !told.Knows(pos, t.Attempt, w.session.serial) || again && !t.Produced
	if tell {
		told.Put(facts.Size(), pos, rollout.Told{Attempt: t.Attempt, Session: w.session.serial, At: l.now})
	}
	return processOn{w.id, t.Process}, tell, !t.Produced
}
