package bounded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/model"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// BatchLoss kills workers at random moments of a job of four stages. It promises: the rows are right; what ran again is
// what the rules allow, and the history of events tells of all of it; what had finished and was out of reach stays so.
//
// Every loss has a job of its own. In half of them the task processes are stopped first, so that the state at the moment of
// the loss is known, and then what runs again must be exactly what the model says.
type BatchLoss struct {
	Job         Stages
	Dir         string
	Kills       int
	Parallelism int32
	Seed        uint64
	Log         func(format string, args ...any)

	*ground
	took time.Duration // of the job without a fault
}

// LossReport is what happened.
type LossReport struct {
	Kills     int // that took effect
	Twice     int // of them with a second kill soon after
	Missed    int // that found the job at its end
	Leaders   int // kills of the leader at the same moment
	Exact     int // losses with everything stopped, compared exactly
	Again     int // subtasks that ran again
	Protected int // finished subtasks of which it was asserted that they did not
}

// target of a kill.
type target string

const (
	aWorker       target = "a worker"
	enumerator    target = "the worker of the split enumerator"
	itsOwnOnly    target = "the task process of the split enumerator"
	firstOperator        = "left" // of the chain whose subtask 0 enumerates
)

// comeback of a killed worker.
type comeback string

const (
	promptly comeback = "promptly"     // before anybody counts it as lost
	late     comeback = "late"         // after it was lost
	empty    comeback = "with no data" // at once, as another worker
)

// strike is one planned loss.
type strike struct {
	at     float64 // share of the job's time
	target target
	back   comeback
	frozen bool
	leader bool
	again  bool // another worker is killed soon after
}

func (k strike) String() string {
	text := fmt.Sprintf("%s at %.2f of the job", k.target, k.at)
	if k.back != "" {
		text += ", back " + string(k.back)
	}
	if k.frozen {
		text += ", with all stopped before"
	}
	if k.leader {
		text += ", with the leader"
	}
	if k.again {
		text += ", and another one soon after"
	}
	return text
}

// strikes draws n losses; those that a few kills must not miss come first.
func strikes(rnd *rand.Rand, n int) []strike {
	plan := []strike{
		{target: aWorker, back: late, frozen: true},
		{target: enumerator, back: promptly, again: true},
		{target: aWorker, back: empty, leader: true},
		{target: itsOwnOnly, frozen: true},
		{target: aWorker, back: promptly, frozen: true, leader: true},
	}
	for len(plan) < n {
		plan = append(plan, strike{
			target: []target{aWorker, aWorker, enumerator, itsOwnOnly}[rnd.IntN(4)], back: []comeback{promptly, late, empty}[rnd.IntN(3)],
			frozen: rnd.IntN(2) == 0, leader: rnd.IntN(3) == 0, again: rnd.IntN(4) == 0,
		})
	}
	plan = plan[:n]
	moments := rnd.Perm(n) // one in each n-th of the job
	for i := range plan {
		if plan[i].target == itsOwnOnly {
			plan[i].back = "" // the worker lives
		}
		plan[i].at = (float64(moments[i]) + rnd.Float64()) / float64(n)
		if plan[i].target != aWorker {
			plan[i].at *= 0.4 // while there are splits to give out
		}
	}
	return plan
}

// Run performs the experiment.
func (s *BatchLoss) Run(ctx context.Context) (rep LossReport, err error) {
	s.ground, err = newGround(ctx, s.Job, s.Dir, s.Seed)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.undisturbed(ctx); err != nil {
		return rep, fmt.Errorf("without a fault: %w", err)
	}
	for i, k := range strikes(s.rnd, s.Kills) {
		if err := s.round(ctx, i, k, &rep); err != nil {
			return rep, fmt.Errorf("loss %d of %d, %s: %w", i+1, s.Kills, k, err)
		}
	}
	return rep, nil
}

// undisturbed runs the job once without a fault: nothing may run again. It also tells how long a job takes.
func (s *BatchLoss) undisturbed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	t, err := s.start(ctx, "undisturbed", s.Parallelism)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := t.finish(ctx, s.cl); err != nil {
		return err
	}
	s.took = time.Since(begun)
	again, err := t.balance()
	if again > 0 {
		err = errors.Join(err, fmt.Errorf("%d subtasks ran again", again))
	}
	return errors.Join(err, s.Job.check(t.out))
}

// roundLimit bounds one job with its loss.
const roundLimit = 90 * time.Second

func (s *BatchLoss) round(ctx context.Context, i int, k strike, rep *LossReport) error {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	for try := 0; ; try++ {
		t, err := s.start(ctx, fmt.Sprintf("loss-%d-%d", i+1, try), s.Parallelism)
		if err != nil {
			return err
		}
		hits, err := s.hurtAll(ctx, k, t)
		if err == nil {
			err = t.finish(ctx, s.cl)
		}
		if err != nil {
			return errors.Join(err, t.watch.stop())
		}
		if len(hits) == 0 {
			rep.Missed++
			if try == 3 {
				return errors.New("the job ended before the loss, four times")
			}
			k.at /= 2
			continue
		}
		for _, h := range hits {
			if err := s.recovered(ctx, h); err != nil {
				return err
			}
		}
		if err := errors.Join(s.c.Ready(ctx), swept(ctx, s.c, t.job)); err != nil {
			return err
		}
		return s.judge(t, k, hits, rep)
	}
}

// hurtAll hits once or twice. There are no hits if the job was at its end.
func (s *BatchLoss) hurtAll(ctx context.Context, k strike, t *trial) (hits []*hit, err error) {
	h, err := s.hurt(ctx, k, t)
	if h == nil || err != nil {
		return nil, err
	}
	hits = append(hits, h)
	if k.again {
		next := strike{at: s.rnd.Float64() / 2, target: aWorker, back: promptly}
		if h, err = s.hurt(ctx, next, t); h != nil {
			hits = append(hits, h)
		}
	}
	return hits, err
}

// hit is a loss that took effect.
type hit struct {
	node   *cluster.Node
	worker string                // its id
	before *apipb.StatusResponse // newest revision seen before it
	lives  bool                  // only a task process was killed
	wiped  bool
}

// judge compares what happened with what may.
func (s *BatchLoss) judge(t *trial, k strike, hits []*hit, rep *LossReport) error {
	l, err := t.loss(hits)
	if err != nil {
		return err
	}
	again, err := t.balance()
	before := hits[0].before
	protected, unprotected := t.protected(before, l)
	errs := []error{s.Job.check(t.out), err, unprotected, t.explained(l)}
	if k.frozen {
		errs = append(errs, t.exactly(before, hits[0].worker))
		rep.Exact++
	}
	rep.Kills++
	rep.Twice += len(hits) - 1
	rep.Again += again
	rep.Protected += protected
	if k.leader {
		rep.Leaders++
	}
	s.Log("%s: %d ran again, %d finished ones out of reach did not", k, again, protected)
	return errors.Join(errs...)
}

// loss reads from the events what became of the workers that were hit.
func (t *trial) loss(hits []*hit) (l loss, err error) {
	l.workers = map[string]bool{}
	for _, h := range hits {
		l.workers[h.worker] = false
	}
	for _, e := range t.events {
		if e.Kind != "worker-lost" {
			continue
		}
		was := slices.IndexFunc(hits, func(h *hit) bool { return h.worker == e.Worker && !h.lives })
		if was < 0 {
			err = errors.Join(err, fmt.Errorf("worker %s was declared lost, which was not hit: %s", e.Worker, e.Message))
			continue
		}
		l.workers[e.Worker] = true
	}
	return l, err
}

// hurt waits for the moment, and hits. It returns nil if the job was at its end.
func (s *BatchLoss) hurt(ctx context.Context, k strike, t *trial) (h *hit, err error) {
	if err := cluster.Rest(ctx, time.Duration(k.at*float64(s.took))); err != nil {
		return nil, err
	}
	var stopped frozen
	defer func() { err = errors.Join(err, stopped.thaw()) }()
	st, err := s.cl.Status(ctx, t.job)
	if err == nil && k.frozen {
		stopped, st, err = freeze(ctx, s.cl, t.watch)
	}
	if err != nil {
		return nil, err
	}
	// The watch has to have seen what the loss is compared with.
	if _, err := t.watch.await(ctx, "the moment before", func(w *apipb.StatusResponse) bool { return w.Revision >= st.Revision || terminal(st.Status) }); err != nil {
		return nil, err
	}
	acting := slices.Contains(t.known(st), model.Acting) || slices.Contains(t.known(st), model.Waiting)
	if terminal(st.Status) || !acting {
		return nil, nil
	}
	h = &hit{before: st, lives: k.target == itsOwnOnly, wiped: k.back == empty && k.target != itsOwnOnly}
	if h.node, h.worker, err = s.victim(ctx, k, st); err != nil {
		return nil, err
	}
	var tasks []cluster.Task
	if h.lives {
		if tasks, err = h.node.Tasks(); err != nil || len(tasks) == 0 {
			return nil, err
		}
	}
	fault := run.NewGroup(ctx, "loss")
	if k.leader {
		leader, err := s.c.AwaitLeader(ctx, nil)
		if err != nil {
			return nil, err
		}
		fault.Go("leader", func(ctx context.Context) error { return s.killLeader(ctx, leader) })
	}
	fault.Go("victim", func(ctx context.Context) error {
		if h.lives {
			return s.killTasks(h.node, tasks)
		}
		if err := s.crash(ctx, h.node); err != nil {
			return err
		}
		return s.comeBack(ctx, k, h)
	})
	if k.frozen {
		fault.Go("thaw", func(ctx context.Context) error { return s.settled(ctx, t, h) })
	}
	return h, fault.Wait()
}

// victim is whom the strike is for.
func (s *BatchLoss) victim(ctx context.Context, k strike, st *apipb.StatusResponse) (*cluster.Node, string, error) {
	nodes, err := workerNodes(ctx, s.cl)
	if err != nil {
		return nil, "", err
	}
	var ids []string
	for _, t := range st.Subtasks {
		first := t.Index == 0 && slices.Contains(t.Operators, firstOperator)
		if t.Attempt > 0 && (k.target == aWorker || first) && !slices.Contains(ids, t.Worker) && nodes[t.Worker] != nil {
			ids = append(ids, t.Worker)
		}
	}
	if len(ids) == 0 {
		return nil, "", errors.New("nobody has anything of the job")
	}
	id := ids[s.rnd.IntN(len(ids))]
	return nodes[id], id, nil
}

func (s *BatchLoss) crash(ctx context.Context, n *cluster.Node) error {
	s.log.Fault("crash", n.Name())
	return n.Crash(ctx)
}

func (s *BatchLoss) killTasks(n *cluster.Node, tasks []cluster.Task) error {
	var errs []error
	for _, t := range tasks {
		s.log.Fault("kill task process", fmt.Sprintf("%s, process %d", n.Name(), t.PID))
		errs = append(errs, t.Kill())
	}
	return errors.Join(errs...)
}

func (s *BatchLoss) killLeader(ctx context.Context, n *cluster.Node) error {
	s.log.Fault("kill", n.Name())
	if err := n.Kill(); err != nil {
		return err
	}
	_, err := s.c.AwaitLeader(ctx, n)
	s.log.Fault("start", n.Name())
	return errors.Join(err, n.Start(ctx))
}

// comeBack starts the victim again: at once, or when it was declared lost and its job has restarted.
func (s *BatchLoss) comeBack(ctx context.Context, k strike, h *hit) (err error) {
	switch {
	case h.wiped:
		err = h.node.Wipe()
	case k.back == late:
		cl := s.client("comeback", 1)
		if _, err = awaitEvent(ctx, cl, h.before.Revision, func(e *jobpb.Event) bool { return e.Kind == "worker-lost" && e.Worker == h.worker }); err == nil && k.frozen {
			err = cluster.Rest(ctx, 2*quiet) // for the decision that follows
		}
	}
	s.log.Fault("start", h.node.Name())
	return errors.Join(err, h.node.Start(ctx))
}

// settled returns when what follows from a loss is decided: regions have restarted, or nothing has although the fate of the
// victim is known.
func (s *BatchLoss) settled(ctx context.Context, t *trial, h *hit) error {
	cl := s.client("settled", 2)
	cause, err := awaitEvent(ctx, cl, h.before.Revision, func(e *jobpb.Event) bool {
		return e.Kind == "region-restarted" && e.Job == t.job || !h.lives && e.Worker == h.worker && (e.Kind == "worker-lost" || e.Kind == "worker-registered")
	})
	if err != nil || cause.Kind == "region-restarted" {
		return err
	}
	return cluster.Rest(ctx, 2*quiet)
}

// recovered waits until a worker is back, and its former self is lost if it is another one: the next loss is one of its own.
func (s *BatchLoss) recovered(ctx context.Context, h *hit) error {
	if h.lives {
		return nil
	}
	if _, err := awaitEvent(ctx, s.cl, h.before.Revision, func(e *jobpb.Event) bool {
		return e.Kind == "worker-registered" && e.Message == h.node.API
	}); err != nil {
		return fmt.Errorf("%s has not registered again: %w", h.node.Name(), err)
	}
	if !h.wiped {
		return nil
	}
	if _, err := awaitEvent(ctx, s.cl, h.before.Revision, func(e *jobpb.Event) bool { return e.Kind == "worker-lost" && e.Worker == h.worker }); err != nil {
		return fmt.Errorf("the former self of %s is not lost: %w", h.node.Name(), err)
	}
	return nil
}
