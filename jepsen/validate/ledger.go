package validate

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/traffic"
)

// placed is a row of a ledger with where it was read.
type placed struct {
	traffic.Row
	text string
	part string
	line int
}

// ledgerRows are the rows of a job in the order in which they became visible, and those of its windows.
func (f *Facts) ledgerRows(job string, r *Result) (all []placed, spans []traffic.Span, texts []string) {
	for _, n := range f.rows {
		if n.Fact.Job != job {
			continue
		}
		for i, text := range n.Fact.Rows {
			if text == "" {
				continue
			}
			if strings.HasPrefix(n.Fact.Part, "windows") {
				s, err := traffic.ParseSpan(text)
				if err != nil {
					r.fail(n.Line, "%s: %v", n.Fact.Part, err)
					r.near(n.Fact.Rows, i)
				}
				spans = append(spans, s)
				continue
			}
			row, err := traffic.ParseRow(text)
			if err != nil {
				r.fail(n.Line, "%s: %v", n.Fact.Part, err)
				r.near(n.Fact.Rows, i)
				continue
			}
			all = append(all, placed{row, text, n.Fact.Part, n.Line})
			texts = append(texts, text)
		}
	}
	return all, spans, texts
}

// rowsBefore counts the rows of a ledger that were written in epochs before one.
func (f *Facts) rowsBefore(job string, epoch uint64) (n int64) {
	for _, note := range f.rows {
		if of, ok := traffic.EpochOf(note.Fact.Part); note.Fact.Job != job || !ok || of >= epoch || strings.HasPrefix(note.Fact.Part, "windows") {
			continue
		}
		for _, text := range note.Fact.Rows {
			if text != "" {
				n++
			}
		}
	}
	return n
}

// finished: the whole answer is due. A job that has not finished owes only that what it shows is right.
func (f *Facts) finished(w history.Workload) bool {
	return w.Records >= 0 && f.status(w.Job) == "JOB_FINISHED"
}

// rows is I1: a bitmap for each partition.
func rows(f *Facts, r *Result) {
	for _, v := range f.vanished {
		r.fail(v.Line, "job %s: %s was visible and has %s", v.Fact.Job, v.Fact.Part, v.Fact.How)
	}
	for _, w := range f.Workloads {
		all, _, texts := f.ledgerRows(w.Job, r)
		o := traffic.Oracle{Workload: w}
		had := make([]map[int64]bool, w.Partitions)
		for p := range had {
			had[p] = map[int64]bool{}
		}
		for i, row := range all {
			p, seq := row.Partition, row.Seq
			known := p >= 0 && p < w.Partitions && seq >= 0 && (w.Records < 0 || seq < o.Size(p))
			switch {
			case !known || row.Key != o.Key(p, seq):
				r.fail(row.line, "job %s: row %s was invented (%s)", w.Job, row.text, row.part)
			case had[p][seq]:
				r.fail(row.line, "job %s: record %d of partition %d is there twice (%s)", w.Job, seq, p, row.part)
			default:
				had[p][seq] = true
				r.ok()
				continue
			}
			r.near(texts, i)
		}
		if f.finished(w) {
			complete(w, o, had, r)
		}
	}
}

func complete(w history.Workload, o traffic.Oracle, had []map[int64]bool, r *Result) {
	for p := range o.Partitions {
		for seq := range o.Size(p) {
			if !had[p][seq] {
				r.fail(0, "job %s finished without record %d of partition %d (key %d); %d of %d records of it are there", w.Job, seq, p, o.Key(p, seq), len(had[p]), o.Size(p))
				return
			}
		}
		r.ok()
	}
}

// keyed is I2: the rows of a key in the order of their counts are a fold, and the windows are the oracle's.
func keyed(f *Facts, r *Result) {
	for _, w := range f.Workloads {
		all, spans, _ := f.ledgerRows(w.Job, r)
		o := traffic.Oracle{Workload: w}
		for _, of := range byKey(all) {
			sign := int64(0)
			for i, row := range of {
				sign ^= o.Sign(row.Partition, row.Seq)
				if row.Count == int64(i)+1 && row.Sign == sign {
					r.ok()
					continue
				}
				r.fail(row.line, "job %s: key %d: row %s, the fold has count %d and sign %d", w.Job, row.Key, row.text, i+1, sign)
				r.near(textsOf(of), i)
				break
			}
		}
		if f.finished(w) && w.Window > 0 {
			windows(w, o.Fold(), spans, r)
		}
	}
}

func windows(w history.Workload, want traffic.Fold, spans []traffic.Span, r *Result) {
	got := map[[2]int64]int64{}
	for _, s := range spans {
		at := [2]int64{s.Key, s.Start}
		if _, twice := got[at]; twice {
			r.fail(0, "job %s: the window of key %d at %d was emitted twice", w.Job, s.Key, s.Start)
		}
		got[at] = s.Count
		r.that(want.Windows[at] == s.Count, 0, "job %s: window of key %d at %d counts %d, the oracle %d", w.Job, s.Key, s.Start, s.Count, want.Windows[at])
	}
	r.that(maps.Equal(got, want.Windows), 0, "job %s: %d windows, the oracle has %d", w.Job, len(got), len(want.Windows))
}

// byKey sorts rows by key, and those of a key by their counts.
func byKey(all []placed) [][]placed {
	keys := map[int64][]placed{}
	for _, row := range all {
		keys[row.Key] = append(keys[row.Key], row)
	}
	var sorted [][]placed
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		slices.SortStableFunc(keys[k], func(a, b placed) int { return int(a.Count - b.Count) })
		sorted = append(sorted, keys[k])
	}
	return sorted
}

func textsOf(rows []placed) (texts []string) {
	for _, row := range rows {
		texts = append(texts, row.text)
	}
	return texts
}

// order is I3: in the order of a key's counts, which is the order of its committed rows, each partition's numbers rise.
func order(f *Facts, r *Result) {
	for _, w := range f.Workloads {
		all, _, _ := f.ledgerRows(w.Job, r)
		for _, of := range byKey(all) {
			last := map[int64]int64{}
			for i, row := range of {
				was, ok := last[row.Partition]
				if ok && row.Seq <= was {
					r.fail(row.line, "job %s: key %d: record %d of partition %d comes after record %d", w.Job, row.Key, row.Seq, row.Partition, was)
					r.near(textsOf(of), i)
					break
				}
				last[row.Partition] = row.Seq
				r.ok()
			}
		}
	}
}
