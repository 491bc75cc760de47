package api

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/coordinator/artifact"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/apipb"
)

// Stable codes of this package's errors.
const (
	CodeForeignPlatform = "E040"
	CodeNotELF          = "E041"
	CodeProtocol        = "E045"
	CodeNoLeader        = "E069"
	CodeUnknownOutcome  = "E070"
	CodeUnknownJob      = state.CodeNoJob
	CodeNoArtifact      = state.CodeNoArtifact
	CodeUpload          = "E074"
	CodeInvalid         = "E075"
	CodeUnknownPeer     = "E076"
	CodeMembership      = "E077"
	CodeNoWorker        = "E078"
	CodeUnknownWorker   = state.CodeNoWorker
	CodeWrongStatus     = state.CodeWrongStatus
	CodeSnapshot        = "E080"
	CodeInternal        = "E081"
	CodeSession         = "E082"
	CodeSlots           = "E160"
)

// ErrNotLeader: this node does not lead, or not any more.
var ErrNotLeader = errors.New("this coordinator is not the leader")

// Outcome says what is known about a proposal that failed.
type Outcome int

// The outcomes.
const (
	NotDone Outcome = iota // it did not happen and will not
	Unknown                // it may have happened
)

// ProposalError is a command that was not answered.
type ProposalError struct {
	Cause   error
	Outcome Outcome
}

func (e *ProposalError) Error() string {
	if e.Outcome == Unknown {
		return fmt.Sprintf("it is unknown whether the command was committed: %v", e.Cause)
	}
	return fmt.Sprintf("the command was not committed: %v", e.Cause)
}

func (e *ProposalError) Unwrap() error { return e.Cause }

// Refusal is an error that already knows how a client should see it.
type Refusal struct {
	Status codes.Code
	Code   string
	Cause  error
	Hints  []string
	// Retryable: the same call may succeed later.
	Retryable bool
}

func (e *Refusal) Error() string { return e.Cause.Error() }
func (e *Refusal) Unwrap() error { return e.Cause }

// Fail is the one place where an error gets its code. Errors that carry one already pass.
func (s *Server) Fail(err error) error {
	if err == nil {
		return nil
	}
	if _, coded := apipb.DetailOf(err); coded {
		return err
	}
	var refusal *Refusal
	var proposal *ProposalError
	switch {
	case errors.As(err, &refusal):
		detail := &apipb.ErrorDetail{Code: refusal.Code, Hints: refusal.Hints, Retryable: refusal.Retryable, Leader: s.leaderAddress()}
		return apipb.NewError(refusal.Status, detail, "%s", refusal.Error())
	case errors.As(err, &proposal) && proposal.Outcome == Unknown:
		return apipb.NewError(codes.Unavailable, &apipb.ErrorDetail{
			Code: CodeUnknownOutcome, Retryable: true, UnknownOutcome: true, Leader: s.leaderAddress(),
			Hints: []string{"ask again with the same request id: it is done once, however often it is asked"},
		}, "%s", err.Error())
	case errors.Is(err, ErrNotLeader), errors.As(err, &proposal):
		return s.noLeader(err)
	case errors.Is(err, context.DeadlineExceeded):
		return apipb.NewError(codes.DeadlineExceeded, nil, "%s", err.Error())
	case errors.Is(err, context.Canceled):
		return apipb.NewError(codes.Canceled, nil, "%s", err.Error())
	case errors.Is(err, errIdle):
		return apipb.NewError(codes.DeadlineExceeded, &apipb.ErrorDetail{Code: CodeUpload, Retryable: true}, "%s", err.Error())
	case errors.Is(err, artifact.ErrMissing):
		return apipb.NewError(codes.NotFound, &apipb.ErrorDetail{Code: CodeNoArtifact}, "%s", err.Error())
	case errors.Is(err, artifact.ErrTooLarge), errors.Is(err, artifact.ErrCutOff), errors.Is(err, artifact.ErrDigest):
		return apipb.NewError(codes.InvalidArgument, &apipb.ErrorDetail{
			Code: CodeUpload, Hints: []string{"nothing was stored; upload the file again"},
		}, "%s", err.Error())
	}
	if st, ok := status.FromError(err); ok && st.Code() != codes.Unknown {
		return err // from another process, as it said it
	}
	var panicked *run.PanicError
	if errors.As(err, &panicked) {
		s.cfg.Log.Error("handler panicked", "error", err, "stack", string(panicked.Stack))
	} else {
		s.cfg.Log.Error("call failed", "error", err)
	}
	return apipb.NewError(codes.Internal, &apipb.ErrorDetail{Code: CodeInternal}, "%s", err.Error())
}

// noLeader is the answer of a cluster that cannot decide anything at the moment.
func (s *Server) noLeader(cause error) error {
	return apipb.NewError(codes.Unavailable, &apipb.ErrorDetail{
		Code: CodeNoLeader, Retryable: true, Leader: s.leaderAddress(),
		Hints: []string{"sluice peers --stale shows which coordinators can be reached; a majority is needed"},
	}, "no leader: %v", cause)
}

func (s *Server) leaderAddress() string {
	leader, _ := s.leadership.Leader()
	return leader.Address
}

func invalid(err error) error {
	return apipb.NewError(codes.InvalidArgument, &apipb.ErrorDetail{Code: CodeInvalid}, "invalid request: %v", err)
}

func unknownJob(job string) error {
	return apipb.NewError(codes.NotFound, &apipb.ErrorDetail{
		Code: CodeUnknownJob, Where: job, Hints: []string{"sluice list shows the jobs that are known"},
	}, "unknown job %q", job)
}

// refused translates a result that is no success; the code is the one that the facts gave.
func refused(r state.Result) error {
	detail := &apipb.ErrorDetail{Code: r.Code, Where: r.Job}
	code := codes.FailedPrecondition
	switch r.Code {
	case state.CodeNoJob, state.CodeNoWorker:
		code = codes.NotFound
	case state.CodeMalformed:
		code = codes.InvalidArgument
	case state.CodeFull:
		code = codes.ResourceExhausted
	case state.CodeNoArtifact:
		detail.Retryable, detail.Hints = true, []string{"upload the binary first"}
	case "":
		detail.Code = CodeInvalid
	}
	return apipb.NewError(code, detail, "%s", r.Message)
}
