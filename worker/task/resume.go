package task

import (
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/edge"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/layout"
)

// resume decides whether the stored inputs of the operator at the head are read on where the checkpoint was. A position is void
// for results that another attempt has made: records may stand in another order there. An operator that is still loading loads
// again; for any other one the checkpoint cannot be read.
func (w *wiring) resume(op int32, o Operator) error {
	if w.from == nil {
		return nil
	}
	for i := range w.layout.Graph.Operators[op].Inputs {
		ref := layout.Input{Op: op, Index: int32(i)}
		e := w.layout.Edges[ref]
		if e == nil || !edge.Blocking(e) {
			continue
		}
		producers, err := w.producers(e, w.layout.ProducersOf(e, w.sub.Index))
		if err != nil {
			return err
		}
		for _, p := range producers {
			at := w.readOf(e, p.Name.Producer)
			if at == nil || at.Ended || at.Records == 0 || at.Attempt == p.Name.Attempt && at.RegionEpoch == p.Name.RegionEpoch {
				continue
			}
			if _, reloads := o.(chain.Reloader); !reloads || w.from.Loaded {
				return &fault.Fault{
					Kind: jobpb.FailureKind_FAILURE_FATAL, Code: snapshot.CodeRead, Operator: w.layout.ID(op),
					Err: fmt.Errorf("checkpoint %d stands in the middle of the %s of attempt %d, which is lost: attempt %d may have made it in another order",
						w.sub.Restore, p.Name, at.Attempt, p.Name.Attempt),
				}
			}
			w.reload = true
		}
	}
	return nil
}

// readOf is where the checkpoint stands in one partition; nil: it has not begun it.
func (w *wiring) readOf(e *jobpb.Edge, producer int32) *snapshotpb.Position {
	for _, p := range w.from.GetPositions() {
		if p.Edge == e.Index && p.Producer == producer {
			return p
		}
	}
	return nil
}

// position is where the reading of a stored edge begins, and what was read before.
func (w *wiring) position(e *jobpb.Edge, producers []stored.Producer) (at stored.Position, read []*snapshotpb.Position) {
	if w.from == nil || w.reload {
		return at, nil
	}
	for i, p := range producers {
		r := w.readOf(e, p.Name.Producer)
		if r == nil {
			return at, read
		}
		read = append(read, r)
		if !r.Ended {
			if r.Records > 0 {
				at.Attempt, at.Block, at.Offset = r.Attempt, r.Block, r.Offset
			}
			return at, read
		}
		at.Producer = i + 1
	}
	return at, read
}

// running are the ends of the producers of a live edge, and those that do not run because the checkpoint contains their end.
func (w *wiring) running(chain int32, s layout.Span) (ends []shuffle.End, finished []int32, err error) {
	from := s.First
	for i := s.First; i <= s.End; i++ {
		over := false
		if i < s.End {
			l, err := w.location(chain, i)
			if err != nil {
				return nil, nil, err
			}
			over = l.Finished
		}
		if !over && i < s.End {
			continue
		}
		some, err := w.ends(chain, layout.Span{First: from, End: i})
		if err != nil {
			return nil, nil, err
		}
		ends, from = append(ends, some...), i+1
		if over {
			finished = append(finished, i)
		}
	}
	return ends, finished, nil
}
