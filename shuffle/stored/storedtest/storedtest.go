package storedtest

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/stored"
)

type record struct{ N int64 }

// memory of an exchange, in bytes.
const memory = 64 << 20

// Write stores n records for one consumer in a directory, as a task process does.
func Write(ctx context.Context, dir string, name stored.Name, n int) (*jobpb.Partition, error) {
	c, err := codec.Of[record](nil)
	if err != nil {
		return nil, err
	}
	store, err := stored.Join(vfs.OS{}, dir)
	if err != nil {
		return nil, err
	}
	x, err := stored.NewExchange(stored.Config{Store: store, Memory: budget.New(memory)})
	if err != nil {
		return nil, err
	}
	w, err := stored.NewWriter(stored.WriterConfig[record]{Ctx: ctx, Exchange: x, Name: name, Consumers: 1, Codec: c})
	if err != nil {
		return nil, err
	}
	for i := range int64(n) {
		if err := w.Add(0, record{i}, element.Time(i)); err != nil {
			return nil, errors.Join(err, w.Close(err))
		}
	}
	if err := w.Broadcast(element.Event{Kind: element.End, Time: element.MaxTime}); err != nil {
		return nil, errors.Join(err, w.Close(err))
	}
	if err := w.Close(nil); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// Sum reads results from the agent of a worker at its data port, as a task process of another worker does, and returns
// the sum of all records.
func Sum(ctx context.Context, agent shuffle.Peer, names ...stored.Name) (sum int64, err error) {
	elsewhere, err := stored.Open(vfs.NewMem(), "partitions")
	if err != nil {
		return 0, err
	}
	x, err := stored.NewExchange(stored.Config{
		Store: elsewhere, Memory: budget.New(memory), ConnectTimeout: time.Second,
		Dial: func(ctx context.Context, p shuffle.Peer) (net.Conn, error) {
			return pipe.Dialer{ConnectTimeout: time.Second}.Dial(ctx, p.Address, pipe.Preface{Process: p.Process})
		},
	})
	if err != nil {
		return 0, err
	}
	g := run.NewGroup(ctx, "reader")
	g.Go("exchange", x.Run)
	defer func() {
		g.Stop()
		err = errors.Join(err, g.Wait())
	}()
	return sumUp(ctx, x, agent, names)
}

func sumUp(ctx context.Context, x *stored.Exchange, agent shuffle.Peer, names []stored.Name) (sum int64, err error) {
	c, err := codec.Of[record](nil)
	if err != nil {
		return 0, err
	}
	bell := make(chan struct{}, 1)
	cfg := stored.ReaderConfig[record]{Ctx: ctx, Exchange: x, Codec: c, Notify: func() {
		select {
		case bell <- struct{}{}:
		default:
		}
	}}
	for _, n := range names {
		cfg.Producers = append(cfg.Producers, stored.Producer{Name: n, Stored: true, Peer: &agent})
	}
	r, err := stored.NewReader(cfg)
	if err != nil {
		return 0, err
	}
	defer r.Close(nil)
	for left := len(names); left > 0; {
		in, ok, err := r.Next()
		switch {
		case err != nil:
			return sum, err
		case !ok:
			select {
			case <-bell:
			case <-ctx.Done():
				return sum, context.Cause(ctx)
			}
		case in.Batch == nil:
			left--
		default:
			for _, v := range in.Batch.Vals {
				sum += v.N
			}
			r.Release(in)
		}
	}
	return sum, nil
}
