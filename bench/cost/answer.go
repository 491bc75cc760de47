package cost

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	"github.com/sluiceio/sluice/connector/nexmark"
	"github.com/sluiceio/sluice/flow/element"
)

// Answer adds up the rows of a query.
type Answer struct {
	// Count is the number of rows, Fields the sum of their field digests. With a Canon only that counts.
	Count  int64
	Fields uint64
	Canon  *Canon
}

// Canon is the canonical digest: of the text of the rows.
type Canon struct {
	Count    int64
	Sum, Xor uint64
}

func (c Canon) String() string { return fmt.Sprintf("%d %016x %016x", c.Count, c.Sum, c.Xor) }

// row adds one row of the fields, integers, times and strings.
func (c *Canon) row(fields ...any) {
	var text []byte
	for i, f := range fields {
		if i > 0 {
			text = append(text, '|')
		}
		switch v := f.(type) {
		case int64:
			text = strconv.AppendInt(text, v, 10)
		case element.Time:
			text = strconv.AppendInt(text, int64(v), 10)
		case string:
			text = append(text, v...)
		}
	}
	c.Add(text)
}

// Add adds the text of one row.
func (c *Canon) Add(text []byte) {
	h := fnv.New64a()
	h.Write(text)
	c.Count++
	c.Sum += h.Sum64()
	c.Xor ^= h.Sum64()
}

func (a *Answer) add(f nexmark.Fields) {
	a.Count++
	a.Fields += f.Hash()
}

// events is the input of a loop.
type events struct {
	nexmark.Generator
	n    int64
	lean bool // no strings that take time to make
}

func (e events) bid(i int64) nexmark.Bid {
	if e.lean {
		return e.LeanBid(i)
	}
	return e.Bid(i)
}

func (e events) auction(i int64) nexmark.Auction {
	if e.lean {
		return e.LeanAuction(i)
	}
	return e.Auction(i)
}

// queries by name. Each loop adds its rows up.
var queries = map[string]func(events, *Answer){
	"q0": q0, "q1": q1, "q2": q2, "q3": q3, "q4": q4, "q5": q5, "q7": q7, "q8": q8, "q9": q9, "q11": q11, "q18": q18, "q19": q19, "q20": q20,
}

// Queries are the names of those that there are loops for.
func Queries() []string { return slices.Sorted(maps.Keys(queries)) }

// Run answers a query over the events of c. In a lean run q9, q18, q19 and q20 leave out the strings of bids and auctions.
func Run(query string, c nexmark.Config, lean bool) (Answer, error) {
	var a Answer
	err := run(query, c, lean, &a)
	return a, err
}

// RunCanonical answers a query in full and adds up the text of its rows.
func RunCanonical(query string, c nexmark.Config) (Canon, error) {
	var canon Canon
	err := run(query, c, false, &Answer{Canon: &canon})
	return canon, err
}

func run(query string, c nexmark.Config, lean bool, a *Answer) error {
	f, ok := queries[query]
	if !ok {
		return fmt.Errorf("no loop for %q; there are %v", query, Queries())
	}
	f(events{c.Generator(), c.Events, lean}, a)
	return nil
}
