package stored

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// run reads the lane's partition. What goes wrong is the reader's to tell, never an error of the exchange.
func (l *lane) run(group context.Context) {
	in := l.in
	if !in.enter() {
		return
	}
	defer in.leave()
	stop := context.AfterFunc(group, func() { in.cancel(errStopped) })
	defer stop()
	p := in.producers[l.producer]
	var err error
	if p.Peer == nil {
		err = l.readHere(in.ctx, p)
	} else {
		err = l.readThere(in.ctx, p)
	}
	if err != nil {
		in.fail(err)
	}
}

// readHere reads the files of this worker.
func (l *lane) readHere(ctx context.Context, p Producer) (err error) {
	store := l.in.x.cfg.Store
	if !p.Stored {
		if err := store.Wait(ctx, p.Name); err != nil {
			return err
		}
	}
	o, err := store.open(p.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	s, err := o.scan(l.in.consumer, l.from)
	if err != nil {
		return err
	}
	a := assembler{lane: l}
	defer a.drop()
	for {
		b, err := l.buffer(ctx)
		if err != nil {
			return err
		}
		n, err := s.Next(b[1:])
		if err != nil {
			l.putBuffer(b)
			if errors.Is(err, io.EOF) {
				l.finish(o.End)
				return nil
			}
			return lossOf(p.Name, err)
		}
		if err := a.add(ctx, b, n); err != nil {
			return err
		}
	}
}

// scan begins to read a subpartition at a block.
func (o *opened) scan(consumer int32, block int64) (*partition.Scanner, error) {
	s, err := partition.NewScanner(o.Summary, consumer, o.index, o.data)
	if err != nil {
		return nil, &AskedError{o.Name, err}
	}
	if err := s.SkipTo(block); err != nil {
		return nil, lossOf(o.Name, err)
	}
	return s, nil
}

// assembler puts what was read into the queue of its lane: buffers of whole blocks as they are, pieces of a large
// block joined.
type assembler struct {
	lane   *lane
	blocks int64  // queued
	large  []byte // a large block, as far as it has arrived; its capacity is its size
	held   int64  // bytes reserved for it
}

// add takes the n bytes behind the first one of a buffer. It counts the blocks, so that a read can be begun again
// behind them, and checks their headers.
func (a *assembler) add(ctx context.Context, buffer []byte, n int) error {
	data := buffer[1 : 1+n]
	if a.large != nil {
		defer a.lane.putBuffer(buffer)
		return a.join(data)
	}
	for at := 0; at < n; {
		b, err := partition.ParseBlock(data[at:])
		if err != nil {
			a.lane.putBuffer(buffer)
			return &LostError{Name: a.lane.name(), Cause: err}
		}
		if b.Size() > int64(n-at) {
			defer a.lane.putBuffer(buffer)
			if at > 0 || b.Size() <= partition.MaxBlock {
				return a.corrupt("a block of %d bytes in a chunk with %d left", b.Size(), n-at)
			}
			return a.enlarge(ctx, &b, data)
		}
		at += int(b.Size())
		a.blocks++
	}
	a.lane.push(chunk{lane: a.lane, data: data, buffer: buffer})
	return nil
}

func (a *assembler) corrupt(format string, args ...any) error {
	return &LostError{Name: a.lane.name(), Cause: fmt.Errorf("%w: "+format, append([]any{partition.ErrCorrupt}, args...)...)}
}

// enlarge begins a large block, when it is the reader's only one. What it needs, stored and unpacked, is reserved for as
// long as it exists.
func (a *assembler) enlarge(ctx context.Context, b *partition.Block, data []byte) error {
	in := a.lane.in
	if err := a.lane.awaitLarge(ctx); err != nil {
		return err
	}
	need := b.Size()
	if b.Form != partition.Plain {
		need += int64(b.Raw)
	}
	what := fmt.Sprintf("a record of %d bytes to consumer %d of edge %d", b.Raw, in.consumer, a.lane.name().Edge)
	if err := in.x.cfg.Memory.Reserve(what, need); err != nil {
		in.endLarge(0)
		return err
	}
	a.large, a.held = make([]byte, 0, b.Size()), need
	return a.join(data)
}

func (a *assembler) join(data []byte) error {
	if room := cap(a.large) - len(a.large); len(data) > room {
		return a.corrupt("%d bytes too many behind a block", len(data)-room)
	}
	if a.large = append(a.large, data...); len(a.large) < cap(a.large) {
		return nil
	}
	a.lane.push(chunk{lane: a.lane, data: a.large, held: a.held})
	a.blocks++
	a.large, a.held = nil, 0
	return nil
}

// drop forgets a large block that has not arrived in full.
func (a *assembler) drop() {
	if a.large != nil {
		a.lane.in.endLarge(a.held)
		a.large, a.held = nil, 0
	}
}
