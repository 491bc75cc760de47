package adoption

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/timer"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/adopt"
)

const (
	// patience is how long stores are asked before the checkpoint counts as unreadable, or the manifest as not writable.
	patience = 30 * time.Second
	pause    = 200 * time.Millisecond
	mostTime = 5 * time.Second
)

// Want is what has to be done now.
type Want uint8

// What a Step wants.
const (
	Nothing Want = iota // but to wait for an answer, or until Again
	Read                // the manifest that is adopted
	Write               // Data, under a name of the plan that goes on
	Finish              // Result is there
)

// Adoption is one checkpoint on its way to another plan.
type Adoption struct {
	in       adopt.Input
	deadline time.Time // zero: nothing was tried
	pace     timer.Pace
	asked    Want // under way
	err      error
	code     string // of err
	made     *snapshotpb.Manifest
	data     []byte
	stored   *jobpb.StoredObject
	failure  *jobpb.Failure
}

// New begins to adopt the newest checkpoint of a job for a plan, with which the job goes on in an epoch of it. fits is that of
// adopt.Input; nil: schemas have to be equal.
func New(job *state.Job, p *jobpb.Plan, epoch uint64, fits func(old, now string) error) *Adoption {
	if fits == nil {
		fits = func(string, string) error { return errors.New("the schemas differ") }
	}
	return &Adoption{in: adopt.Input{
		Job: job.ID(), JobEpoch: epoch, Checkpoint: job.Newest().GetId(), Plan: p, Ignore: job.Head().Spec.GetOrigin().GetIgnore(), Fits: fits,
	}}
}

// Of reports whether it is the newest checkpoint of the job that is adopted, for this plan.
func (a *Adoption) Of(job *state.Job, p *jobpb.Plan) bool {
	return a != nil && a.in.Plan == p && a.in.Checkpoint == job.Newest().GetId()
}

// Awaits reports whether answers about this checkpoint are for it.
func (a *Adoption) Awaits(id uint64) bool { return a != nil && a.in.Checkpoint == id }

// Data is the manifest to be written.
func (a *Adoption) Data() []byte { return a.data }

// Again is when to take the next Step, if no answer comes before.
func (a *Adoption) Again() time.Time { return a.pace.Next() }

// Step says what has to be done now.
func (a *Adoption) Step(now time.Time) Want {
	if a.deadline.IsZero() {
		a.deadline = now.Add(patience)
	}
	switch {
	case a.stored != nil || a.failure != nil:
		return Finish
	case a.asked != Nothing:
		return Nothing
	case a.err != nil && !now.Before(a.deadline):
		a.fail(a.code, a.err.Error())
		return Finish
	case !a.pace.Due(now, pause, mostTime):
		return Nothing
	}
	if a.asked = Read; a.made != nil {
		a.asked = Write
	}
	return a.asked
}

func (a *Adoption) fail(code, message string) {
	a.failure = &jobpb.Failure{Code: code, Kind: jobpb.FailureKind_FAILURE_FATAL, Message: message}
}

// Fetched brings the manifest that is adopted, or says why it cannot be read now.
func (a *Adoption) Fetched(m *snapshotpb.Manifest, err error) {
	if a.asked != Read {
		return
	}
	a.asked = Nothing
	if _, bad := errors.AsType[*snapshot.FormatError](err); bad {
		a.fail(snapshot.CodeFormat, err.Error())
		return
	}
	if err != nil {
		a.code, a.err = snapshot.CodeRead, fmt.Errorf("the checkpoint that the job begins with cannot be read: %w", err)
		return
	}
	a.pace = timer.Pace{}
	made, err := adopt.Translate(m, a.in)
	if refused, ok := errors.AsType[*adopt.Error](err); ok {
		a.fail(refused.Code, refused.Error())
		if refused.Hint != "" {
			a.failure.Message += "\n  fix: " + refused.Hint
		}
		return
	}
	if err == nil {
		a.data, err = snapshot.EncodeManifest(made)
	}
	if err != nil {
		a.fail(snapshot.CodeFormat, err.Error())
		return
	}
	a.made = made
}

// Stored tells that the manifest of the plan is durable, or why it may not be.
func (a *Adoption) Stored(o *jobpb.StoredObject, err error) {
	if a.asked != Write {
		return
	}
	if a.asked = Nothing; err != nil {
		a.code, a.err = snapshot.CodeWrite, fmt.Errorf("the manifest of checkpoint %d cannot be stored: %w", a.in.Checkpoint, err)
		return
	}
	a.stored = o
}

// Result is what a command may put into the facts, or why there is none, once Step has said Finish.
func (a *Adoption) Result() (*commandpb.Adopted, *jobpb.Failure) {
	if a.failure != nil {
		return nil, a.failure
	}
	out := &commandpb.Adopted{Manifest: a.stored, Objects: []string{a.stored.Object.Name}, Sources: a.made.Sources}
	for _, o := range a.made.Objects {
		out.Objects = append(out.Objects, o.Name)
	}
	slices.Sort(out.Objects)
	return out, nil
}
