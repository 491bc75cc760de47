package main

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/flow"
)

// Config holds the parameters of the job.
type Config struct {
	Views    int64         `flag:"views" default:"50000" help:"number of page views"`
	Users    int64         `flag:"users" default:"200" help:"number of users"`
	Gap      time.Duration `flag:"gap" default:"15m" help:"pause that ends a visit"`
	Lateness time.Duration `flag:"lateness" default:"5m" help:"how long after its end a visit takes late views"`
	Out      string        `flag:"out" default:"sessions-out" help:"directory of the visits, one user|start|end|pane|pages per line"`
	Late     string        `flag:"late" default:"sessions-late" help:"directory of the views that came too late"`
}

// View is one record of the input: a user looks at a page.
type View struct {
	User int64
	Page string
	At   flow.Time
}

// By is the key.
func (v View) By() int64 { return v.User }

// Time is the event time.
func (v View) Time() flow.Time { return v.At }

// Visit is a session of a user. A view that comes late, but not too late, makes another one with a higher Pane, which replaces
// the one before.
type Visit struct {
	User       int64
	Start, End flow.Time
	Pane       int
	Pages      []string
}

// tooLate has the views whose visit is over, and forgotten.
var tooLate = flow.NewTag[View]("late")

// visit is called with all views of a visit.
func visit(w flow.Win[int64], views iter.Seq[View], emit func(Visit)) error {
	v := Visit{User: w.Key, Start: w.Start, End: w.End, Pane: w.Pane}
	for view := range views {
		v.Pages = append(v.Pages, view.Page)
	}
	emit(v)
	return nil
}

func build(p *flow.Pipeline, cfg *Config) error {
	if cfg.Users < 1 || cfg.Gap <= 0 {
		return fmt.Errorf("%d users, visits end after %v: both must be positive", cfg.Users, cfg.Gap)
	}
	visits := p.From("views", cfg.views(), flow.EventTime(View.Time, flow.OutOfOrder(time.Minute), flow.EveryRecord())).
		KeyBy(View.By).
		Window(flow.Session(cfg.Gap)).
		AllowedLateness(cfg.Lateness).
		LateTo(tooLate).
		Apply(visit).ID("visits")
	visits.To("out", file.Text(cfg.Out, visitRow))
	visits.SideOutput(tooLate).To("late", file.Text(cfg.Late, viewRow))
	return nil
}

func visitRow(row []byte, v Visit) []byte {
	row = numbers(row, v.User, int64(v.Start), int64(v.End), int64(v.Pane))
	return append(append(row, '|'), strings.Join(v.Pages, " ")...)
}

func viewRow(row []byte, v View) []byte {
	return append(append(numbers(row, v.User, int64(v.At)), '|'), v.Page...)
}

func numbers(row []byte, vs ...int64) []byte {
	for i, v := range vs {
		if i > 0 {
			row = append(row, '|')
		}
		row = strconv.AppendInt(row, v, 10)
	}
	return row
}

func main() { flow.Main("sessions", build) }
