package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/flow/launch/workdir"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/overflow"
	"github.com/sluiceio/sluice/worker/task"
)

// Directories below that of the run.
const (
	resultsDir = "results"
	spillDir   = "spill"
	stateDir   = "state"
)

// disk is what an embedded job keeps in files while it runs.
type disk struct {
	dir   *workdir.Dir
	store *stored.Store
	spill *spill.Area
}

// needsDisk reports whether anything of a plan is kept in files: most live jobs need none.
func needsDisk(p *jobpb.Plan) bool {
	for _, e := range p.Edges {
		if e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			return true
		}
	}
	for _, op := range p.Graph.Operators {
		if op.BatchMemory || keepsState(op) {
			return true
		}
	}
	return false
}

// keepsState reports whether an operator has keyed state, which may exceed its memory. A source has a position, no more.
func keepsState(op *jobpb.Operator) bool { return op.Stateful && len(op.Inputs) > 0 }

// DirectoryError says that an embedded run has no place for its files.
type DirectoryError struct {
	Diagnostic *jobpb.Diagnostic
	Cause      error
}

func (e *DirectoryError) Error() string { return Format("error", e.Diagnostic) }

func (e *DirectoryError) Unwrap() error { return e.Cause }

// noDirectory tells what could not be kept in files, and what to do.
func noDirectory(p *jobpb.Plan, cause error) *DirectoryError {
	code, what := stored.CodeWrite, "the results of blocking exchanges cannot be stored"
	if slices.ContainsFunc(p.Graph.Operators, keepsState) {
		code, what = state.CodeOverflow, "keyed state that exceeds state.memory cannot be stored"
	}
	if slices.ContainsFunc(p.Graph.Operators, func(o *jobpb.Operator) bool { return o.BatchMemory }) {
		code, what = spill.CodeSpace, "records that exceed batch.memory cannot be spilled"
	}
	return &DirectoryError{Cause: cause, Diagnostic: &jobpb.Diagnostic{
		Code: code, Message: fmt.Sprintf("%s: %v", what, cause),
		Hints: []string{"set TMPDIR to a directory that can be written and has room"},
	}}
}

// openDisk makes the directory of a run. close removes it.
func openDisk(m *workdir.Maker, settings setting.Values) (_ *disk, err error) {
	compression, err := spill.ParseCompression(settings.Text(setting.BatchCompress))
	if err != nil {
		return nil, fmt.Errorf("setting %s: %w", setting.BatchCompress, err)
	}
	dir, err := m.Make()
	if err != nil {
		return nil, err
	}
	d := &disk{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if d.store, err = stored.Open(workdir.FS{}, dir.Join(resultsDir)); err != nil {
		return nil, err
	}
	d.spill, err = spill.NewArea(spill.Config{FS: workdir.FS{}, Dir: dir.Join(spillDir), Compression: compression})
	return d, err
}

// close removes everything. Nobody uses it any more.
func (d *disk) close() error {
	if d == nil {
		return nil
	}
	return d.dir.Remove()
}

// drop deletes stored results that nobody needs.
func (d *disk) drop(m *taskpb.DropPartitions) error {
	if d == nil {
		return nil
	}
	if m.All {
		return d.store.DropJob(m.Job)
	}
	names := make([]stored.Name, len(m.Partitions))
	for i, p := range m.Partitions {
		names[i] = partition.FromProto(m.Job, p)
	}
	return d.store.Drop(names...)
}

// audit finds the stored results of a job that have disappeared.
func (d *disk) audit(ctx context.Context, job string) *controlpb.PartitionInventory {
	inv := &controlpb.PartitionInventory{Job: job}
	if d == nil {
		return inv
	}
	for _, n := range d.store.Audit(ctx, job) {
		inv.Partitions = append(inv.Partitions, n.Proto())
	}
	return inv
}

// inventory is what a worker tells of its stored results when it registers.
func (d *disk) inventory() (all []*taskpb.PartitionName) {
	if d == nil {
		return nil
	}
	for _, f := range d.store.Inventory() {
		all = append(all, f.Name.Proto())
	}
	return all
}

// openState makes the memory of keyed state and its overflow. Without a directory everything stays in memory.
func (d *disk) openState(bytes int64) (task.StateMemory, error) {
	if d == nil {
		return task.StateMemory{}, nil
	}
	b := budget.New(bytes)
	store, err := overflow.New(overflow.Config{Dir: d.dir.Join(stateDir), Budget: b})
	return task.StateMemory{Budget: b, Overflow: store}, err
}

// runState removes what tables have left behind in their overflow, and closes that when ctx ends.
func runState(s task.StateMemory) func(context.Context) error {
	return func(ctx context.Context) error { return errors.Join(s.Overflow.Run(ctx), s.Overflow.Close()) }
}
