package ops

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Freshness says whether an answer without a leader is good enough.
type Freshness int

// The kinds of reads.
const (
	Fresh Freshness = iota
	Stale           // any coordinator answers from what it has applied
)

// ListOptions of List.
type ListOptions struct {
	Freshness Freshness
	Status    []jobpb.JobStatus // empty: all
}

// List shows the jobs.
func List(ctx context.Context, s *Session, o ListOptions) error {
	var resp *apipb.ListResponse
	err := s.Client.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Jobs.List(ctx, &apipb.ListRequest{Stale: o.Freshness == Stale, Status: o.Status})
		return err
	})
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) {
		row(w, "JOB", "STATUS", "SUBTASKS", "RESTARTS", "CREATED", "RAN", "MESSAGE")
		for _, j := range resp.Jobs {
			row(w, j.Id, enum(j.Status), subtasks(j), j.Restarts,
				clock(j.CreatedUs), ran(j.StartedUs, j.EndedUs, s.Now()), summaryMessage(j))
		}
		note(w, resp.Read)
	})
}

// subtasks are how many of them run, of how many; of a job that has ended only the latter.
func subtasks(j *apipb.JobSummary) string {
	if terminal(j.Status) {
		return strconv.Itoa(int(j.Subtasks))
	}
	return fmt.Sprintf("%d/%d", j.Running, j.Subtasks)
}

// messageWidth is how much of a job's message a table of jobs shows, in characters.
const messageWidth = 100

// summaryMessage is what a job waits for, or why it failed.
func summaryMessage(j *apipb.JobSummary) string {
	text := j.Message
	if j.FailureCode != "" {
		text = j.FailureCode + ": " + j.FailureLine
	}
	if r := []rune(text); len(r) > messageWidth {
		text = string(r[:messageWidth-1]) + "…"
	}
	return text
}

// note ends a table with a line about its age.
func note(w *tabwriter.Writer, r *apipb.ReadInfo) {
	if text := staleNote(r); text != "" {
		_, _ = fmt.Fprintf(w, "\n%s\n", text) // a buffer
	}
}

// terminal: the job can change no more.
func terminal(s jobpb.JobStatus) bool {
	switch s {
	case jobpb.JobStatus_JOB_FINISHED, jobpb.JobStatus_JOB_FAILED, jobpb.JobStatus_JOB_CANCELLED, jobpb.JobStatus_JOB_STOPPED:
		return true
	}
	return false
}

// WaitOptions of Wait.
type WaitOptions struct {
	Job   string
	Until []jobpb.JobStatus // besides the end of the job
}

// waitTime is how long one coordinator is asked to wait at a time. A connection that died in silence costs that much.
const waitTime = 20 * time.Second

// Wait waits for the end of a job, or one of the statuses, and shows its state then. A job that failed or was
// cancelled is an error.
func Wait(ctx context.Context, s *Session, o WaitOptions) error {
	resp, err := await(ctx, s.Client, o)
	if errors.Is(ctx.Err(), context.Canceled) {
		return &Fault{
			Exit: ExitInterrupted, Err: fmt.Errorf("interrupted; job %s goes on", o.Job), Where: o.Job,
			Hints: []string{"sluice wait " + o.Job + " waits again, sluice cancel " + o.Job + " ends it"},
		}
	}
	if err != nil {
		return err
	}
	if err := s.print(resp, func(w *tabwriter.Writer) { statusLine(w, s, resp) }); err != nil {
		return err
	}
	return outcome(resp)
}

// await asks again and again, since each call is bounded. Only the end of ctx and a refusal end it.
func await(ctx context.Context, c *Client, o WaitOptions) (*apipb.StatusResponse, error) {
	for {
		var resp *apipb.StatusResponse
		err := c.DoStream(ctx, func(ctx context.Context, to Coordinator) (err error) {
			call, cancel := context.WithTimeout(ctx, waitTime)
			defer cancel()
			resp, err = to.Jobs.Wait(call, &apipb.WaitRequest{Job: o.Job, Until: o.Until})
			if timedOut(err) && ctx.Err() == nil {
				return nil // it does wait
			}
			return err
		})
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, notYet(o.Job, err)
		}
		if err != nil || resp != nil {
			return resp, err
		}
	}
}

// notYet is the end of a wait by its timeout: exit 7, unless it was nobody's answer that was missing.
func notYet(job string, err error) error {
	if f := explainOne(err); f.Exit == ExitUnreachable {
		return err
	}
	return &Fault{
		Exit: ExitTimeout, Code: CodeTimeout, Err: fmt.Errorf("job %s has not ended in time; it goes on", job), Where: job, Retryable: true,
		Hints: []string{"sluice status " + job + " shows what it does or waits for"},
	}
}

// outcome is the error of a job that ended badly.
func outcome(j *apipb.StatusResponse) error {
	switch j.Status {
	case jobpb.JobStatus_JOB_FAILED:
		code := CodeJobFailed
		if c := j.Failure.GetCode(); c != "" {
			code = c
		}
		exit := ExitJobFailed
		text, hints := splitHints(failureText(j.Failure))
		switch {
		case !unplannable(j):
			hints = append(hints, "sluice status "+j.Id+" shows every attempt, sluice logs "+j.Id+" what it wrote")
		case len(hints) == 0:
			exit, hints = ExitUsage, []string{"sluice status " + j.Id + " shows all that is known"}
		default:
			exit = ExitUsage // nothing has run: there is no more to see
		}
		return &Fault{Exit: exit, Code: code, Err: fmt.Errorf("job %s failed: %s", j.Id, text), Where: j.Failure.GetPosition(), Hints: hints}
	case jobpb.JobStatus_JOB_CANCELLED:
		return &Fault{Exit: ExitJobCancelled, Code: CodeJobCancelled, Err: fmt.Errorf("job %s was cancelled", j.Id), Where: j.Id}
	}
	return nil
}

// unplannable: the program could not be built into a plan. The codes below E050 are those of plans and builds; a cluster
// that could not make one for reasons of its own has another.
func unplannable(j *apipb.StatusResponse) bool {
	code := j.Failure.GetCode()
	return j.Status == jobpb.JobStatus_JOB_FAILED && j.Fingerprint == "" && code != "" && code < "E050"
}

// splitHints takes the fixes out of the text of a failure, where those of a plan stand line by line.
func splitHints(text string) (cause string, hints []string) {
	var lines []string
	for l := range strings.SplitSeq(text, "\n") {
		if hint, ok := strings.CutPrefix(l, "  fix: "); ok {
			hints = append(hints, hint)
			continue
		}
		lines = append(lines, l)
	}
	return strings.Join(lines, "\n"), hints
}

func failureText(f *jobpb.Failure) string {
	if f == nil {
		return "no cause is known"
	}
	if f.Operator == "" {
		return f.Message
	}
	return fmt.Sprintf("%s[%d] attempt %d: %s", f.Operator, f.Index, f.Attempt, f.Message)
}

// CancelOptions of Cancel.
type CancelOptions struct {
	Job       string
	RequestID string
	Wait      bool
}

// Cancel ends a job without publishing what it has not committed.
func Cancel(ctx context.Context, s *Session, o CancelOptions) error {
	var resp *apipb.CancelResponse
	err := s.Client.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Jobs.Cancel(ctx, &apipb.CancelRequest{Job: o.Job, RequestId: o.RequestID})
		return err
	})
	if err != nil {
		return err
	}
	if !o.Wait {
		return s.print(resp, func(w *tabwriter.Writer) { row(w, "job "+o.Job, enum(resp.Status)) })
	}
	ended, err := await(ctx, s.Client, WaitOptions{Job: o.Job})
	if err != nil {
		return err
	}
	return s.print(ended, func(w *tabwriter.Writer) { statusLine(w, s, ended) })
}
