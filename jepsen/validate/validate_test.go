package validate

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/traffic"
)

var workload = history.Workload{Job: "j", Seed: 7, Partitions: 3, Records: 3000, Keys: 11, Window: 100, Rate: 1000, Checkpointed: true}

// ledger writes the rows of a run without a fault: partition by partition, in parts as a sink makes them.
func ledger(w history.Workload) (rows, windows []string) {
	o := traffic.Oracle{Workload: w}
	count, sign := map[int64]int64{}, map[int64]int64{}
	for p := range w.Partitions {
		for seq := range o.Size(p) {
			k := o.Key(p, seq)
			count[k]++
			sign[k] ^= o.Sign(p, seq)
			rows = append(rows, fmt.Sprintf("%d|%d|%d|%d|%d|1", p, seq, k, count[k], sign[k]))
		}
	}
	for at, n := range o.Fold().Windows {
		windows = append(windows, fmt.Sprintf("%d|%d|%d", at[0], at[1], n))
	}
	return rows, windows
}

// tape is a history under construction, with a clock of its own.
type tape struct {
	*history.Recorder
	now time.Time
	buf bytes.Buffer
}

func newTape() *tape {
	t := &tape{now: time.Unix(0, 0)}
	t.Recorder = history.New(&t.buf, func() time.Time { return t.now })
	return t
}

func (t *tape) after(d time.Duration) *tape {
	t.now = t.now.Add(d)
	return t
}

func (t *tape) progress(status string, read int64, attempt uint32, change ...func(p *history.Progress)) {
	p := history.Progress{
		Job: "j", Status: status, Revision: uint64(t.now.UnixMilli()), Term: 1, Read: read,
		Attempts: map[string]uint32{"a[0]": attempt}, Epochs: map[string]uint64{"0": uint64(attempt)},
	}
	for _, c := range change {
		c(&p)
	}
	t.Note(history.NoteProgress, p)
}

func (t *tape) rows(part string, rows []string) {
	t.Note(history.NoteRows, history.Rows{Job: "j", Part: part, Rows: rows})
}

// good is the history of a run in which everything is as it should be: a leader is killed, a job finishes, another is cancelled.
func good(rows, windows []string) *tape {
	t := newTape()
	t.Note(history.NoteWorkload, workload)
	t.Invoke("c", history.Submit, "r1").OK("j")
	t.Note(history.NoteClock, history.Clock{Job: "j", Subtask: "a[0]", Attempt: 1, Watermark: 5})
	for i := range int64(3) {
		t.after(time.Second).progress("JOB_RUNNING", i*1000, 1)
	}
	t.Fault("kill", "coordinator-1")
	t.after(2*time.Second).Fault("start", "coordinator-1")
	t.Note(history.NoteQuiet, nil)
	t.progress("JOB_RUNNING", 2000, 1)
	t.after(time.Second).progress("JOB_RUNNING", 3000, 1)
	t.Note(history.NoteClock, history.Clock{Job: "j", Subtask: "a[0]", Attempt: 1, Watermark: 6})
	for _, node := range []string{"n1", "n2"} {
		t.Note(history.NoteChain, history.Chain{Node: node, Applied: 9, Chain: []byte{1}})
	}
	for _, c := range []history.Checkpoint{
		{ID: 1, What: history.Completed, Micros: 10}, {ID: 1, What: history.Readable}, {ID: 1, What: history.Restored, Micros: 15},
		{ID: 2, What: history.Completed, Micros: 20}, {ID: 2, What: history.Committed, Subtask: "rows[0]", Epoch: 2, Micros: 21},
	} {
		c.Job = "j"
		t.Note(history.NoteCheckpoint, c)
	}
	t.rows("rows/part-00000-0000000002~j~rows~1.2", rows)
	t.rows("windows/part-00000-0000000002~j~windows~1.2", windows)
	t.progress("JOB_FINISHED", 3000, 1)
	t.Note(history.NoteAnswer, history.Answer{Job: "b", Got: "x", Want: "x"})
	t.Note(history.NoteRefusal, history.Refusal{What: "a submit without a quorum", Refused: true})
	t.Note(history.NoteRefusal, history.Refusal{What: "a submit without a right", Refused: true, Access: true})
	t.Invoke("c", history.List, nil).OK([]string{"j"})
	t.Note(history.NoteCensus, history.Census{})
	return t
}

func judge(t *testing.T, tape *tape) map[string]Result {
	t.Helper()
	ops, err := history.Read(&tape.buf)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Judge(ops)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Result{}
	for _, r := range all {
		by[r.ID] = r
	}
	return by
}

func TestAGoodHistoryPassesEveryInvariant(t *testing.T) {
	for id, r := range judge(t, good(ledger(workload))) {
		if r.Verdict != Pass || r.Checked == 0 {
			t.Errorf("%s: %s, %d assertions: %s", id, r.Verdict, r.Checked, r.Detail)
		}
	}
}

func TestEachInvariantFindsWhatBreaksIt(t *testing.T) {
	progress := func(change func(p *history.Progress)) func(*tape) {
		return func(t *tape) { t.after(time.Millisecond).progress("JOB_FINISHED", 3000, 1, change) }
	}
	note := func(name string, v any) func(*tape) { return func(t *tape) { t.Note(name, v) } }
	checkpoint := func(c history.Checkpoint) func(*tape) {
		c.Job = "j"
		return note(history.NoteCheckpoint, c)
	}
	for _, c := range []struct {
		id, name string
		then     func(*tape)
	}{
		{"I1", "what was visible vanishes", note(history.NoteVanished, history.Vanished{Job: "j", Part: "rows/1", How: "removed"})},
		{"I4", "a second job for one request", func(t *tape) { t.Invoke("c", history.Submit, "r1").OK("k") }},
		{"I5", "a completed checkpoint cannot be read", checkpoint(history.Checkpoint{ID: 1, What: history.Unreadable})},
		{"I6", "an id again", checkpoint(history.Checkpoint{ID: 1, What: history.Completed, Micros: 30})},
		{"I6", "a restore from an older one", func(t *tape) {
			checkpoint(history.Checkpoint{ID: 3, What: history.Completed, Micros: 30})(t)
			checkpoint(history.Checkpoint{ID: 2, What: history.Restored, Micros: 31})(t)
		}},
		{"I6", "a start from nothing", checkpoint(history.Checkpoint{What: history.Fresh, Micros: 31})},
		{"I7", "output of an epoch in which nothing was completed since", checkpoint(history.Checkpoint{ID: 1, What: history.Committed, Subtask: "rows[0]", Epoch: 3, Micros: 22})},
		{"I7", "output that no checkpoint can contain", checkpoint(history.Checkpoint{ID: 9, What: history.Committed, Subtask: "rows[0]", Epoch: 2, Micros: 22})},
		{"I7", "output of attempts that were replaced before a checkpoint was complete", checkpoint(history.Checkpoint{ID: 2, What: history.Committed, Subtask: "rows[0]", Epoch: 1, Micros: 22})},
		{"I7", "output before its checkpoint", checkpoint(history.Checkpoint{ID: 2, What: history.Committed, Subtask: "rows[1]", Epoch: 2, Micros: 19})},
		{"I8", "a term falls", progress(func(p *history.Progress) { p.Term = 0 })},
		{"I8", "an attempt falls", progress(func(p *history.Progress) { p.Attempts["a[0]"] = 0 })},
		{"I8", "an epoch falls", progress(func(p *history.Progress) { p.Epochs["0"] = 0 })},
		{"I8", "an old revision is read later", progress(func(p *history.Progress) { p.Revision = 1 })},
		{"I9", "a watermark falls", note(history.NoteClock, history.Clock{Job: "j", Subtask: "a[0]", Attempt: 1, Watermark: 5})},
		{"I9", "something is dropped as late", progress(func(p *history.Progress) { p.Late = 1 })},
		{"I10", "more is read again than had arrived", checkpoint(history.Checkpoint{ID: 2, What: history.Restored, Micros: 31})},
		{"I11", "nobody answers for long", func(t *tape) { t.after(6*time.Second).progress("JOB_RUNNING", 3000, 1) }},
		{"I12", "a chain differs", note(history.NoteChain, history.Chain{Node: "n3", Applied: 9, Chain: []byte{2}})},
		{"I13", "a process is left", note(history.NoteCensus, history.Census{Orphans: []string{"7"}})},
		{"I13", "a slot is left", note(history.NoteCensus, history.Census{Slots: 1})},
		{"I13", "a file is left", note(history.NoteCensus, history.Census{Files: []string{"x"}})},
		{"I14", "an answer differs", note(history.NoteAnswer, history.Answer{Job: "b", Got: "x", Want: "y"})},
		{"I14", "too much ran again", note(history.NoteAnswer, history.Answer{Job: "b", Objection: "too much"})},
		{"I15", "something is accepted that cannot be kept", note(history.NoteRefusal, history.Refusal{What: "x"})},
		{"I15", "an acknowledged job is gone", func(t *tape) { t.Invoke("c", history.List, nil).OK([]string{}) }},
		{"I16", "somebody without a right is served", note(history.NoteRefusal, history.Refusal{What: "x", Access: true})},
		{"I17", "an attempt changes", progress(func(p *history.Progress) { p.Attempts["a[0]"]++ })},
	} {
		tape := good(ledger(workload))
		c.then(tape)
		if r := judge(t, tape)[c.id]; r.Verdict != Fail || r.Detail == "" {
			t.Errorf("%s: %s: %s", c.id, c.name, r.Verdict)
		}
	}
}

func TestWhatIsWrongWithRowsIsFound(t *testing.T) {
	rows, windows := ledger(workload)
	change := func(i int, field int, to string) []string {
		all := slices.Clone(rows)
		f := strings.Split(all[i], "|")
		f[field] = to
		all[i] = strings.Join(f, "|")
		return all
	}
	for _, c := range []struct {
		name          string
		rows, windows []string
		want          string
	}{
		{"a row is lost", slices.Delete(slices.Clone(rows), 5, 6), windows, "I1 I2"},
		{"the last row of a key is lost", rows[:len(rows)-1], windows, "I1"},
		{"a row is doubled", slices.Insert(slices.Clone(rows), 5, rows[5]), windows, "I1 I2 I3"},
		{"a row is invented", append(slices.Clone(rows), "0|99999|1|1|1|1"), windows, "I1 I2 I3"},
		{"a key is wrong", change(9, 2, "10"), windows, "I1 I2 I3"},
		{"a count is wrong", change(2999, 3, "99999"), windows, "I2"},
		{"a sign is wrong", change(2999, 4, "1"), windows, "I2"},
		{"a row is no row", append(slices.Clone(rows), "7"), windows, "I1 I2 I3"},
		{"a window is lost", rows, windows[1:], "I2"},
		{"a window is emitted twice", rows, append(slices.Clone(windows), windows[0]), "I2"},
	} {
		by := judge(t, good(c.rows, c.windows))
		var broken []string
		for _, id := range []string{"I1", "I2", "I3"} {
			if by[id].Verdict == Fail {
				broken = append(broken, id)
			}
		}
		if got := strings.Join(broken, " "); got != c.want {
			t.Errorf("%s: %q found, want %q: %s", c.name, got, c.want, by["I1"].Detail)
		}
	}
	by := judge(t, good(change(1500, 4, "1"), windows))
	if near := by["I2"].Near; len(near) != 11 || !slices.ContainsFunc(near, func(s string) bool { return strings.HasPrefix(s, "▶") }) {
		t.Errorf("the neighbourhood of the bad row is %q", near)
	}
}

func TestAJobThatDoesNotComeBackIsFound(t *testing.T) {
	tape := newTape()
	tape.Note(history.NoteWorkload, history.Workload{Job: "j", Records: -1, Partitions: 1, Keys: 1, Rate: 1000})
	for i := range int64(10) {
		tape.after(time.Second).progress("JOB_RUNNING", i*1000, 1)
	}
	tape.Fault("kill", "worker-1")
	tape.Note(history.NoteQuiet, nil)
	for range 20 {
		tape.after(time.Second).progress("JOB_RUNNING", 9000, 1)
	}
	if r := judge(t, tape)["I11"]; r.Verdict != Fail {
		t.Errorf("a job that reads nothing any more passes: %v", r)
	}
}

func TestNothingSeenIsNoPass(t *testing.T) {
	tape := newTape()
	tape.Invoke("c", history.Submit, "r").Unknown(errors.New("lost"))
	for id, r := range judge(t, tape) {
		if r.Verdict == Pass && id != "I4" || r.Verdict == Fail {
			t.Errorf("%s: %s of an empty history", id, r.Verdict)
		}
	}
	tape = newTape()
	tape.Note(history.NoteChain, history.Chain{Node: "n1", Applied: 1, Chain: []byte{1}})
	if r := judge(t, tape)["I12"]; r.Verdict != Unknown {
		t.Errorf("one chain alone is %s", r.Verdict)
	}
}

func TestTheLedgerOfTheOracleIsTheWholeInput(t *testing.T) {
	for _, records := range []int64{0, 1, 255, 256, 257, 1000, 3000} {
		w := workload
		w.Records = records
		rows, _ := ledger(w)
		if int64(len(rows)) != records {
			t.Errorf("%d records, the partitions have %d", records, len(rows))
		}
	}
}
