package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sluiceio/sluice/flow"
)

// Sizes of the stand-ins.
const (
	dimensions = 4
	items      = 60
	found      = 8 // candidates of one lookup
	kept       = 3 // items of a recommendation
)

// services are local stand-ins for models behind a network: each answer is a function of the question, in integers, and takes a
// while.
type services struct{ latency time.Duration }

// call waits as a network would.
func (s services) call(ctx context.Context) error {
	if s.latency == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(s.latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s services) embed(ctx context.Context, w flow.Windowed[int64, Profile]) (Embedded, error) {
	return embedding(w.Key, w.Window.End, w.Value), s.call(ctx)
}

func (s services) near(ctx context.Context, e Embedded) (Candidates, error) {
	return Candidates{e.User, e.At, nearest(e.Vec)}, s.call(ctx)
}

func (s services) trending(ctx context.Context, e Embedded) (Candidates, error) {
	return Candidates{e.User, e.At, trend(e.At)}, s.call(ctx)
}

func (s services) rank(ctx context.Context, r Request) (Ranked, error) {
	c := r.Candidates
	return Ranked{c.User, c.At, ranking(c.Items, r.Standing)}, s.call(ctx)
}

// direction is the direction of a word in one dimension: from -8 to 8.
func direction(word string, dimension int) int64 {
	x := uint64(dimension + 1)
	for _, b := range []byte(word) {
		x = scatter(int64(x<<8 | uint64(b)))
	}
	return int64(x%17) - 8
}

// embedding is the sum of the directions of all tokens, by weight.
func embedding(user int64, at flow.Time, p Profile) Embedded {
	e := Embedded{User: user, At: at}
	for token, weight := range p.Tokens {
		for d := range e.Vec {
			e.Vec[d] += weight * direction(token, d)
		}
	}
	return e
}

// nearest are the items whose vectors point where vec does.
func nearest(vec [dimensions]int64) (all []Candidate) {
	for item := range int64(items) {
		c := Candidate{Item: item}
		for d, v := range vec {
			c.Score += v * (int64(scatter(item*dimensions+int64(d))%17) - 8)
		}
		all = append(all, c)
	}
	return best(all, found)
}

// trend are the items that everybody likes in the hour of at.
func trend(at flow.Time) (all []Candidate) {
	hour := int64(at) / time.Hour.Microseconds()
	for item := range int64(items) {
		all = append(all, Candidate{item, int64(scatter(hour*items+item) % 1000)})
	}
	return best(all, found)
}

// best are the n candidates with the highest scores; of equal ones the lower item.
func best(cs []Candidate, n int) []Candidate {
	slices.SortFunc(cs, func(a, b Candidate) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Item, b.Item)) })
	return cs[:min(n, len(cs))]
}

// ranking adds up the scores of each item, leaves out what the user has blocked, and gives a premium user one item more.
func ranking(cs []Candidate, s Standing) (ranked []int64) {
	score := map[int64]int64{}
	for _, c := range cs {
		if !slices.Contains(s.Blocked, c.Item) {
			score[c.Item] += c.Score
		}
	}
	var all []Candidate
	for item, n := range score {
		all = append(all, Candidate{item, n})
	}
	n := kept
	if s.Premium {
		n++
	}
	for _, c := range best(all, n) {
		ranked = append(ranked, c.Item)
	}
	return ranked
}
