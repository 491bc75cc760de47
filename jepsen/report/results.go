package report

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/validate"
)

// Verdict of a run.
type Verdict string

const (
	Valid   Verdict = "valid"
	Invalid Verdict = "invalid"
	Unknown Verdict = "unknown"
	Skipped Verdict = "skipped"
)

// Exit code of a command whose worst verdict this is.
func (v Verdict) Exit() int {
	switch v {
	case Valid, Skipped:
		return 0
	case Invalid:
		return 1
	}
	return 2
}

// Worse of two verdicts: invalid before unknown before valid.
func Worse(a, b Verdict) Verdict {
	order := []Verdict{Invalid, Unknown, Valid, Skipped}
	if slices.Index(order, b) < slices.Index(order, a) {
		return b
	}
	return a
}

// resultsVersion of the form of results.json. Fields are added, never renamed.
const resultsVersion = 1

// Recovery times of one kind of fault.
type Recovery struct {
	Fault  string  `json:"fault"`
	Count  int     `json:"count"`
	Felt   int     `json:"felt"` // of them, by the workload
	Median float64 `json:"median_s"`
	P99    float64 `json:"p99_s"`
}

// Results of one run: what results.json holds.
type Results struct {
	Version    int               `json:"version"`
	Scenario   string            `json:"scenario"`
	Number     int               `json:"number,omitempty"`
	Seed       uint64            `json:"seed"`
	Command    string            `json:"command"`
	Verdict    Verdict           `json:"verdict"`
	Reason     string            `json:"reason,omitempty"` // of unknown and skipped
	Seconds    float64           `json:"seconds"`
	Took       map[string]int    `json:"faults"` // that took effect, by kind
	Calls      int               `json:"calls"`
	Records    int64             `json:"records"` // of workloads, judged
	Recoveries []Recovery        `json:"recoveries,omitempty"`
	Invariants []validate.Result `json:"invariants"`
}

// Judge a history. harness is why the run itself failed, if it did; then nothing is valid.
func Judge(ops []history.Op, harness error) (r Results, err error) {
	f, err := validate.Sort(ops)
	if err != nil {
		return r, err
	}
	r = Results{
		Version: resultsVersion, Scenario: f.Run.Scenario, Number: f.Run.Number, Seed: f.Run.Seed, Command: f.Run.Command, Verdict: Valid,
		Seconds: f.End.Seconds(), Took: map[string]int{}, Recoveries: recoveries(f),
	}
	if r.Invariants, err = validate.Judge(ops); err != nil {
		return r, err
	}
	for _, h := range f.Faults {
		r.Took[h.What]++
	}
	for _, op := range ops {
		if op.Kind == history.Invoke {
			r.Calls++
		}
	}
	for _, w := range f.Workloads {
		r.Records += max(0, w.Records)
	}
	var open, broken []string
	for _, i := range r.Invariants {
		switch must := slices.Contains(f.Run.Judged, i.ID); {
		case i.Verdict == validate.Fail:
			broken = append(broken, i.ID+": "+i.Detail)
		case must && i.Verdict != validate.Pass:
			open = append(open, fmt.Sprintf("%s is %s: %s", i.ID, i.Verdict, i.Detail))
		}
	}
	switch {
	case len(broken) > 0:
		if harness != nil {
			broken = append(broken, harness.Error())
		}
		r.Verdict, r.Reason = Invalid, strings.Join(broken, "; ")
	case harness != nil:
		r.Verdict, r.Reason = Unknown, harness.Error()
	case len(open) > 0:
		r.Verdict, r.Reason = Unknown, strings.Join(open, "; ")
	}
	return r, nil
}

func recoveries(f *validate.Facts) (all []Recovery) {
	took := map[string][]time.Duration{}
	count := map[string]int{}
	var kinds []string
	for _, w := range f.Workloads {
		if w.Rate <= 0 {
			continue
		}
		for _, r := range f.Recoveries(w) {
			kind := r.Fault.What
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
			count[kind]++
			if r.Took > 0 {
				took[kind] = append(took[kind], r.Took)
			}
		}
	}
	for _, kind := range kinds {
		of := took[kind]
		slices.Sort(of)
		r := Recovery{Fault: kind, Count: count[kind], Felt: len(of)}
		if n := len(of); n > 0 {
			r.Median, r.P99 = of[n/2].Seconds(), of[(n*99+99)/100-1].Seconds()
		}
		all = append(all, r)
	}
	return all
}

// Write results.json and report.html into a directory.
func Write(dir string, ops []history.Op, r Results) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := vfs.Publish(vfs.OS{}, filepath.Join(dir, "results.json"), append(text, '\n')); err != nil {
		return err
	}
	page, err := Page(ops, r)
	if err != nil {
		return err
	}
	return vfs.Publish(vfs.OS{}, filepath.Join(dir, "report.html"), page)
}
