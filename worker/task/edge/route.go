package edge

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task/chain"
)

func toFirst[T any](w *shuffle.Writer[T], rt *chain.Runtime) chain.Push[T] {
	return func(v T) {
		if err := w.Add(0, v, rt.At); err != nil {
			rt.Fail(err)
		}
	}
}

func inTurn[T any](w *shuffle.Writer[T], rt *chain.Runtime, consumers, next int) chain.Push[T] {
	return func(v T) {
		if err := w.Add(next, v, rt.At); err != nil {
			rt.Fail(err)
		}
		if next++; next == consumers {
			next = 0
		}
	}
}

func toAll[T any](w *shuffle.Writer[T], rt *chain.Runtime, consumers int) chain.Push[T] {
	return func(v T) {
		for to := range consumers {
			if err := w.Add(to, v, rt.At); err != nil {
				rt.Fail(err)
			}
		}
	}
}

// copiesToAll is toAll for records that are more than their bytes: what slices, maps and pointers lead to would be shared
// by consumers of this process, each on a goroutine of its own. They get what one in another process would get.
func copiesToAll[T any](w *shuffle.Writer[T], rt *chain.Runtime, ends []shuffle.End, c *codec.Codec[T]) chain.Push[T] {
	var enc []byte
	send := func(to int, v T) error {
		if ends[to].Peer != nil { // it is encoded in any case
			return w.Add(to, v, rt.At)
		}
		var err error
		if enc, err = c.Append(enc[:0], &v); err != nil {
			return err
		}
		var own T
		if _, err := c.Decode(enc, &own); err != nil {
			return err
		}
		return w.Add(to, own, rt.At)
	}
	return func(v T) {
		for to := range ends {
			if err := send(to, v); err != nil {
				rt.Fail(err)
			}
		}
	}
}
