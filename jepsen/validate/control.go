package validate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/model"
)

// perRequest bounds the search for an order of the calls of one request id.
const perRequest = 20 * time.Second

// linearizable is I4.
func linearizable(f *Facts, r *Result) {
	v, calls, about, err := model.Linearize(f.Ops, perRequest)
	switch {
	case err != nil:
		r.unknown("%v", err)
	case v == model.Undecided:
		r.unknown("no verdict in time on the calls of request %s", about)
	case v == model.Violated:
		r.fail(0, "no order explains the answers to the calls of request %s", about)
		r.Near = calledAbout(f.Ops, about)
	case calls > 0:
		r.Verdict, r.Checked = Pass, calls
	}
}

// calledAbout are the lines of a history about one request id.
func calledAbout(ops []history.Op, request string) (lines []string) {
	const most = 60
	mine := map[int]bool{}
	for _, op := range ops {
		var a history.Ask
		var id string
		if op.Kind == history.Invoke {
			mine[op.Call] = json.Unmarshal(op.Value, &a) == nil && a.Request == request || json.Unmarshal(op.Value, &id) == nil && id == request
		}
		if mine[op.Call] && op.Call != 0 && len(lines) < most {
			lines = append(lines, fmt.Sprintf("%d %s %s %s %s %s", op.Index, op.Client, op.What, op.Kind, op.Value, op.Error))
		}
	}
	return lines
}

// fences is I8, as far as it is seen from outside: what a newer revision of a job tells is never older.
func fences(f *Facts, r *Result) {
	newest := map[string]seen[history.Progress]{}
	for _, p := range f.Progress {
		was, ok := newest[p.Fact.Job]
		if !ok {
			newest[p.Fact.Job] = p
			continue
		}
		old, is := was.Fact, p.Fact
		if is.Revision < old.Revision {
			r.fail(p.Line, "job %s: revision %d was read after revision %d", is.Job, is.Revision, old.Revision)
			continue
		}
		r.that(is.Term >= old.Term, p.Line, "job %s: term %d after term %d", is.Job, is.Term, old.Term)
		for _, name := range slices.Sorted(maps.Keys(old.Attempts)) {
			r.that(is.Attempts[name] >= old.Attempts[name], p.Line, "job %s: %s: attempt %d after attempt %d", is.Job, name, is.Attempts[name], old.Attempts[name])
		}
		for _, name := range slices.Sorted(maps.Keys(old.Epochs)) {
			r.that(is.Epochs[name] >= old.Epochs[name], p.Line, "job %s: region %s: epoch %d after epoch %d", is.Job, name, is.Epochs[name], old.Epochs[name])
		}
		newest[is.Job] = p
	}
}

// chains is I12.
func chains(f *Facts, r *Result) {
	type first struct {
		node  string
		chain []byte
	}
	at := map[uint64]first{}
	for _, c := range f.chains {
		was, ok := at[c.Fact.Applied]
		if !ok {
			at[c.Fact.Applied] = first{c.Fact.Node, c.Fact.Chain}
			continue
		}
		if was.node == c.Fact.Node && bytes.Equal(was.chain, c.Fact.Chain) {
			continue // the same look again
		}
		r.that(bytes.Equal(was.chain, c.Fact.Chain), c.Line, "index %d: %s has chain %x, %s has %x", c.Fact.Applied, was.node, was.chain, c.Fact.Node, c.Fact.Chain)
	}
	if len(f.chains) > 0 && r.Checked == 0 {
		r.unknown("no two coordinators were seen at one index")
	}
}

// untouched is I17: of faults of coordinators alone, no job that ran notices anything.
func untouched(f *Facts, r *Result) {
	if len(f.Faults) == 0 {
		return
	}
	for _, h := range f.Faults {
		if !h.OnCoordinators() {
			return // others may restart what they hit
		}
	}
	before := map[string]map[string]uint32{}
	for _, p := range f.Progress {
		was := before[p.Fact.Job]
		if was == nil {
			if p.Time > f.Faults[0].From || p.Fact.Status != "JOB_RUNNING" {
				continue
			}
			before[p.Fact.Job] = p.Fact.Attempts
			continue
		}
		if p.Time <= f.Faults[0].From {
			before[p.Fact.Job] = p.Fact.Attempts
			continue
		}
		r.that(maps.Equal(was, p.Fact.Attempts), p.Line, "job %s: attempts %v before the first fault, %v now", p.Fact.Job, was, p.Fact.Attempts)
	}
	if r.Checked == 0 && len(f.Progress) > 0 {
		r.unknown("no job was seen to run both before the first fault and after it")
	}
}

// loud is I15: an acknowledged job is there in the end, and what should be refused was.
func loud(f *Facts, r *Result) {
	for _, c := range f.refusals {
		if !c.Fact.Access {
			r.that(c.Fact.Refused, c.Line, "%s was accepted: %s", c.Fact.What, c.Fact.Said)
		}
	}
	acknowledged := map[string]int{} // line of the answer, by job
	var last []string
	listed := 0
	for _, op := range f.Ops {
		var job string
		switch {
		case op.Kind != history.OK:
		case op.What == history.Submit && json.Unmarshal(op.Value, &job) == nil:
			acknowledged[job] = op.Index
		case op.What == history.List && json.Unmarshal(op.Value, &last) == nil:
			listed = op.Index
		}
	}
	for _, job := range slices.Sorted(maps.Keys(acknowledged)) {
		if acknowledged[job] < listed {
			r.that(slices.Contains(last, job), acknowledged[job], "job %s was acknowledged and is not listed in the end", job)
		}
	}
}

// access is I16.
func access(f *Facts, r *Result) {
	for _, c := range f.refusals {
		if c.Fact.Access {
			r.that(c.Fact.Refused, c.Line, "%s was accepted: %s", c.Fact.What, c.Fact.Said)
		}
	}
}

// census is I13.
func census(f *Facts, r *Result) {
	for _, c := range f.census {
		r.that(len(c.Fact.Orphans) == 0, c.Line, "processes without a node: %v", c.Fact.Orphans)
		r.that(c.Fact.Slots == 0, c.Line, "%d slots are used while no job runs", c.Fact.Slots)
		r.that(len(c.Fact.Files) == 0, c.Line, "%d files left, the first is %s", len(c.Fact.Files), first(c.Fact.Files))
	}
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// answers is I14.
func answers(f *Facts, r *Result) {
	for _, a := range f.answers {
		r.that(a.Fact.Got == a.Fact.Want, a.Line, "job %s: answer %s, want %s", a.Fact.Job, a.Fact.Got, a.Fact.Want)
		r.that(a.Fact.Objection == "", a.Line, "job %s: %s", a.Fact.Job, a.Fact.Objection)
	}
}
