package aggregate

import (
	"math"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/spill"
)

// streams are a partition on disk.
type streams struct {
	records spill.Stream
	saved   spill.Stream
}

func (s streams) bytes() int64 { return s.records.Raw + s.saved.Raw }

// close lets no further key into a partition: its records are written down.
func (p *pass[K, In, Acc]) close(t *part[K, In, Acc]) error {
	if err := p.open(); err != nil {
		return err
	}
	t.records = spill.NewWriter(p.file, p.codec)
	return nil
}

func (p *pass[K, In, Acc]) open() error {
	if err := p.mem.MustSpill(); err != nil {
		return err
	}
	if p.file == nil {
		p.file = p.mem.NewFile()
		p.mem.Deeper(p.level + 1)
	}
	return nil
}

// grow adds a record to an accumulator that may grow.
func (p *pass[K, In, Acc]) grow(t *part[K, In, Acc], i uint32, v In, at element.Time) error {
	grown := p.fold(t.rows.At(i), v, at)
	if p.Update != nil {
		return p.charge(t, grown)
	}
	// Looking at an accumulator for each record would cost its size each time. What a record may have added is believed,
	// until that is half of what was measured.
	suspected := int64(1)
	if !p.inSize.Fixed() {
		suspected += p.extra(v) / unit
	}
	s := t.sizes.At(i)
	s.more = uint32(min(int64(s.more)+suspected, math.MaxUint32))
	if err := p.charge(t, suspected*unit); err != nil || t.rows.Len() == 0 {
		return err
	}
	if s.more <= s.known/2 {
		return nil
	}
	return p.measure(t, i)
}

// extra is the size of a record beyond its type.
func (p *pass[K, In, Acc]) extra(v In) int64 {
	p.record = v
	return p.inSize.Extra(&p.record)
}

// measure looks at an accumulator.
func (p *pass[K, In, Acc]) measure(t *part[K, In, Acc], i uint32) error {
	r := t.rows.At(i)
	if p.Update != nil {
		return p.charge(t, p.Size(&r.acc))
	}
	s := t.sizes.At(i)
	known := min((p.accSize.Extra(&r.acc)+unit-1)/unit, math.MaxUint32)
	change := known - int64(s.known) - int64(s.more)
	s.known, s.more = uint32(known), 0
	return p.charge(t, change*unit)
}

// charge takes memory that is in use already, and evicts what it takes to be within the budget again. After it t may be empty.
func (p *pass[K, In, Acc]) charge(t *part[K, In, Acc], n int64) error {
	t.extra += n
	p.mem.Force(n)
	for p.mem.Free() < 0 {
		most := t
		for i := range p.parts {
			if x := &p.parts[i]; x.held() > most.held() {
				most = x
			}
		}
		if most.rows.Len() == 0 {
			return nil // what is over is not ours: it is a record in flight
		}
		if err := p.evict(most); err != nil {
			return err
		}
	}
	return nil
}

func (t *part[K, In, Acc]) held() int64 { return t.rows.Bytes() + t.sizes.Bytes() + t.extra }

// evict writes the accumulators of a partition down.
func (p *pass[K, In, Acc]) evict(t *part[K, In, Acc]) error {
	if err := p.begun(t); err != nil {
		return err
	}
	for chunk := range t.rows.Chunks {
		for i := range chunk {
			s := saved[K, Acc]{chunk[i].key, chunk[i].acc}
			if err := t.saved.Add(&s, 0); err != nil {
				return err
			}
		}
	}
	p.release(t)
	p.mem.Publish()
	if p.restoring {
		return nil
	}
	return p.ended(t)
}

// begun makes the writer of saved accumulators.
func (p *pass[K, In, Acc]) begun(t *part[K, In, Acc]) error {
	if t.records == nil {
		if err := p.close(t); err != nil {
			return err
		}
	}
	if t.saved == nil {
		t.saved = spill.NewWriter(p.file, p.saves)
	}
	return nil
}

// ended ends the stream of saved accumulators.
func (p *pass[K, In, Acc]) ended(t *part[K, In, Acc]) (err error) {
	t.onDisk, err = t.saved.Finish()
	t.saved = nil
	return err
}

// restore takes an accumulator that a pass before has saved. All of them come before the first record.
func (p *pass[K, In, Acc]) restore(s saved[K, Acc], _ element.Time) error {
	t, hash := p.locate(s.Key)
	if t.saved == nil {
		if r := p.insert(t, t.index.Gap(hash), s.Key, hash); r != nil {
			r.acc = s.Acc
			return p.measure(t, uint32(t.rows.Len()-1))
		}
		if err := p.evict(t); err != nil {
			return err
		}
	}
	return t.saved.Add(&s, 0)
}

// settle ends the restoring.
func (p *pass[K, In, Acc]) settle() error {
	p.restoring = false
	for i := range p.parts {
		if t := &p.parts[i]; t.saved != nil {
			if err := p.ended(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxLevel bounds the recursion.
const maxLevel = 6

// again aggregates a partition that lies on disk, with all of the memory.
func (p *pass[K, In, Acc]) again(s streams) error {
	if p.level >= maxLevel || p.level > 0 && s.bytes() > p.input/10*9 {
		return newSorted(p.core, p.file, s).run()
	}
	q := newPass(p.core, p.level+1)
	q.input = s.bytes()
	if s.saved.Records > 0 {
		q.restoring = true
		if err := each(p.rt, p.file, p.saves, s.saved, q.restore); err != nil {
			return err
		}
		if err := q.settle(); err != nil {
			return err
		}
	}
	if err := each(p.rt, p.file, p.codec, s.records, q.add); err != nil {
		return err
	}
	return q.finish()
}
