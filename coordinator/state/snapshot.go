package state

import (
	"errors"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/coordinator/state/ordered"
	"github.com/sluiceio/sluice/coordinator/state/recordfile"
	"github.com/sluiceio/sluice/proto/commandpb"
)

// Save writes the view as a snapshot. The same view gives the same bytes.
func (v *View) Save(out io.Writer) error {
	w := recordfile.NewWriter(out)
	w.Record(&commandpb.Record{Record: &commandpb.Record_Header{Header: &commandpb.Header{
		Version: Version, Cluster: v.cluster, Index: v.index, NextJob: v.nextJob, NextProcess: v.nextProcess, TimeUs: v.now,
		Term: v.term, Leader: v.leader,
	}}})
	v.saveRecords(w)
	if err := w.Seal(v.chain[:]); err != nil {
		return fmt.Errorf("save state at index %d: %w", v.index, err)
	}
	return nil
}

func (v *View) saveRecords(w *recordfile.Writer) {
	for _, n := range v.nodes.All() {
		w.Record(&commandpb.Record{Record: &commandpb.Record_Node{Node: n}})
	}
	for _, x := range v.workers.All() {
		w.Record(&commandpb.Record{Record: &commandpb.Record_Worker{Worker: x}})
	}
	for _, a := range v.artifacts.All() {
		w.Record(&commandpb.Record{Record: &commandpb.Record_Artifact{Artifact: a}})
	}
	for _, j := range v.jobs.All() {
		w.Record(&commandpb.Record{Record: &commandpb.Record_Job{Job: j.Proto()}})
		for _, src := range j.sources {
			w.Record(&commandpb.Record{Record: &commandpb.Record_Source{Source: src.Proto()}})
		}
	}
	for _, id := range v.requestAge.All() {
		w.Record(&commandpb.Record{Record: &commandpb.Record_Request{Request: v.Request(id)}})
	}
	for _, e := range v.events.All() {
		w.Record(&commandpb.Record{Record: &commandpb.Record_Event{Event: e}})
	}
}

// Load reads what View.Save wrote. It trusts nothing: what is not exactly a snapshot is an error, and then nothing has
// happened.
func Load(r io.Reader) (*State, error) {
	l := &loader{}
	chain, records, err := recordfile.Read(r, len(l.v.chain), l.take)
	if err != nil {
		return nil, fmt.Errorf("load state: record %d: %w", records, err)
	}
	copy(l.v.chain[:], chain)
	return from(&l.v), nil
}

type loader struct{ v View }

func (l *loader) take(r *commandpb.Record) error {
	v := &l.v
	switch r := r.Record.(type) {
	case *commandpb.Record_Header:
		h := r.Header
		if h.Version > Version {
			return fmt.Errorf("the snapshot speaks command version %d, this binary %d: upgrade this coordinator", h.Version, Version)
		}
		v.cluster, v.index, v.nextJob, v.nextProcess = h.Cluster, h.Index, h.NextJob, h.NextProcess
		v.now, v.term, v.leader = h.TimeUs, h.Term, h.Leader
	case *commandpb.Record_Node:
		return put(&v.nodes, r.Node.Id, r.Node)
	case *commandpb.Record_Worker:
		return put(&v.workers, r.Worker.Id, r.Worker)
	case *commandpb.Record_Artifact:
		return put(&v.artifacts, r.Artifact.Digest, r.Artifact)
	case *commandpb.Record_Job:
		return l.takeJob(r.Job)
	case *commandpb.Record_Source:
		return l.takeSource(r.Source)
	case *commandpb.Record_Request:
		v.nextRequest++
		v.requestAge = v.requestAge.Put(v.nextRequest, r.Request.Id)
		return put(&v.requests, r.Request.Id, r.Request)
	case *commandpb.Record_Event:
		v.nextEvent++
		v.events = v.events.Put(v.nextEvent, r.Event)
		if v.events.Len() > MaxEvents {
			return fmt.Errorf("more than %d events", MaxEvents)
		}
	default:
		return errors.New("a kind of record that this binary does not know")
	}
	return nil
}

func put[V any](m *ordered.Map[string, V], key string, val V) error {
	if _, double := m.Get(key); double || key == "" {
		return fmt.Errorf("record %q is there twice or has no name", key)
	}
	*m = m.Put(key, val)
	return nil
}
