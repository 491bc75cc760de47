package flowtest

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluiceio/sluice/connector/manual"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
)

// varied is an Option whose outcome may differ between the runs of Deterministic.
type varied interface {
	Option
	// vary is called instead of prepare, before the job's build function.
	vary(p *flow.Pipeline, r *rand.Rand)
}

// given is a source with the records of the test.
type given[T any] struct {
	id      string
	records []T
	at      func(T) flow.Time // nil: the order of the records counts
	within  time.Duration
}

// Source makes From(id, …) read these records, in one split. The options that the job gives to From hold.
func Source[T any](id string, records ...T) Option { return given[T]{id: id, records: records} }

// Disordered is Source for records whose order does not count, as long as none comes more than within behind a newer one:
// the job should say OutOfOrder(within). Deterministic shuffles them so far; Run reads them as they are.
func Disordered[T any](id string, at func(T) flow.Time, within time.Duration, records ...T) Option {
	return given[T]{id: id, records: records, at: at, within: within}
}

func (g given[T]) prepare(p *flow.Pipeline, _ *launch.Embedding) {
	p.ReplaceSource(g.id, flow.Values(g.records...))
}

// longestRest and mostAtOnce bound the pace of a source in a run of Deterministic.
const (
	longestRest = 10 * time.Millisecond
	mostAtOnce  = 9
)

func (g given[T]) vary(p *flow.Pipeline, r *rand.Rand) {
	records := g.shuffled(r)
	var plan []manual.Departure
	after := time.Duration(0)
	for left := len(records); left > 0; {
		after += time.Duration(r.Int64N(int64(longestRest)))
		n := min(left, 1+r.IntN(mostAtOnce))
		plan = append(plan, manual.Departure{After: after, Records: n})
		left -= n
	}
	p.ReplaceSource(g.id, manual.Timetable(records, plan))
}

// shuffled delays each record by a part of within.
func (g given[T]) shuffled(r *rand.Rand) []T {
	if g.at == nil {
		return g.records
	}
	type delayed struct {
		v    T
		come flow.Time
	}
	all := make([]delayed, len(g.records))
	for i, v := range g.records {
		all[i] = delayed{v, g.at(v).Add(time.Duration(r.Int64N(int64(g.within) + 1)))}
	}
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] }) // of equal times
	slices.SortStableFunc(all, func(a, b delayed) int { return int(max(-1, min(1, a.come-b.come))) })
	records := make([]T, len(all))
	for i, d := range all {
		records[i] = d.v
	}
	return records
}
