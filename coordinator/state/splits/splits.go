package splits

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/coordinator/state/vector"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Bounds of one source.
const (
	MaxBytes = 32 << 20 // of all splits
	Max      = 200_000  // splits
)

// ErrFull is wrapped by the error of more splits than can be kept.
var ErrFull = errors.New("too many splits")

// Source is what is known of one source of a job: the splits that its enumerator found and which subtask reads which.
// An immutable record, kept apart from the job. Splits are given away in the order in which they were found, so those
// that have an owner are always the first ones.
//
// The splits of a bounded source are given away when all are known, and for good: an attempt that runs again reads those
// of the one before it. So what it stored can be made again. An endless source gives them away as they come, and takes
// all back when its region restarts.
type Source struct {
	job         string
	operator    int32
	bounded     bool
	chain       int32
	region      int32
	regionEpoch uint64
	complete    bool
	enumerator  []byte // its state behind the last split; empty: it has none
	bytes       int    // of all splits
	splits      vector.Vec[*jobpb.Split]
	owners      vector.Vec[*jobpb.SplitAssignment] // of the first owners.Len() splits
	of          vector.Vec[[]int32]                // by subtask: its splits, in order
}

// Operator is the index of the source in the graph, Chain that of its chain in the plan.
func (s *Source) Operator() int32 { return s.operator }

// Chain is the chain that reads the source.
func (s *Source) Chain() int32 { return s.chain }

// Bounded reports whether the source ends.
func (s *Source) Bounded() bool { return s.bounded }

// Region is the region of the subtask 0 of that chain, where the enumerator runs.
func (s *Source) Region() int32 { return s.region }

// RegionEpoch is the epoch of that region: what an enumerator of another one found is void.
func (s *Source) RegionEpoch() uint64 { return s.regionEpoch }

// Complete reports whether the enumerator reached its end.
func (s *Source) Complete() bool { return s.complete }

// Enumerator is the state of the enumerator behind the last split; empty: it said none.
func (s *Source) Enumerator() []byte { return s.enumerator }

// Len is the number of splits found so far.
func (s *Source) Len() int { return s.splits.Len() }

// Bytes is the size of all splits together, as it is bounded by MaxBytes.
func (s *Source) Bytes() int { return s.bytes }

// Split is the split with index i.
func (s *Source) Split(i int) *jobpb.Split { return s.splits.At(i) }

// Assigned is the number of splits that have an owner: the first ones.
func (s *Source) Assigned() int { return s.owners.Len() }

// Of are the splits of a subtask, in the order of assignment.
func (s *Source) Of(subtask int32) []int32 {
	if subtask < 0 || int(subtask) >= s.of.Len() {
		return nil
	}
	return s.of.At(int(subtask))
}

// Readers is the parallelism of the source.
func (s *Source) Readers() int { return s.of.Len() }

// Proto is the source in one message.
func (s *Source) Proto() *jobpb.SourceState {
	p := s.Head()
	p.Enumerator = s.enumerator
	for _, x := range s.splits.All() {
		p.Splits = append(p.Splits, x)
	}
	for _, a := range s.owners.All() {
		p.Assignments = append(p.Assignments, a)
	}
	return p
}

// Head is the source without its splits and what is said of them.
func (s *Source) Head() *jobpb.SourceState {
	return &jobpb.SourceState{Job: s.job, Operator: s.operator, Region: s.region, RegionEpoch: s.regionEpoch, Complete: s.complete}
}

// Place is where a source is in the plan of its job.
type Place struct {
	Operator, Chain, Region int32
	Bounded                 bool
	Readers                 int32
}

// New is a source of which nothing is known yet.
func New(job string, p Place) *Source {
	return &Source{
		job: job, operator: p.Operator, bounded: p.Bounded, chain: p.Chain, region: p.Region, regionEpoch: 1, of: vector.Make[[]int32](int(p.Readers)),
	}
}

// Restarted is the source in a new epoch of its enumerator's region. The splits of an unfinished enumeration are
// forgotten: the next enumerator starts from nothing and need not find things in the same order. Of a bounded source none
// of them has been read, and assignments stay; of an endless one they end.
func (s *Source) Restarted(epoch uint64) *Source {
	n := *s
	n.regionEpoch = epoch
	if !n.bounded {
		n.owners = vector.Vec[*jobpb.SplitAssignment]{}
		n.of = vector.Make[[]int32](s.of.Len())
	}
	if !n.complete {
		n.splits, n.bytes, n.enumerator = vector.Vec[*jobpb.Split]{}, 0, nil
	}
	return &n
}

// Resumed is the source in a new epoch of a region that starts from a checkpoint: everything is kept, since readers know their
// positions and the enumerator goes on behind the last split.
func (s *Source) Resumed(epoch uint64) *Source {
	n := *s
	n.regionEpoch = epoch
	return &n
}

// Found is the source with the next splits of its enumerator, its state behind them, and perhaps its end. each is called with every
// split.
func (s *Source) Found(list []*jobpb.Split, enumerator []byte, end bool, each func(*jobpb.Split)) (*Source, error) {
	n := *s
	edit := n.splits.Edit()
	for _, x := range list {
		edit.Push(x)
		n.bytes += len(x.Data) + len(x.Id)
		each(x)
	}
	n.splits, n.complete = edit.Vec(), end
	if len(enumerator) > 0 {
		n.enumerator = enumerator
	}
	if n.splits.Len() > Max || n.bytes > MaxBytes {
		return nil, fmt.Errorf("%w: source %d: %d splits with %d bytes; at most %d with %d MiB can be kept", ErrFull, s.operator, n.splits.Len(), n.bytes, Max, MaxBytes>>20)
	}
	return &n, nil
}

// Give is the source with the next splits given to subtasks, in order. What takes refuses, or is not the next one, is left out; given is
// how many were not.
func (s *Source) Give(list []*jobpb.SplitAssignment, takes func(*jobpb.SplitAssignment) bool) (n *Source, given int) {
	c := *s
	owners, of := c.owners.Edit(), c.of.Edit()
	for _, a := range list {
		if int(a.Split) != owners.Len() || int(a.Split) >= s.splits.Len() || !takes(a) {
			continue
		}
		owners.Push(a)
		mine := of.At(int(a.Subtask))
		of.Set(int(a.Subtask), append(mine[:len(mine):len(mine)], a.Split))
		given++
	}
	c.owners, c.of = owners.Vec(), of.Vec()
	return &c, given
}

// Load is the source at the same place with what was saved of it.
func (s *Source) Load(p *jobpb.SourceState) (*Source, error) {
	bad := func(format string, args ...any) (*Source, error) {
		return nil, fmt.Errorf("source %d of job %s: "+format, append([]any{p.Operator, p.Job}, args...)...)
	}
	n := *s
	n.regionEpoch, n.complete, n.enumerator = p.RegionEpoch, p.Complete, p.Enumerator
	if len(p.Enumerator) > jobpb.MaxEnumerator {
		return bad("an enumerator's state of %d bytes", len(p.Enumerator))
	}
	if s.region != p.Region {
		return bad("region %d, the plan says %d", p.Region, s.region)
	}
	if s.bounded && !n.complete && len(p.Assignments) > 0 {
		return bad("splits were assigned before all were known")
	}
	splits, owners, of := n.splits.Edit(), n.owners.Edit(), n.of.Edit()
	for _, x := range p.Splits {
		if err := x.Validate(); err != nil {
			return bad("%w", err)
		}
		splits.Push(x)
		n.bytes += len(x.Data) + len(x.Id)
	}
	for i, a := range p.Assignments {
		if a == nil || int(a.Split) != i || i >= len(p.Splits) || a.Subtask < 0 || int(a.Subtask) >= of.Len() {
			return bad("assignment %d does not fit", i)
		}
		owners.Push(a)
		of.Set(int(a.Subtask), append(of.At(int(a.Subtask)), a.Split))
	}
	n.splits, n.owners, n.of = splits.Vec(), owners.Vec(), of.Vec()
	return &n, nil
}
