package validate

import (
	"fmt"

	"github.com/sluiceio/sluice/jepsen/history"
)

// Verdict on one invariant.
type Verdict string

const (
	Pass      Verdict = "pass"
	Fail      Verdict = "fail"
	Unknown   Verdict = "unknown"
	NotJudged Verdict = "not judged"
)

// Result of one checker.
type Result struct {
	ID      string  `json:"id"`
	Promise string  `json:"promise"`
	Verdict Verdict `json:"verdict"`
	Checked int     `json:"checked"` // single assertions
	Detail  string  `json:"detail,omitempty"`
	Line    int     `json:"line,omitempty"` // of the history, where it goes wrong
	// Near are the rows around the first that is wrong, that one marked.
	Near []string `json:"near,omitempty"`
}

// checker of one invariant.
type checker struct {
	id, promise string
	check       func(f *Facts, r *Result)
}

func checkers() []checker {
	return []checker{
		{"I1", "committed rows are those of the oracle: none lost, doubled or invented, and what was visible stays", rows},
		{"I2", "keyed state is that of the oracle, and the count of a key runs without gap or repeat", keyed},
		{"I3", "numbers rise by partition and key in committed order", order},
		{"I4", "calls of clients are linearizable; one request id is one job; what has ended stays so", linearizable},
		{"I5", "every completed checkpoint can be read", readable},
		{"I6", "completed ids rise; a restart uses the newest completed one, and never nothing if there is one", newest},
		{"I7", "at most one attempt's commit of a checkpoint has effect", onceOnly},
		{"I8", "terms, epochs and attempts never fall", fences},
		{"I9", "watermarks never fall while an attempt lives, and nothing is late that was not made late", clocks},
		{"I10", "what is read again arrived after the newest completed checkpoint", reread},
		{"I11", "running at nine tenths of the rate 15 s after the last fault; nothing stops the cluster for more than 5 s", recovery},
		{"I12", "equal index, equal hash chain, on every coordinator", chains},
		{"I13", "after quiet there is no orphan process, slot or temporary file", census},
		{"I14", "answers of bounded jobs are the oracle's, and what ran again is what the rules say", answers},
		{"I15", "what cannot be kept is refused or said to have failed; what was acknowledged is kept", loud},
		{"I16", "wrong or missing credentials are refused", access},
		{"I17", "loss of coordinators changes no attempt", untouched},
	}
}

// IDs of all invariants, with their promises.
func IDs() (ids, promises []string) {
	for _, c := range checkers() {
		ids, promises = append(ids, c.id), append(promises, c.promise)
	}
	return ids, promises
}

// Judge every invariant.
func Judge(ops []history.Op) ([]Result, error) {
	f, err := Sort(ops)
	if err != nil {
		return nil, err
	}
	var all []Result
	for _, c := range checkers() {
		r := Result{ID: c.id, Promise: c.promise, Verdict: NotJudged}
		c.check(f, &r)
		all = append(all, r)
	}
	return all, nil
}

// ok counts an assertion that holds.
func (r *Result) ok() {
	if r.Checked++; r.Verdict == NotJudged {
		r.Verdict = Pass
	}
}

// fail notes the first contradiction; later ones change nothing.
func (r *Result) fail(line int, format string, args ...any) {
	r.Checked++
	if r.Verdict != Fail {
		r.Verdict, r.Line, r.Detail = Fail, line, fmt.Sprintf(format, args...)
	}
}

// unknown is weaker than a failure.
func (r *Result) unknown(format string, args ...any) {
	if r.Verdict != Fail {
		r.Verdict, r.Detail = Unknown, fmt.Sprintf(format, args...)
	}
}

// that counts an assertion, or notes that it does not hold.
func (r *Result) that(holds bool, line int, format string, args ...any) {
	if holds {
		r.ok()
		return
	}
	r.fail(line, format, args...)
}

// near keeps the rows around row i of the failure just noted.
func (r *Result) near(texts []string, i int) {
	if r.Near != nil {
		return
	}
	const around = 5
	for k := max(0, i-around); k < min(len(texts), i+around+1); k++ {
		mark := "  "
		if k == i {
			mark = "▶ "
		}
		r.Near = append(r.Near, mark+texts[k])
	}
}
