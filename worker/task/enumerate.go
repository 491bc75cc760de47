package task

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// maxSplitsPerMessage and maxSplitBytes bound one SplitsDiscovered.
const (
	maxSplitsPerMessage = 1024
	maxSplitBytes       = 1 << 20
)

// enumerate discovers the splits of source op and reports them, until the source has no more or the attempt ends.
func (a *attempt) enumerate(ctx context.Context, op int32) (err error) {
	id := a.layout.ID(op)
	defer func() {
		if v := recover(); v != nil {
			err = fault.Panicked(v, id, "while splits were discovered")
		}
	}()
	en, err := a.proc.cfg.Program.Nodes[op].Source.enumerator(ctx, int(a.plan().Parallelism))
	if err != nil {
		return fault.Of(fmt.Errorf("discover splits: %w", err), fault.CodeSource, id)
	}
	defer func() { a.quietly("close enumerator", fault.Protect(en.Close)) }()
	r := splitReport{attempt: a, op: op}
	for {
		splits, err := en.Next(ctx)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return fault.Of(fmt.Errorf("discover splits: %w", err), fault.CodeSource, id)
		}
		if err := r.send(splits, end); err != nil {
			return fault.Of(fmt.Errorf("discover splits: %w", err), fault.CodeSource, id)
		}
		if end {
			return nil
		}
	}
}

// splitReport numbers the splits of one enumerator.
type splitReport struct {
	*attempt
	op     int32
	offset int
}

// send reports splits in messages of bounded size. end goes with the last one. A split that cannot be stored is an
// error of the connector.
func (r *splitReport) send(splits []connector.Split, end bool) error {
	for len(splits) > 0 || end {
		n, size := 0, 0
		for n < len(splits) && n < maxSplitsPerMessage && (n == 0 || size+len(splits[n].Data) <= maxSplitBytes) {
			size += len(splits[n].Data)
			n++
		}
		m := &taskpb.SplitsDiscovered{
			Operator: r.op, Region: r.sub.Region, RegionEpoch: r.sub.RegionEpoch, Offset: int32(r.offset),
			End: end && n == len(splits),
		}
		for _, s := range splits[:n] {
			p := &jobpb.Split{Id: s.ID, Version: uint32(s.Version), Data: s.Data}
			if err := p.Validate(); err != nil {
				return err
			}
			m.Splits = append(m.Splits, p)
		}
		r.proc.cfg.Host.SplitsDiscovered(m)
		r.offset += n
		splits = splits[n:]
		if m.End {
			break
		}
	}
	return nil
}
