package worker

import (
	"cmp"
	"slices"
	"sync"

	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// processKey identifies a task process for ever: numbers are issued by the coordinators and never used again.
type processKey struct {
	job    string
	number uint64
}

// address is how a data connection names a task process.
type address struct {
	job    pipe.JobHash
	number uint64
}

func (k processKey) address() address { return address{job: pipe.HashJob(k.job), number: k.number} }

// goneLimit is how many ended processes are remembered, so that whoever still wants them is told that they are gone
// instead of waiting.
const goneLimit = 4096

// table knows every task process of this worker, and those that were.
type table struct {
	mu struct {
		sync.Mutex
		live     map[address]*taskProcess
		gone     map[address]bool
		goneList []address // in the order of their end
		stopping bool      // no process is added any more
	}
}

func newTable() *table {
	t := &table{}
	t.mu.live = map[address]*taskProcess{}
	t.mu.gone = map[address]bool{}
	return t
}

// place is what the table says of a process.
type place uint8

const (
	placeLive   place = iota // it is in the table
	placeNew                 // it was added by this call
	placeGone                // it was here and has ended
	placeClosed              // the worker is stopping
)

// ensure returns the live process with this key, or adds what create returns.
func (t *table) ensure(key processKey, create func() *taskProcess) (*taskProcess, place) {
	at := key.address()
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.mu.live[at]; p != nil {
		return p, placeLive
	}
	switch {
	case t.mu.gone[at]:
		return nil, placeGone
	case t.mu.stopping:
		return nil, placeClosed
	}
	p := create()
	t.mu.live[at] = p
	return p, placeNew
}

// find returns a live process, or nil.
func (t *table) find(key processKey) *taskProcess {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.live[key.address()]
}

// end moves a process to those that are gone.
func (t *table) end(key processKey) {
	at := key.address()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.live, at)
	t.bury(at)
}

// remember adds a process of an earlier incarnation to those that are gone.
func (t *table) remember(key processKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bury(key.address())
}

// bury notes the end of a process. The lock is held.
func (t *table) bury(at address) {
	if t.mu.gone[at] {
		return
	}
	t.mu.gone[at] = true
	t.mu.goneList = append(t.mu.goneList, at)
	if len(t.mu.goneList) > goneLimit {
		delete(t.mu.gone, t.mu.goneList[0])
		t.mu.goneList = t.mu.goneList[1:]
	}
}

// list returns the live processes, ordered by job and number.
func (t *table) list() []*taskProcess {
	t.mu.Lock()
	all := make([]*taskProcess, 0, len(t.mu.live))
	for _, p := range t.mu.live {
		all = append(all, p)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b *taskProcess) int {
		return cmp.Or(cmp.Compare(a.key.job, b.key.job), cmp.Compare(a.key.number, b.key.number))
	})
	return all
}

// close lets no process in any more.
func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.stopping = true
}

// inventory is everything that runs here, and what has ended without a leader knowing of it yet.
func (t *table) inventory() []*controlpb.ProcessInventory {
	var all []*controlpb.ProcessInventory
	for _, p := range t.list() {
		all = append(all, p.inventory())
	}
	return all
}

// acknowledged tells every process up to which number its reports are committed.
func (t *table) acknowledged(sequence uint64) {
	for _, p := range t.list() {
		if p.acknowledged(sequence) {
			t.end(p.key)
		}
	}
}

// route answers a data connection.
func (t *table) route(preface pipe.Preface) (pipe.Answer, *pipe.Sender) {
	at := address{job: preface.Job, number: preface.Process}
	t.mu.Lock()
	p, gone := t.mu.live[at], t.mu.gone[at]
	t.mu.Unlock()
	switch {
	case p != nil:
		return p.route(preface)
	case gone:
		return pipe.Gone, nil
	}
	return pipe.NotYet, nil
}

// samples are the newest counters of every process.
func (t *table) samples() []*controlpb.ProcessSample {
	var all []*controlpb.ProcessSample
	for _, p := range t.list() {
		if s := p.sample(); s != nil {
			all = append(all, &controlpb.ProcessSample{Job: p.key.job, Process: p.key.number, Sample: s})
		}
	}
	return all
}

// cancel passes a cancellation on to every process of the job that it concerns.
func (t *table) cancel(c *taskpb.Cancel) {
	for _, p := range t.list() {
		if p.key.job == c.Job {
			p.cancel(c)
		}
	}
}
