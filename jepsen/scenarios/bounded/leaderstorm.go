package bounded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/nemesis"
	"github.com/sluiceio/sluice/jepsen/traffic"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// LeaderStorm kills the leader again and again under a storm of submits through all nodes, while one job runs from
// before the first kill. It promises: no submit is lost or doubled, every job's answer is right, and the running job
// notices nothing.
type LeaderStorm struct {
	Binary   string // sluice
	Artifact string // sha256 of a job binary that Upload has stored
	Upload   func(ctx context.Context, addresses []string) error
	// Spec makes the job of a request; Out is where its rows appear.
	Spec func(request, out string) *jobpb.JobSpec
	// Long makes the job that has to survive everything.
	Long     func(out string) *jobpb.JobSpec
	Expected traffic.Digest
	LongWant traffic.Digest
	Dir      string
	Kills    int
	Clients  int
	Seed     uint64
	Log      func(format string, args ...any)
}

// StormReport is what happened.
type StormReport struct {
	Kills, Missed   int
	Acknowledged    int
	Jobs            int
	SlowestElection time.Duration // from a kill to the next leader's answer
	LongAttempts    []uint32
}

type accepted struct{ request, job, out string }

// Run performs the experiment.
func (s *LeaderStorm) Run(ctx context.Context) (rep StormReport, err error) {
	c, err := cluster.New(cluster.Options{Binary: s.Binary, Dir: s.Dir, Coordinators: 3, Workers: 3, Slots: 4})
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	file, err := os.Create(filepath.Join(s.Dir, "history.jsonl"))
	if err != nil {
		return rep, err
	}
	defer file.Close()
	log := history.New(file, time.Now)
	if err := c.Start(ctx); err != nil {
		return rep, err
	}
	if err := s.Upload(ctx, c.Addresses()); err != nil {
		return rep, fmt.Errorf("upload: %w", err)
	}
	observer := s.client(c, log, "observer", 0)
	longOut := filepath.Join(s.Dir, "out", "long")
	long, err := observer.Submit(ctx, s.Long(longOut), "long")
	if err != nil {
		return rep, err
	}
	before, err := observer.AwaitRunning(ctx, long)
	if err != nil {
		return rep, err
	}
	all, err := s.storm(ctx, c, log, &rep)
	if err != nil {
		return rep, err
	}
	if err := s.verify(ctx, observer, all, &rep); err != nil {
		return rep, err
	}
	return rep, errors.Join(s.verifyLong(ctx, observer, before, longOut, &rep), log.Err())
}

func (s *LeaderStorm) client(c *cluster.Cluster, log *history.Recorder, name string, n uint64) *traffic.Client {
	return traffic.NewClient(c, log, name, s.Seed, n)
}

// storm submits from all clients until the nemesis has done its kills.
func (s *LeaderStorm) storm(ctx context.Context, c *cluster.Cluster, log *history.Recorder, rep *StormReport) ([]accepted, error) {
	g := run.NewGroup(ctx, "storm")
	over := make(chan struct{})
	var mu sync.Mutex
	var all []accepted
	for i := range s.Clients {
		name := fmt.Sprintf("client-%d", i+1)
		cl := s.client(c, log, name, uint64(i+1))
		g.Go(name, func(ctx context.Context) error {
			for n := 0; ; n++ {
				select {
				case <-over:
					return nil
				default:
				}
				a := accepted{request: fmt.Sprintf("%s-%d", name, n)}
				a.out = filepath.Join(s.Dir, "out", a.request)
				job, err := cl.Submit(ctx, s.Spec(a.request, a.out), a.request)
				if err != nil {
					return err
				}
				a.job = job
				mu.Lock()
				all = append(all, a)
				mu.Unlock()
				if _, err := cl.Wait(ctx, job); err != nil {
					return err
				}
			}
		})
	}
	g.Go("nemesis", func(ctx context.Context) error {
		defer close(over)
		return s.kill(ctx, c, log, rep)
	})
	err := g.Wait()
	return all, err
}

// kill ends the leader, waits for the next one to answer, starts the old one again, and so on.
func (s *LeaderStorm) kill(ctx context.Context, c *cluster.Cluster, log *history.Recorder, rep *StormReport) error {
	for i := range s.Kills {
		old, err := c.AwaitLeader(ctx, nil)
		if err != nil {
			return err
		}
		n := nemesis.Nemesis{Log: log, Pick: func(context.Context) (nemesis.Target, error) { return old, nil }}
		start := time.Now()
		fault := run.NewGroup(ctx, "fault")
		fault.Go("kill and start again", func(ctx context.Context) error {
			out, err := n.Run(ctx, []nemesis.Step{{Action: nemesis.Kill, Heals: -1}, {After: 1500 * time.Millisecond, Action: nemesis.Start, Heals: 0}})
			rep.Kills += out.Hurt[nemesis.Kill]
			rep.Missed += out.Missed
			return err
		})
		next, err := c.AwaitLeader(ctx, old)
		gap := time.Since(start)
		if err := errors.Join(err, fault.Wait()); err != nil {
			return fmt.Errorf("kill %d: %w", i+1, err)
		}
		if err := c.Ready(ctx); err != nil {
			return fmt.Errorf("after kill %d: %w", i+1, err)
		}
		rep.SlowestElection = max(rep.SlowestElection, gap)
		s.Log("kill %d of %d: %s; %s leads after %v, all nodes are back after %v", i+1, s.Kills, old.Name(), next.Name(),
			gap.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
	}
	return nil
}

// verify compares what clients were told with what the cluster holds, and every answer with the oracle.
func (s *LeaderStorm) verify(ctx context.Context, cl *traffic.Client, all []accepted, rep *StormReport) error {
	byRequest := map[string]string{}
	jobs, err := cl.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, j := range jobs {
		st, err := cl.Status(ctx, j.Id)
		if err != nil {
			return err
		}
		if other, dup := byRequest[st.RequestId]; dup {
			errs = append(errs, fmt.Errorf("request %s made two jobs: %s and %s", st.RequestId, other, j.Id))
		}
		byRequest[st.RequestId] = j.Id
	}
	rep.Jobs, rep.Acknowledged = len(jobs), len(all)
	for _, a := range all {
		if byRequest[a.request] != a.job {
			errs = append(errs, fmt.Errorf("request %s was acknowledged as %s, the cluster has %q", a.request, a.job, byRequest[a.request]))
			continue
		}
		errs = append(errs, s.verifyJob(ctx, cl, a.job, a.out, s.Expected))
	}
	if want := len(all) + 1; len(jobs) != want {
		errs = append(errs, fmt.Errorf("%d jobs for %d acknowledged submits", len(jobs), want))
	}
	return errors.Join(errs...)
}

func (s *LeaderStorm) verifyJob(ctx context.Context, cl *traffic.Client, job, out string, want traffic.Digest) error {
	st, err := cl.Wait(ctx, job)
	if err != nil {
		return err
	}
	if st.Status != jobpb.JobStatus_JOB_FINISHED {
		return fmt.Errorf("job %s is %v: %v", job, st.Status, st.Failure)
	}
	got, err := traffic.DigestDir(out)
	if err != nil {
		return fmt.Errorf("job %s: %w", job, err)
	}
	if got != want {
		return fmt.Errorf("job %s: digest %+v, want %+v", job, got, want)
	}
	return nil
}

// verifyLong: the job that ran through all kills has kept every attempt, and its answer is right.
func (s *LeaderStorm) verifyLong(ctx context.Context, cl *traffic.Client, before *apipb.StatusResponse, out string, rep *StormReport) error {
	errs := []error{s.verifyJob(ctx, cl, before.Id, out, s.LongWant)}
	after, err := cl.Status(ctx, before.Id)
	if err != nil {
		return err
	}
	for i, sub := range after.Subtasks {
		rep.LongAttempts = append(rep.LongAttempts, sub.Attempt)
		if was := before.Subtasks[i]; was.Attempt != sub.Attempt {
			errs = append(errs, fmt.Errorf("%s[%d]: attempt %d before the kills, %d after", sub.Operator, sub.Index, was.Attempt, sub.Attempt))
		}
	}
	return errors.Join(errs...)
}
