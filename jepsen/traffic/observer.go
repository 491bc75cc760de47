package traffic

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Observer looks at a cluster from outside and records what it sees. An answer that does not come is no observation; it
// never asks twice.
type Observer struct {
	Client *Client
	Jobs   []string // whose progress is followed
	// Checkpointed are those of the jobs that take checkpoints.
	Checkpointed []string
	Every        time.Duration

	event uint64 // newest recorded
	again uint64 // index of the newest restart recorded
	looks int
}

// patience of one look: less than the pause in which a leader is replaced.
const patience = 400 * time.Millisecond

// Follow looks again and again until ctx ends. That is no error.
func (o *Observer) Follow(ctx context.Context) error {
	for {
		for _, job := range o.Jobs {
			o.job(ctx, job)
		}
		if o.looks++; o.looks%4 == 0 {
			o.chains(ctx)
			o.events(ctx)
			for _, job := range o.Jobs {
				o.clocks(ctx, job)
			}
		}
		if cluster.Rest(ctx, o.Every) != nil {
			return nil
		}
	}
}

// Last looks once more at everything, and waits for answers.
func (o *Observer) Last(ctx context.Context) error {
	for _, job := range o.Jobs {
		st, err := o.Client.Status(ctx, job)
		if err != nil {
			return err
		}
		o.note(st)
	}
	all, err := o.Client.Events(ctx, o.event)
	if err != nil {
		return err
	}
	o.noteEvents(all)
	o.chains(ctx)
	return nil
}

func (o *Observer) job(ctx context.Context, job string) {
	st, err := once(ctx, o.Client, patience, func(ctx context.Context, c *grpc.ClientConn) (*apipb.StatusResponse, error) {
		return apipb.NewJobsClient(c).Status(ctx, &apipb.StatusRequest{Job: job})
	})
	if err == nil {
		o.note(st)
	}
}

func (o *Observer) note(st *apipb.StatusResponse) {
	p := history.Progress{
		Job: st.Id, Status: st.Status.String(), Revision: st.Revision, Term: st.Read.GetTerm(), Leader: st.Read.GetLeader(),
		Attempts: map[string]uint32{}, Epochs: map[string]uint64{},
	}
	for _, t := range st.Subtasks {
		p.Attempts[fmt.Sprintf("%s[%d]", t.Operator, t.Index)] = t.Attempt
		if c := t.Counters; c != nil {
			p.Late += c.Late
			p.Replayed += c.Replayed
			if t.Chain == 0 { // the plan begins with the source
				p.Read += c.RecordsIn
			}
		}
	}
	for _, r := range st.Regions {
		p.Epochs[fmt.Sprint(r.Index)] = r.Epoch
	}
	o.Client.log.Note(history.NoteProgress, p)
}

func (o *Observer) chains(ctx context.Context) {
	got, err := once(ctx, o.Client, patience, func(ctx context.Context, c *grpc.ClientConn) (*apipb.PeersResponse, error) {
		return apipb.NewClusterClient(c).Peers(ctx, &apipb.PeersRequest{})
	})
	if err != nil {
		return
	}
	for _, p := range got.Peers {
		if len(p.Chain) > 0 {
			o.Client.log.Note(history.NoteChain, history.Chain{Node: p.Id, Applied: p.Applied, Chain: p.Chain})
		}
	}
}

func (o *Observer) events(ctx context.Context) {
	all, err := func() ([]*jobpb.Event, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return o.Client.Events(ctx, o.event)
	}()
	if err == nil {
		o.noteEvents(all)
	}
}

func (o *Observer) noteEvents(all []*jobpb.Event) {
	for _, e := range all {
		if e.Index < o.event {
			continue
		}
		o.Client.log.Note(history.NoteEvent, history.Event{
			Index: e.Index, Kind: e.Kind, Job: e.Job, Worker: e.Worker, Text: e.Message, Term: e.Term, Epoch: e.Epoch, Micros: e.TimeUs,
		})
		if e.Kind == "region-restarted" && e.Index > o.again && slices.Contains(o.Checkpointed, e.Job) {
			o.restart(e)
		}
	}
	if n := len(all); n > 0 {
		o.event = max(o.event, all[n-1].Index)
	}
}

// restart finds the checkpoint to which a restart goes back: it stands in the text of the event.
func (o *Observer) restart(e *jobpb.Event) {
	fact := history.Checkpoint{Job: e.Job, What: history.Fresh, Micros: e.TimeUs}
	if _, id, ok := strings.Cut(e.Message, "; from checkpoint "); ok {
		fact.What = history.Restored
		fact.ID, _ = strconv.ParseUint(id, 10, 64)
	}
	o.again = e.Index
	o.Client.log.Note(history.NoteCheckpoint, fact)
}

func (o *Observer) clocks(ctx context.Context, job string) {
	got, err := once(ctx, o.Client, patience, func(ctx context.Context, c *grpc.ClientConn) (*apipb.WatermarksResponse, error) {
		return apipb.NewJobsClient(c).Watermarks(ctx, &apipb.WatermarksRequest{Job: job})
	})
	if err != nil {
		return
	}
	runs := slices.Contains([]jobpb.JobStatus{jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING}, got.Status)
	for _, op := range got.Operators {
		for _, s := range op.Subtasks {
			if s.Clock == nil {
				continue
			}
			o.Client.log.Note(history.NoteClock, history.Clock{
				Job: job, Subtask: fmt.Sprintf("%s[%d]", op.Operator, s.Index), Attempt: s.Attempt, Watermark: s.Clock.WatermarkUs,
				Ended: !runs || s.State == jobpb.SubtaskState_SUBTASK_FINISHED,
			})
		}
	}
}
