package bounded

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

// Damage harms the files of stored results, one by one, each in a job of its own. It promises: the file's producer runs
// again, and what had not finished of its readers; those that had, if they might get other records; nobody else. The rows
// are right.
//
// What has been read at that moment is no luck. Early: a result is read when all of its stage are there, and another
// producer of the stage is held until the harm is done. Late: a reader is held until the others have finished; then the
// harm is done, and the reader killed, so that it has to read again.
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
	late     bool
}

func (h harm) String() string {
	moment := "before it is read"
	if h.late {
		moment = "before one reads it again"
	}
	return fmt.Sprintf("%s of producer %d of stage %d %s %s", h.file, h.producer, h.stage+1, h.way, moment)
}

// harms are all of them, in an order in which also the first few differ in everything.
func (s *Damage) harms() (all []harm) {
	for i := range storingStages * s.Parallelism {
		for _, file := range []string{"data", "index"} {
			for _, w := range []way{deleted, truncated, flipped} {
				h := harm{stage: int(i) / int(s.Parallelism), producer: i % s.Parallelism, file: file, way: w}
				all = append(all, h)
				// A single bit is seen by one reader only, which may be one that has finished; and the last stage is too quick to
				// be held.
				if w != flipped && h.stage < storingStages-1 {
					h.late = true
					all = append(all, h)
				}
			}
		}
	}
	s.rnd.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	kinds := func(h harm) string { return fmt.Sprint(h.file, h.way, h.late) }
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
		hit, err := s.strike(ctx, t, h)
		if err == nil {
			err = t.finish(ctx, s.cl)
		}
		if err != nil {
			return errors.Join(err, t.watch.stop())
		}
		if hit == nil {
			rep.Missed++
			continue
		}
		again, err := s.judge(t, hit)
		rep.Files++
		rep.Again += again
		s.Log("%s: %d subtasks ran again", h, again)
		return errors.Join(err, swept(ctx, s.c, t.job))
	}
	return errors.New("no job could be held at that stage")
}

// wound is a damage that was done. Subtasks are numbers in the model.
type wound struct {
	edge   *jobpb.Edge
	victim int    // producer of the damaged result
	killed []int  // readers that had not finished, and whose process was killed
	worker string // of them
}

// strike waits for the stage, holds somebody of it, and does the harm. It returns nil if the stage was done too soon.
func (s *Damage) strike(ctx context.Context, t *trial, h harm) (w *wound, err error) {
	w = &wound{edge: t.storing(h.stage)}
	if w.edge == nil {
		return nil, fmt.Errorf("the plan has no stage %d that stores", h.stage+1)
	}
	w.victim = t.plan.Position(w.edge.FromChain, h.producer)
	stage := w.edge.FromChain
	if h.late {
		stage = w.edge.ToChain
	}
	if _, err := t.watch.await(ctx, "stage", func(st *apipb.StatusResponse) bool { return t.active(st, stage) || terminal(st.Status) }); err != nil {
		return nil, err
	}
	var stopped frozen
	defer func() { err = errors.Join(err, stopped.thaw()) }()
	if stopped, err = stopped.all(s.c); err != nil {
		return nil, err
	}
	nodes, err := workerNodes(ctx, s.cl)
	if err != nil {
		return nil, err
	}
	var held string
	if stopped, held, err = s.hold(ctx, t, w, stage, nodes, stopped); err != nil || held == "" {
		return nil, err
	}
	st, err := t.watch.await(ctx, "the end of the others", func(st *apipb.StatusResponse) bool {
		for i, sub := range t.plan.Subtasks {
			if sub.Chain == stage && t.worker(st, i) != held && t.known(st)[i] != model.Finished {
				return false
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(st.Subtasks, func(sub *apipb.SubtaskStatus) bool {
		return sub.Chain == stage && sub.Worker == held && t.known(st)[t.plan.Position(sub.Chain, sub.Index)] != model.Finished
	}) {
		return nil, nil // its end was under way when it was stopped: nobody is held
	}
	for _, r := range t.plan.Readers(w.victim) {
		switch is := t.known(st)[r]; {
		case !h.late && is != model.Waiting:
			return nil, fmt.Errorf("%v reads although a producer of the stage is held", t.plan.Subtasks[r])
		case h.late && is == model.Acting:
			w.killed, w.worker = append(w.killed, r), held
		}
	}
	if err := s.damage(nodes[t.worker(st, w.victim)], t.job, w.edge, h); err != nil || !h.late {
		return w, err
	}
	for _, p := range stopped {
		s.log.Fault("kill task process", fmt.Sprintf("%s, process %d", nodes[held].Name(), p.PID))
		err = errors.Join(err, p.Kill())
	}
	return w, err
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

// hold keeps one worker stopped on which a subtask of the stage is at work, other than that of the victim, and lets all
// others go on. It holds nobody if there is none, or if the stage behind it is at work already.
func (s *Damage) hold(ctx context.Context, t *trial, w *wound, stage int32, nodes map[string]*cluster.Node, stopped frozen) (frozen, string, error) {
	if err := cluster.Rest(ctx, quiet); err != nil { // for what was under way
		return stopped, "", err
	}
	st, err := s.cl.Status(ctx, t.job)
	if err != nil {
		return stopped, "", err
	}
	held, states := "", t.known(st)
	for i, sub := range t.plan.Subtasks {
		id := t.worker(st, i)
		if sub.Chain > stage && states[i] != model.Waiting {
			return stopped, "", nil
		}
		if sub.Chain == stage && states[i] == model.Acting && (stage != w.edge.FromChain || id != t.worker(st, w.victim)) {
			held = id
		}
	}
	if held == "" {
		return stopped, "", nil
	}
	tasks, err := nodes[held].Tasks()
	if err != nil {
		return stopped, "", err
	}
	var others frozen
	for _, p := range stopped {
		if !slices.Contains(tasks, p) {
			others = append(others, p)
		}
	}
	return tasks, held, others.thaw()
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
func (s *Damage) judge(t *trial, w *wound) (again int, err error) {
	l := loss{damaged: []model.Subtask{t.plan.Subtasks[w.victim]}, direct: true}
	if w.killed != nil {
		l.workers = map[string]bool{w.worker: false}
	}
	again, err = t.balance()
	errs := []error{s.job.check(t.out), err, t.explained(l)}
	found := false
	for i := range t.plan.Subtasks {
		least, most := t.attempts(w, i)
		is := t.attempt(t.final, i)
		if is < least || is > most {
			errs = append(errs, fmt.Errorf("%s is attempt %d at the end, want %d to %d", t.name(i), is, least, most))
		}
		found = found || is > 1 && slices.Contains(t.plan.Readers(w.victim), i)
	}
	want := 1
	if w.killed != nil {
		want = 2
	}
	if n := len(t.restarts(t.job)); n != want || !found {
		errs = append(errs, fmt.Errorf("%d restarts, a reader among those that ran again: %t; want %d with one", n, found, want))
	}
	return again, errors.Join(errs...)
}

// attempts that a subtask may have had in the end.
func (t *trial) attempts(w *wound, i int) (least, most uint32) {
	switch reads := slices.Contains(t.plan.Readers(w.victim), i); {
	case slices.Contains(t.plan.Together(w.victim), i):
		return 2, 2
	case slices.Contains(w.killed, i):
		return 3, 3 // once for the kill and once for the damage that it met then
	case reads && w.killed != nil && w.edge.Reproducible:
		return 1, 1 // it had finished
	case reads && !w.edge.Reproducible:
		return 2, 2 // finished or not, it might get other records
	case reads:
		return 1, 2 // some may have finished when another one met the damage
	}
	return 1, 1
}
