package chunk

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/sluiceio/sluice/internal/run"
)

const (
	// maxReaders bounds the helpers of an import.
	maxReaders = 4
	// batchBytes and batchEntries bound what a helper hands over at once.
	batchBytes   = 256 << 10
	batchEntries = 2048
)

// batch is some entries of one key group of one chunk, which keep their bytes.
type batch struct {
	index   int
	entries []Entry
	arena   []byte
	first   int  // how many entries of the group came before
	last    bool // of the key group
}

func (b *batch) keep(s []byte) []byte {
	if s == nil {
		return nil
	}
	at := len(b.arena)
	b.arena = append(b.arena, s...)
	return b.arena[at:len(b.arena):len(b.arena)]
}

// ReadAhead calls take for the entries of a chain, key group by key group, oldest chunk first within a group, while
// helpers read, unpack and check what comes next. take gets the index of the chunk. What a Drop hides does not come, and
// neither does the Drop.
func ReadAhead(ctx context.Context, chain []*Reader, first, end int, take func(index int, e *Entry) error) error {
	g := run.NewGroup(ctx, "import")
	n := max(1, min(maxReaders, runtime.GOMAXPROCS(0), end-first))
	var queues []chan *batch
	for i := range n {
		q := make(chan *batch, 2)
		queues = append(queues, q)
		g.Go("read", func(ctx context.Context) error {
			defer close(q)
			r := reading{ctx: ctx, to: q}
			for _, c := range chain {
				r.cursors = append(r.cursors, c.Cursor())
				r.spaces = r.spaces || c.header.Space != ""
			}
			for group := first + i; group < end; group += n {
				if err := r.group(group); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := takeAll(queues, first, end, take)
	if err != nil {
		g.Stop()
		for _, q := range queues { // a helper that waits sees the end of its context
			for range q {
			}
		}
	}
	return errors.Join(err, g.Wait())
}

func takeAll(queues []chan *batch, first, end int, take func(int, *Entry) error) error {
	for group := first; group < end; group++ {
		q := queues[(group-first)%len(queues)]
		for b := range q {
			for i := range b.entries {
				if err := take(b.index, &b.entries[i]); err != nil {
					return err
				}
			}
			if b.last {
				break
			}
		}
	}
	return nil
}

// reading is what one helper does.
type reading struct {
	ctx     context.Context
	to      chan<- *batch
	cursors []*Cursor
	spaces  bool // the entries have namespaces
}

// group sends what the chain says about a key group. Where there are namespaces, a younger chunk may drop what an older
// one has: then nothing is sent before all of the group is read.
func (r *reading) group(group int) error {
	var held []*batch
	drops := map[string]int{} // by namespace: how many entries its newest Drop follows
	read := 0
	out := func(b *batch) error {
		if len(b.entries) == 0 {
			return nil
		}
		if r.spaces {
			held = append(held, b)
			return nil
		}
		return r.send(b)
	}
	for i, c := range r.cursors {
		b := &batch{index: i, first: read}
		for e, err := range c.Group(group) {
			if err != nil {
				return err
			}
			if len(b.entries) == batchEntries || len(b.arena)+e.size() > batchBytes && len(b.entries) > 0 {
				if err := out(b); err != nil {
					return err
				}
				b = &batch{index: i, first: read}
			}
			e.Space, e.Key, e.Sub, e.Value = b.keep(e.Space), b.keep(e.Key), b.keep(e.Sub), b.keep(e.Value)
			b.entries = append(b.entries, e)
			if read++; e.Op == Drop {
				drops[string(e.Space)] = read
			}
		}
		if err := out(b); err != nil {
			return err
		}
	}
	for _, b := range held {
		at := b.first
		b.entries = slices.DeleteFunc(b.entries, func(e Entry) bool {
			at++
			return at <= drops[string(e.Space)]
		})
		if err := r.send(b); err != nil {
			return err
		}
	}
	return r.send(&batch{last: true})
}

func (r *reading) send(b *batch) error {
	select {
	case r.to <- b:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}
