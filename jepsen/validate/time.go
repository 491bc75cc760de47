package validate

import (
	"slices"
	"time"

	"github.com/sluiceio/sluice/jepsen/history"
)

// clocks is I9.
func clocks(f *Facts, r *Result) {
	type place struct {
		job, subtask string
		attempt      uint32
	}
	const never, forever = -1 << 63, 1<<63 - 1
	last := map[place]int64{}
	for _, c := range f.clocks {
		at := place{c.Fact.Job, c.Fact.Subtask, c.Fact.Attempt}
		if was, ok := last[at]; ok {
			r.that(c.Fact.Watermark >= was, c.Line, "job %s: %s, attempt %d: watermark %d after %d", at.job, at.subtask, at.attempt, c.Fact.Watermark, was)
		}
		last[at] = max(c.Fact.Watermark, never)
		if !c.Fact.Ended && f.endless(at.job) {
			r.that(c.Fact.Watermark < forever, c.Line, "job %s: %s, attempt %d: end of time before the end", at.job, at.subtask, at.attempt)
		}
	}
	for _, p := range f.Progress {
		if f.onTime(p.Fact.Job) {
			r.that(p.Fact.Late == 0, p.Line, "job %s: %d records were dropped as late, none was", p.Fact.Job, p.Fact.Late)
		}
	}
}

func (f *Facts) endless(job string) bool {
	return slices.ContainsFunc(f.Workloads, func(w history.Workload) bool { return w.Job == job && w.Records < 0 })
}

func (f *Facts) onTime(job string) bool {
	return slices.ContainsFunc(f.Workloads, func(w history.Workload) bool { return w.Job == job && !w.Late })
}

// The budget of I11.
const (
	backWithin = 15 * time.Second
	stopAtMost = 5 * time.Second
	share      = 0.9
	blink      = time.Second // what looks may be apart without meaning anything
)

// Rate of a job at a look.
type Rate struct {
	Time      time.Duration
	Status    string
	PerSecond float64
}

// Rates of a job: what its sources have read between two looks that are about a second apart. What is read again after a restart counts
// as read.
func (f *Facts) Rates(job string) (all []Rate) {
	var was *seen[history.Progress]
	for i := range f.Progress {
		p := &f.Progress[i]
		if p.Fact.Job != job {
			continue
		}
		if was == nil {
			was = p
			continue
		}
		if p.Time-was.Time < blink {
			continue
		}
		read := p.Fact.Read - was.Fact.Read
		if read < 0 { // from the beginning
			read = p.Fact.Read
		}
		all = append(all, Rate{p.Time, p.Fact.Status, float64(read) / (p.Time - was.Time).Seconds()})
		was = p
	}
	return all
}

// Recovery is how long a fault was felt: from its beginning to the first look at which the job ran at its rate again.
type Recovery struct {
	Fault history.Hurts
	Took  time.Duration
	Back  bool
}

// Recoveries of a workload with a steady rate, for each fault that was felt or not.
func (f *Facts) Recoveries(w history.Workload) (all []Recovery) {
	rates := f.Rates(w.Job)
	for _, h := range f.Faults {
		rec := Recovery{Fault: h}
		felt := false
		for _, x := range rates {
			if x.Time <= h.From {
				continue
			}
			well := x.Status == "JOB_RUNNING" && x.PerSecond >= share*float64(w.Rate)
			if well && (felt || x.Time > h.From+2*blink) {
				if rec.Back = true; felt {
					rec.Took = x.Time - h.From
				}
				break
			}
			felt = felt || !well
		}
		all = append(all, rec)
	}
	return all
}

// recovery is I11.
func recovery(f *Facts, r *Result) {
	for _, w := range f.Workloads {
		if w.Rate <= 0 || f.Quiet == 0 {
			continue
		}
		f.back(w, r)
	}
	f.gaps(r)
}

// back: within the budget after the last fault the job ran at its rate, or had ended.
func (f *Facts) back(w history.Workload, r *Result) {
	for _, p := range f.Progress {
		if p.Fact.Job == w.Job && p.Fact.Status == "JOB_FINISHED" && p.Time <= f.Quiet+backWithin {
			r.ok()
			return
		}
	}
	best := 0.0
	for _, x := range f.Rates(w.Job) {
		if x.Time <= f.Quiet || x.Time > f.Quiet+backWithin+blink {
			continue
		}
		if best = max(best, x.PerSecond); x.Status == "JOB_RUNNING" && x.PerSecond >= share*float64(w.Rate) {
			r.ok()
			return
		}
	}
	r.fail(0, "job %s: within %v after the last fault it read at most %.0f of %d records per second; it was %s", w.Job, backWithin, best, w.Rate, f.status(w.Job))
}

// gaps: while there are faults one at a time, answers to reads of the newest facts are never missing for longer than the budget. A
// fault that lasts stops the cluster only as long as it takes to notice it.
func (f *Facts) gaps(r *Result) {
	last := time.Duration(-1)
	for _, p := range f.Progress {
		if last >= 0 && !f.manyDown(last, p.Time) {
			r.that(p.Time-last <= stopAtMost, p.Line, "nobody answered from %v to %v", last.Round(time.Millisecond), p.Time.Round(time.Millisecond))
		}
		last = p.Time
	}
}

// manyDown: more than one fault lasted at some moment between, or one of all coordinators. Then no budget is promised.
func (f *Facts) manyDown(from, to time.Duration) bool {
	n := 0
	for _, h := range f.Faults {
		end := h.To
		if !h.Healed {
			end = f.End
		}
		if h.From < to && end > from {
			n++
		}
	}
	return n > 1
}
