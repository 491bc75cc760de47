package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// MaxSplitsPerMessage and maxSplitBytes bound one SplitsDiscovered.
const (
	MaxSplitsPerMessage = 1024
	maxSplitBytes       = 1 << 20
)

// Phased is a connector.Enumerator whose splits have phases, counted from 0: those of a phase are given out when all
// splits of lower ones have been read to their end, by whichever reader.
type Phased interface {
	Phase(split connector.Split) int32
}

// Discovery is one enumerator of a source in one attempt.
type Discovery struct {
	Source      Source
	Operator    string // id
	Parallelism int
	// Report takes what was found, in order. The message says nothing of the attempt; it is the callee's.
	Report func(*taskpb.SplitsDiscovered)
	// Warn is told of what went wrong after the splits were found.
	Warn func(step string, err error)

	// From is where an earlier discovery was that had reported Known splits; nil: nowhere.
	From  []byte
	Known int

	offset int    // splits reported
	skip   int    // splits to come that were reported before
	mark   []byte // what the next report says of the enumerator
}

// markOf is the state of an enumerator, and how many splits stand before it: what it finds beyond may be known already, because a
// report has bounds and the enumerator speaks for all that it found at once. An enumerator without state begins anew and has to
// find the same again.
func markOf(state []byte, explained int) []byte {
	return append(binary.AppendUvarint(nil, uint64(explained)), state...)
}

func (d *Discovery) resume() (state []byte, err error) {
	d.offset, d.mark, d.skip = d.Known, d.From, d.Known
	if len(d.From) == 0 {
		return nil, nil
	}
	explained, n := binary.Uvarint(d.From)
	if n <= 0 || explained > uint64(d.Known) {
		return nil, fmt.Errorf("the state of the enumerator is damaged: %x", d.From)
	}
	d.skip = d.Known - int(explained)
	return d.From[n:], nil
}

// Run discovers splits and reports them, until the source has no more or ctx ends.
func (d *Discovery) Run(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fault.Panicked(v, d.Operator, "while splits were discovered")
		}
	}()
	state, err := d.resume()
	if err != nil {
		return d.failed(err)
	}
	en, err := d.Source.Enumerator(ctx, d.Parallelism, state)
	if err != nil {
		return d.failed(err)
	}
	defer func() {
		if err := fault.Protect(en.Close); err != nil {
			d.Warn("close enumerator", err)
		}
	}()
	for {
		splits, err := en.Next(ctx)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return d.failed(err)
		}
		known := min(d.skip, len(splits))
		d.skip, splits = d.skip-known, splits[known:]
		state, err := en.Snapshot(0)
		if err != nil {
			return d.failed(fmt.Errorf("snapshot: %w", err))
		}
		if err := d.send(splits, state, end, phaseOf(en)); err != nil {
			return d.failed(err)
		}
		if end {
			return nil
		}
	}
}

func phaseOf(en connector.Enumerator) func(connector.Split) int32 {
	if p, ok := en.(Phased); ok {
		return p.Phase
	}
	return func(connector.Split) int32 { return 0 }
}

func (d *Discovery) failed(err error) error {
	return fault.Of(fmt.Errorf("discover splits: %w", err), fault.CodeSource, d.Operator)
}

// send reports splits in messages of bounded size. end goes with the last one. A split that cannot be stored is an
// error of the connector.
func (d *Discovery) send(splits []connector.Split, state []byte, end bool, phase func(connector.Split) int32) error {
	for len(splits) > 0 || end {
		n, size := 0, 0
		for n < len(splits) && n < MaxSplitsPerMessage && (n == 0 || size+len(splits[n].Data) <= maxSplitBytes) {
			size += len(splits[n].Data)
			n++
		}
		m := &taskpb.SplitsDiscovered{Offset: int32(d.offset), End: end && n == len(splits)}
		for _, s := range splits[:n] {
			p := &jobpb.Split{Id: s.ID, Version: uint32(s.Version), Data: s.Data, Phase: phase(s)}
			if err := p.Validate(); err != nil {
				return err
			}
			m.Splits = append(m.Splits, p)
		}
		if n == len(splits) && state != nil && d.skip == 0 {
			d.mark = markOf(state, d.offset+n)
		}
		m.Enumerator = d.mark
		d.Report(m)
		d.offset += n
		splits = splits[n:]
		if m.End {
			break
		}
	}
	return nil
}
