package state

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/sluiceio/sluice/bench/ratio"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// mix is the hash of a key.
func mix(k int64) uint64 { return codec.Mix(uint64(k)) }

func next(x *uint64) uint64 {
	*x = *x*6364136223846793005 + 1442695040888963407
	return *x >> 20
}

// BenchmarkUpdate: random read-modify-writes of one value per key, against the bare table. "epochs" has a barrier every
// so many updates as there are keys, and writes the snapshots in steps, as a subtask does.
func BenchmarkUpdate(b *testing.B) {
	for _, keys := range []uint64{1e5, 1e6, 1e7} {
		if keys > 1e6 && testing.Short() {
			continue
		}
		b.Run(fmt.Sprintf("keys=%d/bare", keys), func(b *testing.B) {
			t := ratio.NewTable[int64](mix)
			for k := range int64(keys) {
				*t.At(k, mix(k)) = 1
			}
			x := uint64(1)
			for b.Loop() {
				k := int64(next(&x) % keys)
				*t.At(k, mix(k))++
			}
		})
		for _, mode := range []string{"untracked", "tracked", "epochs"} {
			b.Run(fmt.Sprintf("keys=%d/%s", keys, mode), func(b *testing.B) {
				d, err := NewDirectory[int64](Options{MaxParallelism: 256, Checkpoints: mode != "untracked"})
				if err != nil {
					b.Fatal(err)
				}
				v, err := ValueOf[int64](d, "count")
				if err != nil {
					b.Fatal(err)
				}
				for k := range int64(keys) {
					d.Seek(k, d.Hash(k))
					*v.Ref() = 1
				}
				b.ReportAllocs()
				x, i, id := uint64(1), uint64(0), element.CheckpointID(0)
				for b.Loop() {
					k := int64(next(&x) % keys)
					d.Seek(k, codec.Mix(uint64(k)))
					*v.Ref()++
					if i++; mode != "epochs" {
						continue
					}
					if i%keys == 0 { // finds two keys of three dirty
						d.Completed(id)
						id++
						if _, err := d.Freeze(id, Delta); err != nil {
							b.Fatal(err)
						}
					}
					if s := d.t.Epochs.Snapshot(); s != nil && i%512 == 0 {
						if _, err := s.Step(2048); err != nil {
							b.Fatal(err)
						}
						s.Take()
					}
				}
				b.ReportMetric(float64(d.Bytes())/float64(keys), "B/key")
			})
		}
	}
}

// BenchmarkStates is what the other states cost, at 100,000 keys.
func BenchmarkStates(b *testing.B) {
	const keys = 100_000
	run := func(name string, declare func(d *Directory[int64]) (func(x uint64), error)) {
		b.Run(name, func(b *testing.B) {
			d, err := NewDirectory[int64](Options{MaxParallelism: 256, Checkpoints: true})
			if err != nil {
				b.Fatal(err)
			}
			f, err := declare(d)
			if err != nil {
				b.Fatal(err)
			}
			x := uint64(1)
			b.ReportAllocs()
			for b.Loop() {
				k := int64(next(&x) % keys)
				d.Seek(k, codec.Mix(uint64(k)))
				f(x)
			}
		})
	}
	run("second value", func(d *Directory[int64]) (func(uint64), error) {
		if _, err := ValueOf[int64](d, "first"); err != nil {
			return nil, err
		}
		v, err := ValueOf[int64](d, "second")
		return func(uint64) { *v.Ref()++ }, err
	})
	run("map of 16", func(d *Directory[int64]) (func(uint64), error) {
		m, err := MapOf[uint64, int64](d, "map")
		return func(x uint64) { *m.Ref(x >> 60)++ }, err
	})
	run("list, cleared at 64", func(d *Directory[int64]) (func(uint64), error) {
		l, err := ListOf[uint64](d, "list")
		return func(x uint64) {
			if l.Append(x); l.Len() == 64 {
				l.Clear()
			}
		}, err
	})
	run("get and set of a slice", func(d *Directory[int64]) (func(uint64), error) {
		v, err := ValueOf[[]int64](d, "slice")
		return func(uint64) {
			s := v.Get()
			if s == nil {
				s = make([]int64, 4)
			}
			s[0]++
			v.Set(s)
		}, err
	})
}

// BenchmarkSnapshot is the writing of a snapshot and its loading, per key.
func BenchmarkSnapshot(b *testing.B) {
	const keys = 1_000_000
	d, err := NewDirectory[int64](Options{MaxParallelism: 256, Checkpoints: true})
	if err != nil {
		b.Fatal(err)
	}
	v, err := ValueOf[int64](d, "count")
	if err != nil {
		b.Fatal(err)
	}
	for k := range int64(keys) {
		d.Seek(k, d.Hash(k))
		v.Set(k)
	}
	per := func(b *testing.B, n int) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
		b.ReportMetric(float64(n)/keys, "B/key")
		b.ReportMetric(0, "ns/op")
	}
	var s *Snapshot
	var parts []*Part
	var id element.CheckpointID
	b.Run("drain", func(b *testing.B) {
		for b.Loop() {
			id++
			if s, err = d.Freeze(id, Full); err != nil {
				b.Fatal(err)
			}
			parts = nil
			for done := false; !done; {
				if done, err = s.Step(2048); err != nil {
					b.Fatal(err)
				}
				for p, ok := s.Take(); ok; p, ok = s.Take() {
					parts = append(parts, p)
				}
			}
			d.Completed(id)
		}
		per(b, 0)
	})
	var chain []*chunk.Reader
	b.Run("write", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n, chain = 0, nil
			for _, p := range parts {
				var out bytes.Buffer
				if _, err := p.WriteTo(&out); err != nil {
					b.Fatal(err)
				}
				n += out.Len()
				r, err := chunk.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
				if err != nil {
					b.Fatal(err)
				}
				chain = append(chain, r)
			}
		}
		per(b, n)
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			e, err := NewDirectory[int64](Options{MaxParallelism: 256, Checkpoints: true})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := ValueOf[int64](e, "count"); err != nil {
				b.Fatal(err)
			}
			if err := e.Import(b.Context(), chain, 0, 256); err != nil || e.Len() != keys {
				b.Fatal(e.Len(), err)
			}
		}
		per(b, 0)
	})
	b.Run("rewind", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			for k := range int64(keys) {
				d.Seek(k, d.Hash(k))
				v.Set(k + 1)
			}
			b.StartTimer()
			if err := d.Rewind(d.Base()); err != nil {
				b.Fatal(err)
			}
		}
		per(b, 0)
	})
}
