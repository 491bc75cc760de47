package epoch

import (
	"fmt"
	"io"

	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/overflow"
)

// Sizes from which parts are finished, in bytes before compression, if nobody limits them.
const (
	partBytes    = 4 << 20
	journalBytes = 1 << 20 // of a journal: what is written at once, between two records
)

// Limit bounds parts of snapshots and journals, in bytes.
func (l *Epochs) Limit(bytes int) {
	l.part, l.journal = min(bytes, partBytes), min(bytes/2, journalBytes)
}

// Part is a finished chunk of a snapshot. It belongs to whoever has taken it, on any goroutine, who calls Release.
type Part struct {
	w        *chunk.Writer
	file     *overflow.File // nil: the bytes are in w
	at, size int64          // in the file
	entries  int
}

// WriteTo writes the chunk.
func (p *Part) WriteTo(out io.Writer) (int64, error) {
	if p.file == nil {
		return p.w.WriteTo(out)
	}
	n, err := io.Copy(out, io.NewSectionReader(p.file, p.at, p.size))
	if err == nil && n != p.size {
		err = fmt.Errorf("part has %d of %d bytes", n, p.size)
	}
	return n, err
}

// Len is the number of entries.
func (p *Part) Len() int { return p.entries }

// Release lets go what the part holds.
func (p *Part) Release() error {
	if p.file == nil {
		p.w = nil
		return nil
	}
	return p.file.Release()
}

// share is the part for another owner.
func (p *Part) share() *Part {
	if p.file != nil {
		p.file.Retain()
	}
	c := *p
	return &c
}

// journal has what the next snapshot has to say about units that changed in an epoch and have left memory since, in
// the order of leaving, and about spaces that were dropped. nil is an empty journal.
type journal struct {
	parts []*Part
	open  *chunk.Writer // nil: empty
	file  *overflow.File
}

// Journal appends an entry to the journal of epoch i.
func (l *Epochs) Journal(i int, e *chunk.Entry) error {
	p := &l.epochs[i]
	if p.log == nil {
		p.log = &journal{}
	}
	j := p.log
	if j.open == nil {
		w, err := chunk.NewWriter(l.cfg.Header())
		if err != nil {
			return err
		}
		j.open = w
	}
	if err := j.open.Add(e); err != nil {
		return err
	}
	if j.open.Bytes() >= l.journal && l.cfg.Store != nil {
		return j.spill(l.cfg.Store)
	}
	return nil
}

// spill moves the open part to disk.
func (j *journal) spill(s *overflow.Store) (err error) {
	if j.file == nil {
		if j.file, err = s.File(); err != nil {
			return err
		}
	}
	p := &Part{file: j.file, entries: j.open.Len()}
	if p.at, p.size, err = j.file.Append(j.open); err != nil {
		return err
	}
	j.file.Retain()
	j.parts = append(j.parts, p)
	j.open.Reset()
	return nil
}

// seal makes all that the journal has a list of parts, which do not change any more, and shares them.
func (j *journal) seal() (parts []*Part) {
	if j == nil {
		return nil
	}
	if j.open != nil && j.open.Len() > 0 {
		j.parts = append(j.parts, &Part{w: j.open, entries: j.open.Len()})
		j.open = nil
	}
	for _, p := range j.parts {
		parts = append(parts, p.share())
	}
	return parts
}

// join appends what a younger journal has. Both files live by their parts.
func (j *journal) join(younger *journal) (*journal, error) {
	switch {
	case j == nil:
		return younger, nil
	case younger == nil:
		return j, nil
	}
	if j.open != nil && j.open.Len() > 0 {
		j.parts = append(j.parts, &Part{w: j.open, entries: j.open.Len()})
	}
	older := j.file
	j.parts, j.open, j.file = append(j.parts, younger.parts...), younger.open, younger.file
	if older != nil {
		return j, older.Release()
	}
	return j, nil
}

// release lets everything go.
func (j *journal) release() error {
	if j == nil {
		return nil
	}
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	for _, p := range j.parts {
		note(p.Release())
	}
	if j.file != nil {
		note(j.file.Release())
	}
	*j = journal{}
	return first
}

// bytes is the memory of what is not on disk.
func (j *journal) bytes() (n int) {
	if j == nil {
		return 0
	}
	for _, p := range j.parts {
		if p.w != nil {
			n += p.w.Bytes()
		}
	}
	if j.open != nil {
		n += j.open.Bytes()
	}
	return n
}
