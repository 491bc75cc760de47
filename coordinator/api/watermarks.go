package api

import (
	"context"
	"time"

	"github.com/sluiceio/sluice/coordinator/blame"
	"github.com/sluiceio/sluice/proto/apipb"
)

// Watermarks says where the event time of a job stands. What runs tells it with its samples, so this is as old as they are, and
// nothing of it is replicated.
func (s *jobsServer) Watermarks(ctx context.Context, req *apipb.WatermarksRequest) (*apipb.WatermarksResponse, error) {
	facts, err := s.facts.Read(ctx)
	if err != nil {
		return nil, err
	}
	job := facts.Job(req.Job)
	if job == nil {
		return nil, unknownJob(req.Job)
	}
	resp := &apipb.WatermarksResponse{
		Id: job.ID(), Name: job.Head().Spec.GetName(), Status: job.Status(), NowUs: time.Now().UnixMicro(), Read: s.readInfo(facts.Index(), freshRead),
	}
	known := blame.Facts{Plan: job.Plan(), Clocks: s.workers.Clocks(req.Job)}
	for t := range job.Subtasks() {
		known.Subtasks = append(known.Subtasks, t)
	}
	blame.Of(known, resp)
	return resp, nil
}
