package api

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/checkpoint"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Checkpoints shows what a job may go on from, and how its checkpoints went.
func (s *jobsServer) Checkpoints(ctx context.Context, req *apipb.CheckpointsRequest) (*apipb.CheckpointsResponse, error) {
	facts, how, err := s.read(ctx, req.Stale)
	if err != nil {
		return nil, err
	}
	job := facts.Job(req.Job)
	if job == nil {
		return nil, unknownJob(req.Job)
	}
	resp := &apipb.CheckpointsResponse{
		Id: job.ID(), Name: job.Head().Spec.GetName(), Status: job.Status(), Enabled: job.Checkpointed(), Read: s.readInfo(facts.Index(), how),
	}
	if !resp.Enabled {
		resp.WhyNot = whyNoCheckpoints(job)
	}
	c := job.Checkpoints()
	for _, done := range c.GetCompleted() {
		resp.Kept = append(resp.Kept, keptInfo(facts, job, done))
	}
	resp.UnderWay, resp.History, resp.Failed, resp.Confirmed = c.GetStarted(), c.GetHistory(), c.GetFailed(), c.GetConfirmed()
	resp.Wanted = int32(len(c.GetWanted()))
	return resp, nil
}

func whyNoCheckpoints(job *state.Job) string {
	if job.Plan() == nil {
		return "the job is not planned yet"
	}
	if setting.Values(job.Plan().GetSettings()).Said(setting.CheckpointEvery) {
		return "every part of it keeps its input in batch memory or stores its output, which no checkpoint holds: it runs again from its inputs"
	}
	return "its input ends by itself, and checkpoint.interval was not set: it commits its output at the end"
}

// keptInfo is a kept checkpoint with the state of its copies.
func keptInfo(facts *state.View, job *state.Job, done *jobpb.CheckpointDone) *apipb.CheckpointInfo {
	c, copies := job.Checkpoints(), checkpoint.Configure(setting.Values(job.Plan().GetSettings())).Copies
	info := &apipb.CheckpointInfo{
		Id: done.Id, Kind: done.Kind, StartedUs: done.StartedUs, CompletedUs: done.CompletedUs, Bytes: done.Bytes, StateBytes: done.StateBytes,
		Manifest: done.Manifest, Objects: int32(len(done.Objects)), RequestId: done.RequestId,
	}
	places := map[string][]string{}
	for _, o := range c.Objects {
		places[o.Object.GetName()] = o.Stores
	}
	for _, name := range done.Objects {
		live := 0
		for _, store := range places[name] {
			// A store that is no worker's is shared, and as whole as it ever was.
			if w := facts.Worker(store); w == nil {
				live += copies
			} else if w.Health == commandpb.WorkerHealth_WORKER_ALIVE {
				live++
			}
		}
		switch {
		case live == 0:
			info.Missing++
		case live < copies:
			info.UnderReplicated++
		}
	}
	return info
}

// Savepoint asks for a savepoint and answers when it is complete, or, if the job stops with it, when it has stopped.
func (s *jobsServer) Savepoint(ctx context.Context, req *apipb.SavepointRequest) (*apipb.SavepointResponse, error) {
	until, err := s.reign()
	if err != nil {
		return nil, err
	}
	facts, err := s.facts.Read(ctx)
	if err != nil {
		return nil, err
	}
	if facts.Job(req.Job) == nil {
		return nil, unknownJob(req.Job)
	}
	return pursue(ctx, s.Server, until, req.Job, &commandpb.Command{
		RequestId: req.RequestId,
		Command:   &commandpb.Command_RequestSavepoint{RequestSavepoint: &commandpb.RequestSavepoint{Job: req.Job, Kind: req.Kind}},
	}, func(facts *state.View, job *state.Job) (*apipb.SavepointResponse, error) {
		return savepointOf(facts, job, req)
	})
}

// pursue proposes a request about a job and answers when outcome has something to say of it.
func pursue[R any](ctx context.Context, s *Server, until <-chan struct{}, job string, c *commandpb.Command, outcome func(*state.View, *state.Job) (*R, error)) (*R, error) {
	result, err := s.facts.Propose(ctx, c)
	if err != nil {
		return nil, err
	}
	if result.Status == state.Refused || result.Status == state.Stale {
		return nil, refused(result)
	}
	for {
		facts, changed := s.facts.Changed()
		j := facts.Job(job)
		if j == nil {
			return nil, unknownJob(job)
		}
		if resp, err := outcome(facts, j); resp != nil || err != nil {
			return resp, err
		}
		select {
		case <-changed:
		case <-until:
			return nil, ErrNotLeader
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// savepointOf is the outcome of a request, nil if it has none yet.
func savepointOf(facts *state.View, job *state.Job, req *apipb.SavepointRequest) (*apipb.SavepointResponse, error) {
	c := job.Checkpoints()
	ended := state.Terminal(job.Status())
	for _, done := range c.GetCompleted() {
		if done.RequestId == req.RequestId && (ended || req.Kind == jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT) {
			return &apipb.SavepointResponse{Savepoint: keptInfo(facts, job, done), Status: job.Status()}, nil
		}
	}
	for _, h := range c.GetHistory() {
		if h.RequestId != req.RequestId || h.Completed || waits(c, req.RequestId) {
			continue
		}
		return nil, apipb.NewError(codes.Aborted, &apipb.ErrorDetail{Code: h.Failure.GetCode(), Where: req.Job}, "the savepoint failed: %s", h.Failure.GetMessage())
	}
	if ended {
		return nil, apipb.NewError(codes.FailedPrecondition, &apipb.ErrorDetail{Code: CodeWrongStatus, Where: req.Job},
			"job %s is %s, and no savepoint was taken", req.Job, state.StatusName(job.Status()))
	}
	return nil, nil
}

// waits reports whether a request is still to be served, perhaps again.
func waits(c *jobpb.Checkpoints, request string) bool {
	if c.GetStarted().GetRequestId() == request {
		return true
	}
	for _, w := range c.GetWanted() {
		if w.RequestId == request {
			return true
		}
	}
	return false
}

// DeleteSavepoint gives a savepoint up.
func (s *jobsServer) DeleteSavepoint(ctx context.Context, req *apipb.DeleteSavepointRequest) (*apipb.DeleteSavepointResponse, error) {
	facts, err := s.facts.Read(ctx)
	if err != nil {
		return nil, err
	}
	if facts.Job(req.Job) == nil {
		return nil, unknownJob(req.Job)
	}
	result, err := s.facts.Propose(ctx, &commandpb.Command{
		Command: &commandpb.Command_DeleteSavepoint{DeleteSavepoint: &commandpb.DeleteSavepoint{Job: req.Job, Checkpoint: req.Id}},
	})
	if err != nil {
		return nil, err
	}
	if result.Status != state.Applied && result.Status != state.Duplicate {
		return nil, refused(result)
	}
	return &apipb.DeleteSavepointResponse{}, nil
}

// checkpointTrouble is how many checkpoints in a row were given up, and why the last one was; 0: the last one has completed.
func checkpointTrouble(c *jobpb.Checkpoints) (int32, *jobpb.Failure) {
	if c.GetFailed() == 0 {
		return 0, nil
	}
	for _, h := range slices.Backward(c.GetHistory()) {
		if !h.Completed {
			return c.Failed, h.Failure
		}
	}
	return c.Failed, nil
}
