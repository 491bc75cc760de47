package ops

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// CheckpointsOptions of Checkpoints.
type CheckpointsOptions struct {
	Job       string
	Freshness Freshness
	// Savepoints leaves out what the cluster owns.
	Savepoints bool
}

// Checkpoints shows what a job may go on from, and how its checkpoints went.
func Checkpoints(ctx context.Context, s *Session, o CheckpointsOptions) error {
	resp, err := checkpointsOf(ctx, s, o)
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) {
		if !o.Savepoints {
			checkpointsTable(w, s, resp)
			return
		}
		keptTable(w, resp.Kept)
		note(w, resp.Read)
	})
}

func checkpointsOf(ctx context.Context, s *Session, o CheckpointsOptions) (*apipb.CheckpointsResponse, error) {
	var resp *apipb.CheckpointsResponse
	err := s.Client.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Jobs.Checkpoints(ctx, &apipb.CheckpointsRequest{Job: o.Job, Stale: o.Freshness == Stale})
		return err
	})
	if err != nil {
		return nil, err
	}
	if o.Savepoints {
		kept := resp.Kept
		resp.Kept, resp.History, resp.UnderWay = nil, nil, nil
		for _, c := range kept {
			if owned(c.Kind) {
				resp.Kept = append(resp.Kept, c)
			}
		}
	}
	return resp, nil
}

// owned: it belongs to a user, who deletes it.
func owned(k jobpb.CheckpointKind) bool {
	switch k {
	case jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT, jobpb.CheckpointKind_CHECKPOINT_STOP, jobpb.CheckpointKind_CHECKPOINT_DRAIN:
		return true
	}
	return false
}

func checkpointsTable(w *tabwriter.Writer, s *Session, r *apipb.CheckpointsResponse) {
	_, _ = fmt.Fprintf(w, "%s  %s", r.Id, enum(r.Status)) // a buffer, like below
	if !r.Enabled {
		_, _ = fmt.Fprintf(w, "  no checkpoints: %s", r.WhyNot)
	}
	if u := r.UnderWay; u != nil {
		_, _ = fmt.Fprintf(w, "  under way: %d, %s, for %s", u.Id, enum(u.Kind), spanUs(s.Now().UnixMicro()-u.StartedUs))
	}
	if r.Failed > 0 {
		_, _ = fmt.Fprintf(w, "  failed in a row: %d", r.Failed)
	}
	if n := len(r.Kept); n > 0 && r.Kept[n-1].Id > r.Confirmed {
		_, _ = fmt.Fprintf(w, "  output is visible up to: %d", r.Confirmed)
	}
	if r.Wanted > 0 {
		_, _ = fmt.Fprintf(w, "  savepoints that wait: %d", r.Wanted)
	}
	_, _ = fmt.Fprintln(w)
	if len(r.Kept) > 0 {
		_, _ = fmt.Fprintln(w)
		keptTable(w, r.Kept)
	}
	if len(r.History) > 0 {
		_, _ = fmt.Fprintln(w)
		historyTable(w, r.History)
	}
	note(w, r.Read)
}

func keptTable(w *tabwriter.Writer, kept []*apipb.CheckpointInfo) {
	row(w, "KEPT", "KIND", "COMPLETED", "TOOK", "WRITTEN", "STATE", "OBJECTS", "COPIES")
	for _, c := range kept {
		row(w, c.Id, enum(c.Kind), clock(c.CompletedUs), spanUs(c.CompletedUs-c.StartedUs), size(c.Bytes), size(c.StateBytes), c.Objects, copies(c))
	}
}

// copies says whether the objects of a checkpoint are where they should be.
func copies(c *apipb.CheckpointInfo) string {
	switch {
	case c.Missing > 0:
		return fmt.Sprintf("%d out of reach", c.Missing)
	case c.UnderReplicated > 0:
		return fmt.Sprintf("%d too few", c.UnderReplicated)
	}
	return "ok"
}

func historyTable(w *tabwriter.Writer, history []*jobpb.CheckpointRecord) {
	row(w, "HISTORY", "KIND", "STARTED", "TOOK", "OUTCOME", "WRITTEN", "ALIGNED", "STOOD STILL")
	for _, h := range history {
		outcome := "completed"
		if !h.Completed {
			outcome = h.Failure.GetCode() + ": " + h.Failure.GetMessage()
		}
		row(w, h.Id, enum(h.Kind), clock(h.StartedUs), spanUs(h.EndedUs-h.StartedUs), outcome, size(h.Bytes), spanUs(h.AlignedUs), spanUs(h.FrozenUs))
	}
}

// SavepointOptions of Savepoint and Stop.
type SavepointOptions struct {
	Job       string
	RequestID string
	Kind      jobpb.CheckpointKind
}

// Savepoint takes a savepoint, and stops the job with it if its kind says so. It waits until that is done.
func Savepoint(ctx context.Context, s *Session, o SavepointOptions) error {
	resp, err := pursue(ctx, s, pursuit{"the savepoint", "checkpoints", o.Job, o.RequestID}, func(ctx context.Context, to Coordinator) (*apipb.SavepointResponse, error) {
		return to.Jobs.Savepoint(ctx, &apipb.SavepointRequest{Job: o.Job, RequestId: o.RequestID, Kind: o.Kind})
	})
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) {
		c := resp.Savepoint
		row(w, "SAVEPOINT", "KIND", "TOOK", "WRITTEN", "STATE", "JOB", "STATUS")
		row(w, fmt.Sprintf("%s:%d", o.Job, c.Id), enum(c.Kind), spanUs(c.CompletedUs-c.StartedUs), size(c.Bytes), size(c.StateBytes), o.Job, enum(resp.Status))
	})
}

// SavepointOf finds one in JOB:ID, or in JOB and ID.
func SavepointOf(args []string) (job string, id uint64, err error) {
	if len(args) == 1 {
		i := strings.LastIndexByte(args[0], ':')
		if i < 1 {
			return "", 0, Usagef("sluice savepoint list JOB shows them", "%q names no savepoint: JOB:ID, for example clicks-7:12", args[0])
		}
		args = []string{args[0][:i], args[0][i+1:]}
	}
	id, err = strconv.ParseUint(args[1], 10, 64)
	if err != nil || id == 0 {
		return "", 0, Usagef("sluice savepoint list JOB shows them", "%q is no id of a savepoint: ids count from 1", args[1])
	}
	return args[0], id, nil
}

// Kept finds one kept checkpoint.
func Kept(ctx context.Context, s *Session, job string, id uint64) (*apipb.CheckpointInfo, error) {
	resp, err := checkpointsOf(ctx, s, CheckpointsOptions{Job: job})
	if err != nil {
		return nil, err
	}
	for _, c := range resp.Kept {
		if c.Id == id {
			return c, nil
		}
	}
	return nil, &Fault{
		Exit: ExitNotFound, Err: fmt.Errorf("job %s keeps no checkpoint %d", job, id), Where: job,
		Hints: []string{"sluice checkpoints " + job + " shows those that are kept"},
	}
}

// DescribeSavepoint shows one kept checkpoint.
func DescribeSavepoint(ctx context.Context, s *Session, job string, id uint64) error {
	c, err := Kept(ctx, s, job, id)
	if err != nil {
		return err
	}
	return s.print(c, func(w *tabwriter.Writer) {
		row(w, "savepoint", fmt.Sprintf("%s:%d", job, c.Id))
		row(w, "kind", enum(c.Kind))
		row(w, "started", clock(c.StartedUs))
		row(w, "completed", clock(c.CompletedUs))
		row(w, "written for it", size(c.Bytes))
		row(w, "state", size(c.StateBytes))
		row(w, "objects", fmt.Sprintf("%d, copies: %s", c.Objects, copies(c)))
		row(w, "manifest", c.Manifest.GetName())
		row(w, "sha256", fmt.Sprintf("%x", c.Manifest.GetDigest()))
		row(w, "request", c.RequestId)
	})
}

// DeleteSavepoint gives a savepoint up.
func DeleteSavepoint(ctx context.Context, s *Session, job string, id uint64) error {
	var resp *apipb.DeleteSavepointResponse
	err := s.Client.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Jobs.DeleteSavepoint(ctx, &apipb.DeleteSavepointRequest{Job: job, Id: id})
		return err
	})
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) { row(w, fmt.Sprintf("savepoint %s:%d", job, id), "deleted") })
}

// LatestSavepoint stands for the newest checkpoint that a job with the same name keeps.
const LatestSavepoint = "latest"

// OriginOf reads the checkpoint that a job begins with: JOB:ID, JOB for its newest one, or latest. Empty: none.
func OriginOf(from string, ignore []string) (*jobpb.Origin, error) {
	switch {
	case from == "" && len(ignore) > 0:
		return nil, Usagef("--from-savepoint JOB:ID", "--ignore-state leaves state of a savepoint behind, and none is named")
	case from == "":
		return nil, nil
	case from == LatestSavepoint:
		return &jobpb.Origin{Ignore: ignore}, nil
	case !strings.Contains(from, ":"):
		return &jobpb.Origin{Job: from, Ignore: ignore}, nil
	}
	job, id, err := SavepointOf([]string{from})
	return &jobpb.Origin{Job: job, Checkpoint: id, Ignore: ignore}, err
}

// RescaleOptions of Rescale.
type RescaleOptions struct {
	Job         string
	RequestID   string
	Parallelism int32
}

// Rescale lets a job go on at another parallelism, and waits until it does.
func Rescale(ctx context.Context, s *Session, o RescaleOptions) error {
	resp, err := pursue(ctx, s, pursuit{"the change", "status", o.Job, o.RequestID}, func(ctx context.Context, to Coordinator) (*apipb.RescaleResponse, error) {
		return to.Jobs.Rescale(ctx, &apipb.RescaleRequest{Job: o.Job, RequestId: o.RequestID, Parallelism: o.Parallelism})
	})
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) {
		row(w, "JOB", "PARALLELISM", "SUBTASKS", "SLOTS", "FROM CHECKPOINT", "STATUS")
		row(w, o.Job, resp.Parallelism, resp.Subtasks, resp.Slots, resp.Checkpoint, enum(resp.Status))
	})
}

// pursuit is a request that takes its time: what it is, and the verb that shows what became of it.
type pursuit struct{ what, verb, job, requestID string }

// pursue asks again, under the same request id, until there is an outcome.
func pursue[R any](ctx context.Context, s *Session, p pursuit, ask func(context.Context, Coordinator) (*R, error)) (resp *R, err error) {
	for resp == nil {
		err := s.Client.DoStream(ctx, func(ctx context.Context, to Coordinator) (err error) {
			call, cancel := context.WithTimeout(ctx, waitTime)
			defer cancel()
			if resp, err = ask(call, to); timedOut(err) && ctx.Err() == nil {
				return nil // it is under way; the request id finds it again
			}
			return err
		})
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return nil, &Fault{
				Exit: ExitInterrupted, Err: fmt.Errorf("interrupted; %s of job %s goes on", p.what, p.job), Where: p.job,
				Hints: []string{"sluice " + p.verb + " " + p.job + " shows what became of it", "the same command with --request-id " + p.requestID + " waits for it again"},
			}
		case err != nil:
			return nil, err
		}
	}
	return resp, nil
}
