package api

import (
	"fmt"
	"strings"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func summary(job *state.Job) *apipb.JobSummary {
	head := job.Head()
	all := 0
	for range job.Subtasks() {
		all++
	}
	line, _, _ := strings.Cut(head.Failure.GetMessage(), "\n")
	return &apipb.JobSummary{
		Id: head.Id, Name: head.Spec.GetName(), Status: head.Status,
		Running: int32(job.Count(jobpb.SubtaskState_SUBTASK_RUNNING) + job.Count(jobpb.SubtaskState_SUBTASK_FINISHING)), Subtasks: int32(all), Restarts: head.Restarts,
		CreatedUs: head.CreatedUs, StartedUs: head.StartedUs, EndedUs: head.EndedUs, Message: head.Message,
		FailureCode: head.Failure.GetCode(), FailureLine: line,
	}
}

// attempt identifies whose counters a sample holds.
type attempt struct {
	chain, index int32
	attempt      uint32
}

// statusOf assembles what is known of a job: facts, plan, and the newest samples.
func statusOf(job *state.Job, samples []*taskpb.Counters) *apipb.StatusResponse {
	all := job.Proto()
	resp := &apipb.StatusResponse{
		Id: all.Id, Name: all.Spec.GetName(), Status: all.Status, Message: all.Message, Epoch: all.Epoch,
		Failure: all.Failure, Failures: all.Failures, Restarts: all.Restarts, Losses: all.Losses,
		CreatedUs: all.CreatedUs, StartedUs: all.StartedUs, EndedUs: all.EndedUs, Revision: all.Revision,
		RequestId: all.RequestId, Artifact: all.Spec.GetArtifact(),
		Params: all.Spec.GetParams(), Settings: all.Spec.GetSettings(),
	}
	resp.CheckpointFailures, resp.CheckpointFailure = checkpointTrouble(job.Checkpoints())
	p := all.Plan
	if p == nil {
		return resp
	}
	resp.Fingerprint = p.Fingerprint
	if g := p.Graph; g != nil {
		resp.Warnings, resp.Params = g.Warnings, g.Params
		for _, op := range g.Operators {
			if op.Guarantee != jobpb.Guarantee_GUARANTEE_UNSPECIFIED {
				resp.Sinks = append(resp.Sinks, &apipb.SinkInfo{Operator: op.Id, Guarantee: op.Guarantee})
			}
		}
	}
	byAttempt := make(map[attempt]*taskpb.Counters, len(samples))
	for _, c := range samples {
		byAttempt[attempt{c.Chain, c.Index, c.Attempt}] = c
	}
	for _, t := range all.Subtasks {
		counters := t.Counters
		if counters == nil {
			counters = byAttempt[attempt{t.Chain, t.Index, t.Attempt}]
		}
		resp.Subtasks = append(resp.Subtasks, &apipb.SubtaskStatus{
			Operator: chainName(p, t.Chain), Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, Worker: t.Worker,
			State: t.State, Region: t.Region, Process: t.Process, Operators: chainOperators(p, t.Chain),
			Counters: counters,
		})
	}
	resp.Regions = regionsOf(p, all.Regions)
	resp.Edges = edgesOf(p)
	for i, e := range p.Edges {
		if e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			r := job.Results(e.Index)
			resp.Edges[i].Result = &apipb.ResultInfo{
				Producers: p.Chains[e.FromChain].Parallelism, Stored: int32(r.Stored), Lost: int32(r.Lost), Released: int32(r.Released),
				Bytes: r.Bytes, Records: r.Records,
			}
		}
	}
	return resp
}

func chainName(p *jobpb.Plan, chain int32) string {
	if int(chain) < len(p.Chains) {
		return p.Chains[chain].Name
	}
	return ""
}

func chainOperators(p *jobpb.Plan, chain int32) []string {
	if int(chain) >= len(p.Chains) {
		return nil
	}
	var ids []string
	for _, op := range p.Chains[chain].Operators {
		ids = append(ids, operatorID(p, op))
	}
	return ids
}

func operatorID(p *jobpb.Plan, op int32) string {
	if ops := p.GetGraph().GetOperators(); int(op) < len(ops) {
		return ops[op].Id
	}
	return ""
}

func regionsOf(p *jobpb.Plan, states []*jobpb.RegionState) []*apipb.RegionInfo {
	infos := make([]*apipb.RegionInfo, 0, len(p.Regions))
	after := graph.After(p)
	for i, r := range p.Regions {
		info := &apipb.RegionInfo{Index: r.Index, InputEdges: r.InputEdges}
		for _, a := range after[i] {
			info.After = append(info.After, &apipb.RegionRange{First: a.First, Last: a.Last})
		}
		if i < len(states) {
			info.Epoch, info.State = states[i].Epoch, states[i].Status
		}
		for _, span := range r.Subtasks {
			for n := range span.Count {
				info.Subtasks = append(info.Subtasks, fmt.Sprintf("%s[%d]", chainName(p, span.Chain), span.First+n))
			}
		}
		infos = append(infos, info)
	}
	return infos
}

// edgesOf are the edges of a plan.
func edgesOf(p *jobpb.Plan) []*apipb.EdgeInfo {
	regions := make([][]int32, len(p.Chains)) // by chain, in order
	first := make([]int32, len(p.Chains))     // of subtask 0
	for _, r := range p.Regions {
		for _, span := range r.Subtasks {
			if span.First == 0 {
				first[span.Chain] = r.Index
			}
			if of := regions[span.Chain]; len(of) == 0 || of[len(of)-1] != r.Index {
				regions[span.Chain] = append(of, r.Index)
			}
		}
	}
	infos := make([]*apipb.EdgeInfo, 0, len(p.Edges))
	for _, e := range p.Edges {
		info := &apipb.EdgeInfo{
			Index: e.Index, From: operatorID(p, e.FromOperator), To: operatorID(p, e.ToOperator),
			Partitioner: e.Partitioner, Exchange: e.Exchange, Reason: e.Reason, Reproducible: e.Reproducible,
			FromRegions: regions[e.FromChain], ToRegions: regions[e.ToChain],
			Gated: p.Graph.Operators[e.ToOperator].Inputs[e.Input].Gated,
		}
		if e.Partitioner == jobpb.Partitioner_PARTITIONER_GLOBAL { // nobody else reads it
			info.ToRegions = []int32{first[e.ToChain]}
		}
		infos = append(infos, info)
	}
	return infos
}
