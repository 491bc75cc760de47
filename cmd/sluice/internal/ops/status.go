package ops

import (
	"context"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// StatusOptions of Status and Watch.
type StatusOptions struct {
	Job       string
	Freshness Freshness
	Detail    Detail
	Every     time.Duration // Watch only
}

// Detail of a table.
type Detail int

// The details.
const (
	Summary  Detail = iota // one line per chain of operators
	Subtasks               // one line per subtask
)

func jobStatus(ctx context.Context, s *Session, o StatusOptions) (*apipb.StatusResponse, error) {
	var resp *apipb.StatusResponse
	err := s.Client.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Jobs.Status(ctx, &apipb.StatusRequest{Job: o.Job, Stale: o.Freshness == Stale})
		return err
	})
	return resp, err
}

// Status shows one job.
func Status(ctx context.Context, s *Session, o StatusOptions) error {
	resp, err := jobStatus(ctx, s, o)
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) { statusTable(w, s, resp, nil, o.Detail) })
}

// clearScreen homes the cursor and clears what is below it.
const clearScreen = "\x1b[H\x1b[J"

// Watch shows one job again and again, until it has ended. In JSON it is one document per line.
func Watch(ctx context.Context, s *Session, o StatusOptions) error {
	var before *sample
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for {
		resp, err := jobStatus(ctx, s, o)
		if err != nil {
			return err
		}
		now := &sample{at: s.Now(), counters: chainCounters(resp)}
		if err := s.repaint(resp, before, o.Detail); err != nil {
			return err
		}
		before = now
		if terminal(resp.Status) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Session) repaint(resp *apipb.StatusResponse, before *sample, detail Detail) error {
	if s.Format == JSON {
		return s.printJSONLine(resp)
	}
	lines := aligned(func(w *tabwriter.Writer) { statusTable(w, s, resp, before, detail) })
	text := strings.Join(lines, "\n")
	switch {
	case s.Terminal == Screen:
		text = clearScreen + text
	case before != nil:
		text = "\n" + text
	}
	return s.write(text)
}

// sample is what rates are computed from.
type sample struct {
	at       time.Time
	counters map[int32]totals
}

// totals of one chain over its subtasks.
type totals struct {
	in, out                   int64
	busy, idle, backpressured int64
	watermark                 int64 // the lowest; MaxInt64 without any
	subtasks, running, known  int
	again                     int // executions beyond the first of each subtask
	spilledBytes              int64
	spilledRecords            int64
	spillFiles, spillDepth    int64
	late, skipped, letters    int64
	states                    map[jobpb.SubtaskState]int
}

func chainCounters(j *apipb.StatusResponse) map[int32]totals {
	all := map[int32]totals{}
	for _, t := range j.Subtasks {
		sum, ok := all[t.Chain]
		if !ok {
			sum = totals{watermark: math.MaxInt64, states: map[jobpb.SubtaskState]int{}}
		}
		sum.subtasks++
		sum.states[t.State]++
		sum.again += again(t)
		if t.State == jobpb.SubtaskState_SUBTASK_RUNNING {
			sum.running++
		}
		if c := t.Counters; c != nil {
			sum.add(c)
		}
		all[t.Chain] = sum
	}
	return all
}

func (t *totals) add(c *taskpb.Counters) {
	t.known++
	t.in += c.RecordsIn
	t.out += c.RecordsOut
	t.busy += c.BusyUs
	t.idle += c.IdleUs
	t.backpressured += c.BackpressuredUs
	t.watermark = min(t.watermark, c.WatermarkUs)
	t.spilledBytes += c.SpilledBytes
	t.spilledRecords += c.SpilledRecords
	t.spillFiles += c.SpillFiles
	t.late += c.Late
	t.skipped += c.ErrorsSkipped
	t.letters += c.DeadLetters
	t.spillDepth = max(t.spillDepth, int64(c.SpillDepth))
}

// statusLine is the one line about a job.
func statusLine(w *tabwriter.Writer, s *Session, j *apipb.StatusResponse) {
	_, _ = fmt.Fprintf(w, "%s  %s  ran %s  restarts %d  losses %d", j.Id, enum(j.Status), ran(j.StartedUs, j.EndedUs, s.Now()), j.Restarts, j.Losses) // a buffer, like below
	if j.Message != "" {
		_, _ = fmt.Fprintf(w, "  (%s)", j.Message)
	}
	_, _ = fmt.Fprintln(w)
	if n, f := j.CheckpointFailures, j.CheckpointFailure; n > 0 {
		_, _ = fmt.Fprintf(w, "checkpoints given up in a row: %d, the last one with %s: %s\n", n, f.GetCode(), f.GetMessage())
	}
}

func statusTable(w *tabwriter.Writer, s *Session, j *apipb.StatusResponse, before *sample, detail Detail) {
	statusLine(w, s, j)
	if len(j.Subtasks) > 0 {
		_, _ = fmt.Fprintln(w)
		if detail == Subtasks {
			subtaskTable(w, j)
		} else {
			chainTable(w, s, j, before)
		}
		spillTable(w, j)
		droppedTable(w, j)
		userTable(w, j)
	}
	regionTable(w, j)
	edgeTable(w, j)
	endTables(w, j)
}

// endTables are the lines behind the tables.
func endTables(w *tabwriter.Writer, j *apipb.StatusResponse) {
	if len(j.Sinks)+len(j.Warnings)+len(j.Failures) > 0 || j.Failure != nil {
		_, _ = fmt.Fprintln(w)
	}
	for _, k := range j.Sinks {
		_, _ = fmt.Fprintf(w, "sink %s is %s\n", k.Operator, strings.ToLower(enum(k.Guarantee)))
	}
	for _, d := range j.Warnings {
		_, _ = fmt.Fprintf(w, "warning %s: %s\n", d.Code, d.Message)
	}
	for _, f := range j.Failures {
		if !proto.Equal(f, j.Failure) { // the root cause comes last
			failureLines(w, clock(f.TimeUs), f)
		}
	}
	if j.Failure != nil {
		failureLines(w, "failure", j.Failure)
	}
	if n := jobpb.SameRecord(j.Failures); n > 0 {
		_, _ = fmt.Fprintf(w, "it fails at the same record on every attempt (%d so far)\n", n)
	}
	note(w, j.Read)
}

func chainTable(w *tabwriter.Writer, s *Session, j *apipb.StatusResponse, before *sample) {
	now := sample{at: s.Now(), counters: chainCounters(j)}
	if before == nil {
		row(w, "OPERATORS", "RUNNING", "STATE", "RE-RUN", "IN", "OUT", "BUSY", "BACKPR", "WATERMARK")
	} else {
		row(w, "OPERATORS", "RUNNING", "STATE", "RE-RUN", "IN/s", "OUT/s", "BUSY", "BACKPR", "WATERMARK")
	}
	for _, t := range heads(j) {
		c := now.counters[t.Chain]
		in, out := amount(c.in), amount(c.out)
		if before != nil {
			earlier := before.counters[t.Chain]
			in, out = rate(c.in-earlier.in, now.at.Sub(before.at)), rate(c.out-earlier.out, now.at.Sub(before.at))
			c.busy, c.idle, c.backpressured = c.busy-earlier.busy, c.idle-earlier.idle, c.backpressured-earlier.backpressured
		}
		if c.known == 0 {
			in, out = "-", "-"
		}
		row(w, t.Operator, fmt.Sprintf("%d/%d", c.running, c.subtasks), states(c.states), c.again, in, out, share(c.busy, c), share(c.backpressured, c), watermark(c))
	}
}

// rate is records per second. A new attempt starts counting anew, which is no negative rate.
func rate(n int64, d time.Duration) string {
	if d <= 0 || n < 0 {
		return "-"
	}
	return amount(int64(float64(n) / d.Seconds()))
}

func share(part int64, c totals) string {
	whole := c.busy + c.idle + c.backpressured
	if whole <= 0 || part < 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", 100*part/whole)
}

func watermark(c totals) string {
	switch {
	case c.known == 0 || c.watermark == math.MinInt64:
		return "-"
	case c.watermark == math.MaxInt64:
		return "end"
	}
	return clock(c.watermark)
}

func failureLines(w *tabwriter.Writer, title string, f *jobpb.Failure) {
	lines := strings.Split(strings.TrimRight(failureText(f), "\n"), "\n")
	_, _ = fmt.Fprintf(w, "%s %s: %s", title, f.Code, lines[0])
	if f.Position != "" {
		_, _ = fmt.Fprintf(w, " at %s", f.Position)
	}
	if f.Worker != "" {
		_, _ = fmt.Fprintf(w, " (worker %s)", short(f.Worker))
	}
	_, _ = fmt.Fprintln(w)
	for _, l := range lines[1:] {
		_, _ = fmt.Fprintln(w, "  "+l)
	}
}
