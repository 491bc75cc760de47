package bench

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

// Report is what was measured of a case. Figures are medians over the runs.
type Report struct {
	Case        string  `json:"case"`
	Mode        string  `json:"mode"`
	Topology    string  `json:"topology"`
	Parallelism int     `json:"parallelism"`
	Procs       int     `json:"gomaxprocs"`
	Events      int64   `json:"events"`
	Repeats     int     `json:"repeats"`
	PerSecond   float64 `json:"eventsPerSecond"`
	PerCPU      float64 `json:"eventsPerCpuSecond"`
	// Ratio is the speed of the engine over that of the loop, pair by pair, by CPU time; 0: there is no loop.
	Ratio     float64 `json:"ratioToLoop,omitempty"`
	LeastPair float64 `json:"leastRatio,omitempty"`
	LoopNs    float64 `json:"loopNsPerEvent,omitempty"`
	Ns        float64 `json:"nsPerEvent"` // CPU time
	Allocs    float64 `json:"allocationsPerEvent"`
	Resident  int64   `json:"residentBytes"`
	Rows      int64   `json:"rows"`
	Digest    string  `json:"digest"`
	// Judged: the canonical digest of an untimed run is the one that other programs have computed.
	Judged  bool     `json:"judged"`
	Latency *Latency `json:"latencyMs,omitempty"`
	// Before is the rate per CPU second of the file that this is compared with, 0: it does not have the case.
	Before float64 `json:"eventsPerCpuSecondBefore,omitempty"`
}

func (o *Options) report(c Case, runs, loops []Run) *Report {
	over := func(f func(Run) float64) float64 { return median(runs, f) }
	r := &Report{
		Case: c.Name, Mode: runs[0].Mode, Topology: "embedded", Parallelism: o.Parallelism, Procs: o.procs(), Events: runs[0].Events, Repeats: len(runs),
		PerSecond: over(func(r Run) float64 { return float64(r.Events) / r.Seconds }),
		PerCPU:    over(func(r Run) float64 { return float64(r.Events) / r.CPU }),
		Ns:        over(ns), Allocs: over(func(r Run) float64 { return float64(r.Allocs) / float64(r.Events) }),
		Resident: int64(over(func(r Run) float64 { return float64(r.Resident) })),
		Rows:     runs[0].Rows, Digest: runs[0].Sum, Judged: c.judged,
	}
	if c.verb == "cost" {
		r.Topology, r.Parallelism = "loop", 1
	}
	if loops != nil {
		pairs := make([]float64, len(runs))
		for i := range runs {
			pairs[i] = loops[i].CPU / runs[i].CPU
		}
		slices.Sort(pairs)
		r.Ratio, r.LeastPair, r.LoopNs = pairs[len(pairs)/2], pairs[0], median(loops, ns)
	}
	if runs[0].Latency != nil {
		r.Latency = latency(runs)
	}
	return r
}

func ns(r Run) float64 { return r.CPU / float64(r.Events) * 1e9 }

// latency is the run with the median 99th percentile: percentiles of different runs are no distribution.
func latency(runs []Run) *Latency {
	all := slices.Clone(runs)
	slices.SortFunc(all, func(a, b Run) int { return cmp.Compare(a.Latency.P99, b.Latency.P99) })
	return all[len(all)/2].Latency
}

func median(runs []Run, f func(Run) float64) float64 {
	vs := make([]float64, len(runs))
	for i, r := range runs {
		vs[i] = f(r)
	}
	slices.Sort(vs)
	return vs[len(vs)/2]
}

// Compare fills in what an earlier JSON report says of the same cases.
func Compare(reports []*Report, earlier io.Reader) error {
	var before []*Report
	if err := json.NewDecoder(earlier).Decode(&before); err != nil {
		return fmt.Errorf("earlier report: %w", err)
	}
	for _, r := range reports {
		for _, b := range before {
			if b.Case == r.Case && b.Parallelism == r.Parallelism && b.Topology == r.Topology {
				r.Before = b.PerCPU
			}
		}
	}
	return nil
}

// WriteJSON writes reports as one array.
func WriteJSON(w io.Writer, reports []*Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(reports)
}

// columns of a table, for people or as CSV.
var columns = []struct {
	name string
	of   func(*Report) string
}{
	{"case", func(r *Report) string { return r.Case }},
	{"mode", func(r *Report) string { return r.Mode }},
	{"topology", func(r *Report) string { return r.Topology }},
	{"p", func(r *Report) string { return strconv.Itoa(r.Parallelism) }},
	{"events", func(r *Report) string { return strconv.FormatInt(r.Events, 10) }},
	{"M/s", func(r *Report) string { return millions(r.PerSecond) }},
	{"M/CPU-s", func(r *Report) string { return millions(r.PerCPU) }},
	{"ns", func(r *Report) string { return decimal(r.Ns, 1) }},
	{"loop ns", func(r *Report) string { return unless0(r.LoopNs, 1) }},
	{"ratio", func(r *Report) string { return unless0(r.Ratio, 2) }},
	{"least", func(r *Report) string { return unless0(r.LeastPair, 2) }},
	{"allocs", func(r *Report) string { return decimal(r.Allocs, 3) }},
	{"MiB", func(r *Report) string { return strconv.FormatInt(r.Resident>>20, 10) }},
	{"p50 ms", func(r *Report) string { return r.ms(func(l *Latency) float64 { return l.P50 }) }},
	{"p99", func(r *Report) string { return r.ms(func(l *Latency) float64 { return l.P99 }) }},
	{"p99.9", func(r *Report) string { return r.ms(func(l *Latency) float64 { return l.P999 }) }},
	{"p99.99", func(r *Report) string { return r.ms(func(l *Latency) float64 { return l.P9999 }) }},
	{"before", func(r *Report) string {
		if r.Before == 0 {
			return ""
		}
		return decimal(r.PerCPU/r.Before, 2) + "×"
	}},
	{"rows", func(r *Report) string { return strconv.FormatInt(r.Rows, 10) }},
	{"digest", func(r *Report) string { return r.Digest }},
}

func decimal(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
func millions(v float64) string            { return decimal(v/1e6, 2) }

func unless0(v float64, digits int) string {
	if v == 0 {
		return ""
	}
	return decimal(v, digits)
}

func (r *Report) ms(f func(*Latency) float64) string {
	if r.Latency == nil {
		return ""
	}
	return decimal(f(r.Latency), 2)
}

// WriteCSV writes a line per report, under the names of the columns.
func WriteCSV(w io.Writer, reports []*Report) error {
	out := csv.NewWriter(w)
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.name
	}
	err := out.Write(line)
	for _, r := range reports {
		for i, c := range columns {
			line[i] = c.of(r)
		}
		err = cmp.Or(err, out.Write(line))
	}
	out.Flush()
	return cmp.Or(err, out.Error())
}

// WriteTable writes those columns that say something.
func WriteTable(w io.Writer, reports []*Report) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := -1; i < len(reports); i++ {
		for _, c := range columns {
			if !slices.ContainsFunc(reports, func(r *Report) bool { return c.of(r) != "" }) {
				continue
			}
			text := c.name
			if i >= 0 {
				text = c.of(reports[i])
			}
			fmt.Fprint(out, text, "\t")
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}
