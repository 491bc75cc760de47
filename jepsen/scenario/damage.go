package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/model"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Damage harms the files of stored results, one by one, each in a job of its own: after its producer has finished and
// before anybody reads. It promises: the file's producer runs again, what had not finished with its readers as well, and
// nobody else; the rows are right.
//
// That nobody has read a file yet is no luck: a result is read when all of its stage are there, and another producer of
// the stage is held until the harm is done.
type Damage struct {
	Job         Stages
	Dir         string
	Files       int // how many, in an order that the seed draws; negative: every one in every way
	Parallelism int32
	Seed        uint64
	Log         func(format string, args ...any)

	*ground
}

// DamageReport is what happened.
type DamageReport struct {
	Files  int // damaged
	Missed int // jobs whose stage was too quick
	Again  int // subtasks that ran again
}

// Ways to damage a file.
type way string

const (
	deleted   way = "deleted"
	truncated way = "truncated"
	flipped   way = "flipped"
)

// harm is one planned damage.
type harm struct {
	stage    int // of those that store something
	producer int32
	file     string // data or index
	way      way
}

func (h harm) String() string {
	return fmt.Sprintf("%s of producer %d of stage %d %s", h.file, h.producer, h.stage+1, h.way)
}

// harms are all of them, in an order in which also the first few differ in everything.
func (s *Damage) harms() (all []harm) {
	for i := range storingStages * s.Parallelism {
		for _, file := range []string{"data", "index"} {
			for _, w := range []way{deleted, truncated, flipped} {
				all = append(all, harm{stage: int(i) / int(s.Parallelism), producer: i % s.Parallelism, file: file, way: w})
			}
		}
	}
	s.rnd.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	kinds := func(h harm) string { return h.file + string(h.way) }
	first := map[string]int{} // by kind: how many came before
	turn := make(map[harm]int, len(all))
	for _, h := range all {
		turn[h] = first[kinds(h)]
		first[kinds(h)]++
	}
	slices.SortStableFunc(all, func(a, b harm) int { return turn[a] - turn[b] })
	if s.Files >= 0 && s.Files < len(all) {
		all = all[:s.Files]
	}
	return all
}

// storingStages of the job store a result for the next one.
const storingStages = 3

// Run performs the experiment.
func (s *Damage) Run(ctx context.Context) (rep DamageReport, err error) {
	if s.ground, err = newGround(ctx, s.Job, s.Dir, s.Seed); err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for i, h := range s.harms() {
		if err := s.one(ctx, i, h, &rep); err != nil {
			return rep, fmt.Errorf("damage %d, %s: %w", i+1, h, err)
		}
	}
	return rep, nil
}

// one damages one file. It tries again when the stage is done before it can be held.
func (s *Damage) one(ctx context.Context, i int, h harm, rep *DamageReport) error {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	for try := range 10 {
		t, err := s.start(ctx, fmt.Sprintf("damage-%d-%d", i+1, try), s.Parallelism)
		if err != nil {
			return err
		}
		victim, err := s.strike(ctx, t, h)
		if err == nil {
			err = t.finish(ctx, s.cl)
		}
		if err != nil {
			return errors.Join(err, t.watch.stop())
		}
		if victim < 0 {
			rep.Missed++
			continue
		}
		again, err := s.judge(t, victim)
		rep.Files++
		rep.Again += again
		s.Log("%s: %d subtasks ran again", h, again)
		return errors.Join(err, swept(ctx, s.c, t.job))
	}
	return errors.New("no job could be held at that stage")
}

// strike waits for the stage, holds a producer of it, and damages a file of another one that has finished. It returns the
// producer of that file, by its number in the model; -1 if the stage was done too soon.
func (s *Damage) strike(ctx context.Context, t *trial, h harm) (victim int, err error) {
	edge := t.storing(h.stage)
	if edge == nil {
		return -1, fmt.Errorf("the plan has no stage %d that stores", h.stage+1)
	}
	victim = t.plan.Position(edge.FromChain, h.producer)
	if _, err := t.watch.await(ctx, "stage", func(st *apipb.StatusResponse) bool { return t.active(st, edge.FromChain) || terminal(st.Status) }); err != nil {
		return -1, err
	}
	var stopped frozen
	defer func() { err = errors.Join(err, stopped.thaw()) }()
	if stopped, err = stopped.all(s.c); err != nil {
		return -1, err
	}
	nodes, err := workerNodes(ctx, s.cl)
	if err != nil {
		return -1, err
	}
	if stopped, err = s.hold(ctx, t, edge, victim, nodes, stopped); err != nil || len(stopped) == 0 {
		return -1, err
	}
	st, err := t.watch.await(ctx, "the end of the producer", func(st *apipb.StatusResponse) bool { return t.known(st)[victim] == model.Finished })
	if err != nil {
		return -1, err
	}
	for _, r := range t.plan.Readers(victim) {
		if t.known(st)[r] != model.Waiting {
			return -1, fmt.Errorf("%v reads although a producer of the stage is held", t.plan.Subtasks[r])
		}
	}
	return victim, s.damage(nodes[t.worker(st, victim)], t.job, edge, h)
}

// storing is the edge for which a stage stores, in the order of the plan.
func (t *trial) storing(stage int) *jobpb.Edge {
	for _, e := range t.made.Edges {
		if e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			if stage == 0 {
				return e
			}
			stage--
		}
	}
	return nil
}

// active: every subtask of a chain has been given an attempt, and some are at work.
func (t *trial) active(st *apipb.StatusResponse, chain int32) bool {
	acting := false
	for _, sub := range st.Subtasks {
		if sub.Chain == chain && sub.Attempt == 0 {
			return false
		}
		acting = acting || sub.Chain == chain && sub.State == jobpb.SubtaskState_SUBTASK_RUNNING
	}
	return acting
}

func (t *trial) worker(st *apipb.StatusResponse, i int) string {
	for _, sub := range st.Subtasks {
		if t.plan.Position(sub.Chain, sub.Index) == i {
			return sub.Worker
		}
	}
	return ""
}

// hold keeps one worker of a stage stopped on which another producer of the stage is at work, and lets all others go on.
// It holds nobody if there is none, or if somebody reads already.
func (s *Damage) hold(ctx context.Context, t *trial, edge *jobpb.Edge, victim int, nodes map[string]*cluster.Node, stopped frozen) (frozen, error) {
	if err := rest(ctx, quiet); err != nil { // for what was under way
		return stopped, err
	}
	st, err := s.cl.status(ctx, t.job)
	if err != nil {
		return stopped, err
	}
	var held *cluster.Node
	states := t.known(st)
	for i, sub := range t.plan.Subtasks {
		if id := t.worker(st, i); sub.Chain == edge.FromChain && states[i] == model.Acting && id != t.worker(st, victim) {
			held = nodes[id]
		}
	}
	if held == nil || slices.ContainsFunc(t.plan.Readers(victim), func(r int) bool { return states[r] != model.Waiting }) {
		return nil, stopped.thaw()
	}
	tasks, err := held.Tasks()
	if err != nil {
		return stopped, err
	}
	var rest frozen
	for _, p := range stopped {
		if !slices.Contains(tasks, p) {
			rest = append(rest, p)
		}
	}
	return tasks, rest.thaw()
}

// damage harms one file.
func (s *Damage) damage(n *cluster.Node, job string, e *jobpb.Edge, h harm) error {
	pattern := filepath.Join(n.Dir(), "partitions", job, "*", fmt.Sprintf("e%d-p%d-a1.%s", e.Index, h.producer, h.file))
	found, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("%d files %s", len(found), pattern)
	}
	s.log.Fault(string(h.way), found[0])
	info, err := os.Stat(found[0])
	if err != nil {
		return err
	}
	switch size := info.Size(); {
	case h.way == deleted:
		return os.Remove(found[0])
	case size == 0:
		return fmt.Errorf("%s is empty", found[0])
	case h.way == truncated:
		return os.Truncate(found[0], s.rnd.Int64N(size))
	default:
		return flip(found[0], s.rnd.Int64N(size), byte(1)<<s.rnd.IntN(8))
	}
}

func flip(path string, at int64, bit byte) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		return err
	}
	b[0] ^= bit
	_, err = f.WriteAt(b[:], at)
	return err
}

// judge compares what happened with what may.
func (s *Damage) judge(t *trial, victim int) (again int, err error) {
	l := loss{damaged: []model.Subtask{t.plan.Subtasks[victim]}, direct: true}
	again, err = t.balance()
	errs := []error{s.job.check(t.out), err, t.explained(l)}
	producers, readers := t.plan.Together(victim), t.plan.Readers(victim)
	found := false
	for i := range t.plan.Subtasks {
		attempt := t.attempt(t.final, i)
		switch {
		case slices.Contains(producers, i):
			if attempt != 2 {
				errs = append(errs, fmt.Errorf("%s made the damaged result and is attempt %d at the end, want 2", t.name(i), attempt))
			}
		case slices.Contains(readers, i):
			found = found || attempt == 2
			if attempt > 2 {
				errs = append(errs, fmt.Errorf("%s reads the damaged result and is attempt %d at the end, want 2 at most", t.name(i), attempt))
			}
		case attempt != 1:
			errs = append(errs, fmt.Errorf("%s has nothing to do with the damage and is attempt %d at the end", t.name(i), attempt))
		}
	}
	if n := len(t.restarts(t.job)); n != 1 || !found {
		errs = append(errs, fmt.Errorf("%d restarts, a reader among those that ran again: %t; want one in which it is", n, found))
	}
	return again, errors.Join(errs...)
}
