package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"time"

	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/validate"
)

//go:embed page.html
var pageText string

// Geometry of the drawings, in units of the SVG.
const (
	width  = 1100.0
	left   = 150.0
	right  = 20.0
	lane   = 18.0
	height = 140.0 // of a plot
)

// drawing is one SVG with its axis.
type drawing struct {
	Height float64
	Lanes  []laneOf
	Bands  []band
	Ticks  []tick
	Lines  []line
	Dots   []dot
	Tops   []tick // at the left: values of a plot
}

type laneOf struct {
	Y    float64
	Name string
	Bars []bar
	Dots []dot
}

type bar struct {
	X, W  float64
	Class string
	Text  string
}

type dot struct {
	X, Y  float64
	Class string
	Text  string
}

type band struct {
	X, W float64
	Text string
}

type tick struct {
	At   float64
	Text string
}

type line struct{ Points string }

// page is what the template shows.
type page struct {
	Results
	Timeline, Rate, Latency drawing
	Faults                  []fault
	Took                    []fault
}

type fault struct {
	What  string
	Count int
}

// scale of time.
type scale struct{ end time.Duration }

func (s scale) x(t time.Duration) float64 {
	if s.end <= 0 {
		return left
	}
	return left + (width-left-right)*float64(t)/float64(s.end)
}

func (s scale) ticks() (all []tick) {
	step := time.Second
	for s.end/step > 12 {
		switch {
		case s.end/step > 60:
			step *= 10
		default:
			step *= 5
		}
	}
	for t := time.Duration(0); t <= s.end; t += step {
		all = append(all, tick{s.x(t), t.String()})
	}
	return all
}

// Page is the report as one HTML document.
func Page(ops []history.Op, r Results) ([]byte, error) {
	f, err := validate.Sort(ops)
	if err != nil {
		return nil, err
	}
	s := scale{f.End}
	p := page{Results: r, Timeline: timeline(f, s), Rate: rate(f, s), Latency: latency(f, s)}
	for _, what := range slices.Sorted(maps.Keys(r.Took)) {
		p.Took = append(p.Took, fault{what, r.Took[what]})
	}
	t, err := template.New("report").Funcs(template.FuncMap{"width": func() float64 { return width }, "left": func() float64 { return left }}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, p)
	return out.Bytes(), err
}

func bands(f *validate.Facts, s scale) (all []band) {
	for _, h := range f.Faults {
		to := h.To
		if !h.Healed {
			to = h.From
		}
		all = append(all, band{s.x(h.From), max(1.5, s.x(to)-s.x(h.From)), fmt.Sprintf("%s %s, %v to %v", h.What, h.Target, round(h.From), round(to))})
	}
	return all
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// timeline has a lane for each target of faults, for terms, for each job's status, attempts, checkpoints, and clients' calls.
func timeline(f *validate.Facts, s scale) drawing {
	d := drawing{Ticks: s.ticks(), Bands: bands(f, s)}
	add := func(l laneOf) {
		l.Y = float64(len(d.Lanes))*lane + 20
		for i := range l.Dots {
			l.Dots[i].Y = l.Y + lane/2
		}
		d.Lanes = append(d.Lanes, l)
	}
	byTarget := map[string][]bar{}
	for _, h := range f.Faults {
		to := h.To
		if !h.Healed {
			to = h.From
		}
		byTarget[h.Target] = append(byTarget[h.Target], bar{s.x(h.From), max(2, s.x(to)-s.x(h.From)), "fault", h.What + " " + round(h.From).String()})
	}
	for _, target := range slices.Sorted(maps.Keys(byTarget)) {
		add(laneOf{Name: target, Bars: byTarget[target]})
	}
	for _, l := range leaders(f, s) {
		add(l)
	}
	for _, l := range lives(f, s) {
		add(l)
	}
	if l := checkpointDots(f, s); len(l.Dots) > 0 {
		add(l)
	}
	for _, l := range calls(f, s) {
		add(l)
	}
	d.Height = float64(len(d.Lanes))*lane + 45
	return d
}

// leaders: a bar for each term that was seen.
func leaders(f *validate.Facts, s scale) []laneOf {
	l := laneOf{Name: "leader's term"}
	var since time.Duration
	var term uint64
	var who string
	flush := func(to time.Duration) {
		if term > 0 {
			l.Bars = append(l.Bars, bar{s.x(since), max(1, s.x(to)-s.x(since)-1), fmt.Sprintf("term%d", term%2), fmt.Sprintf("term %d: %s", term, who)})
		}
	}
	for _, p := range f.Progress {
		if p.Fact.Term > term {
			flush(p.Time)
			since, term, who = p.Time, p.Fact.Term, p.Fact.Leader
		}
	}
	flush(f.End)
	return []laneOf{l}
}

// lives: the status of each job, and a bar for each attempt of each subtask.
func lives(f *validate.Facts, s scale) (lanes []laneOf) {
	type life struct {
		since time.Duration
		is    string
	}
	open := map[string]life{}
	bars := map[string][]bar{}
	var names []string
	change := func(name, is string, at time.Duration) {
		was, ok := open[name]
		if ok && was.is == is {
			return
		}
		if !ok {
			names = append(names, name)
		} else {
			bars[name] = append(bars[name], bar{s.x(was.since), max(1, s.x(at)-s.x(was.since)-1), class(was.is), was.is})
		}
		open[name] = life{at, is}
	}
	for _, p := range f.Progress {
		change(p.Fact.Job, p.Fact.Status, p.Time)
		for _, t := range slices.Sorted(maps.Keys(p.Fact.Attempts)) {
			change(t, fmt.Sprintf("attempt %d", p.Fact.Attempts[t]), p.Time)
		}
	}
	for _, name := range names {
		change(name, "", f.End)
		lanes = append(lanes, laneOf{Name: name, Bars: bars[name]})
	}
	return lanes
}

func class(is string) string {
	switch is {
	case "JOB_RUNNING", "attempt 1":
		return "well"
	case "JOB_FINISHED":
		return "done"
	case "attempt 0", "":
		return "idle"
	}
	return "again"
}

func checkpointDots(f *validate.Facts, s scale) laneOf {
	l := laneOf{Name: "checkpoints"}
	for _, c := range f.Checkpoints {
		l.Dots = append(l.Dots, dot{X: s.x(c.Time), Class: "ok", Text: fmt.Sprintf("%s %d of %s", c.Fact.What, c.Fact.ID, c.Fact.Job)})
	}
	return l
}

// calls of each client, by how they ended.
func calls(f *validate.Facts, s scale) (lanes []laneOf) {
	by := map[string]*laneOf{}
	for _, op := range f.Ops {
		switch op.Kind {
		case history.OK, history.Fail, history.Unknown:
			l := by[op.Client]
			if l == nil {
				l = &laneOf{Name: op.Client}
				by[op.Client] = l
			}
			l.Dots = append(l.Dots, dot{X: s.x(op.Time), Class: string(op.Kind), Text: fmt.Sprintf("%d %s %s %s", op.Index, op.What, short(op.Value), op.Error)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		lanes = append(lanes, *by[name])
	}
	return lanes
}

func short(raw json.RawMessage) string {
	const most = 80
	return string(raw[:min(len(raw), most)])
}

// plot of points below a top.
func (d *drawing) plot(points [][2]float64, top float64, unit string) {
	d.Height = height + 45
	y := func(v float64) float64 { return 20 + height - height*min(1, v/top) }
	for _, share := range []float64{0, 0.5, 1} {
		d.Tops = append(d.Tops, tick{y(top * share), fmt.Sprintf("%.0f %s", top*share, unit)})
	}
	var text bytes.Buffer
	for _, p := range points {
		fmt.Fprintf(&text, "%.1f,%.1f ", p[0], y(p[1]))
	}
	d.Lines = append(d.Lines, line{text.String()})
}

func rate(f *validate.Facts, s scale) drawing {
	d := drawing{Ticks: s.ticks(), Bands: bands(f, s)}
	for _, w := range f.Workloads {
		var points [][2]float64
		top := 1.2 * float64(max(1, w.Rate))
		for _, r := range f.Rates(w.Job) {
			points = append(points, [2]float64{s.x(r.Time), r.PerSecond})
		}
		d.plot(points, top, "/s")
	}
	return d
}

// latency of every call that has an answer, on a scale that ends at its longest.
func latency(f *validate.Facts, s scale) drawing {
	d := drawing{Ticks: s.ticks(), Bands: bands(f, s)}
	begun := map[int]time.Duration{}
	type took struct {
		at, d time.Duration
		op    history.Op
	}
	var all []took
	top := time.Millisecond
	for _, op := range f.Ops {
		switch op.Kind {
		case history.Invoke:
			begun[op.Call] = op.Time
		case history.OK, history.Fail, history.Unknown:
			t := took{op.Time, op.Time - begun[op.Call], op}
			top = max(top, t.d)
			all = append(all, t)
		}
	}
	d.plot(nil, float64(top.Milliseconds()), "ms")
	for _, t := range all {
		d.Dots = append(d.Dots, dot{s.x(t.at), 20 + height - height*float64(t.d)/float64(top), string(t.op.Kind), fmt.Sprintf("%s %v", t.op.What, round(t.d))})
	}
	return d
}
