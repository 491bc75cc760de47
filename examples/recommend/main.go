package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
)

// Config holds the parameters of the job.
type Config struct {
	Events  int64         `flag:"events" default:"20000" help:"number of searches, and of clicks"`
	Users   int64         `flag:"users" default:"100" help:"number of users"`
	Rate    int           `flag:"rate" default:"0" help:"searches, and clicks, per second; 0: full speed"`
	Latency time.Duration `flag:"latency" default:"1ms" help:"how long a call of a stand-in takes"`
	Out     string        `flag:"out" default:"recommend-out" help:"directory of the recommendations, one user|time|items per line"`
}

// Search is a record of the first input: a user looks for something.
type Search struct {
	User  int64
	Query string
	At    flow.Time
}

// Time is the event time.
func (s Search) Time() flow.Time { return s.At }

// Activity is what a search says about its user.
func (s Search) Activity() Activity { return Activity{s.User, s.Query, 1} }

// Click is a record of the second input: a user looks at an item.
type Click struct {
	User, Item int64
	At         flow.Time
}

// Time is the event time.
func (c Click) Time() flow.Time { return c.At }

// Activity is what a click says about its user: three times as much as a search.
func (c Click) Activity() Activity {
	return Activity{c.User, "item " + strconv.FormatInt(c.Item, 10), 3}
}

// Activity is a search or a click.
type Activity struct {
	User   int64
	Token  string
	Weight int64
}

// Of is the key.
func (a Activity) Of() int64 { return a.User }

// Profile is what a user has been interested in: the weight of each token.
type Profile struct{ Tokens map[string]int64 }

// interest sums up activities.
type interest struct{}

func (interest) New() map[string]int64 { return map[string]int64{} }

func (interest) Add(m map[string]int64, a Activity) map[string]int64 {
	m[a.Token] += a.Weight
	return m
}

func (interest) Merge(a, b map[string]int64) map[string]int64 {
	for token, weight := range b {
		a[token] += weight
	}
	return a
}

// Result is a copy: the accumulator goes on.
func (interest) Result(m map[string]int64) Profile { return Profile{maps.Clone(m)} }

// Embedded is a profile as a vector.
type Embedded struct {
	User int64
	At   flow.Time // end of the window
	Vec  [dimensions]int64
}

// Candidate is an item with its score.
type Candidate struct{ Item, Score int64 }

// Candidates are items for a user.
type Candidates struct {
	User  int64
	At    flow.Time
	Items []Candidate
}

// Of is the key.
func (c Candidates) Of() int64 { return c.User }

// Merge makes one list of two.
func (c Candidates) Merge(o Candidates) Candidates {
	return Candidates{c.User, c.At, slices.Concat(c.Items, o.Items)}
}

// Ranked are the best items for a user.
type Ranked struct {
	User  int64
	At    flow.Time
	Items []int64
}

func build(p *flow.Pipeline, cfg *Config) error {
	if cfg.Users < 1 || cfg.Events < 0 {
		return fmt.Errorf("%d users and %d events: there must be a user, and no negative number", cfg.Users, cfg.Events)
	}
	models := services{latency: cfg.Latency}
	searches := p.From("searches", generate.Records(cfg.Events, cfg.search, generate.Rate(cfg.Rate)), flow.EventTime(Search.Time, flow.OutOfOrder(disorder)))
	clicks := p.From("clicks", generate.Records(cfg.Events, cfg.click, generate.Rate(cfg.Rate)), flow.EventTime(Click.Time, flow.OutOfOrder(disorder)))
	users := p.From("users", generate.Records(2*cfg.Users, cfg.change), flow.EventTime(Change.Time, flow.OutOfOrder(time.Hour)))

	embedded := searches.Map(Search.Activity).Union(clicks.Map(Click.Activity)).
		KeyBy(Activity.Of).
		Window(flow.Sliding(30*time.Minute, time.Minute)).
		Aggregate(interest{}).ID("profile").
		AsyncMap(models.embed, flow.InFlight(64), flow.Timeout(10*time.Second)).ID("embed")

	near := embedded.AsyncMap(models.near, flow.Unordered()).ID("near")
	trending := embedded.AsyncMap(models.trending, flow.Unordered()).ID("trending")

	near.Union(trending).
		KeyBy(Candidates.Of).
		Window(flow.Tumbling(2*time.Second)).
		Reduce(Candidates.Merge).ID("merge").
		KeyBy(Candidates.Of).
		Connect(users.KeyBy(Change.Of)).
		Process(func() *asOf { return &asOf{} }).ID("user-state").
		AsyncMap(models.rank, flow.Timeout(10*time.Second), flow.AsyncRetry(2, 50*time.Millisecond)).ID("rank").
		To("recommendations", file.Text(cfg.Out, rankedRow))
	return nil
}

func rankedRow(row []byte, r Ranked) []byte {
	row = append(strconv.AppendInt(row, r.User, 10), '|')
	row = append(strconv.AppendInt(row, int64(r.At), 10), '|')
	items := make([]string, len(r.Items))
	for i, item := range r.Items {
		items[i] = strconv.FormatInt(item, 10)
	}
	return append(row, strings.Join(items, ",")...)
}

func main() { flow.Main("recommend", build) }
