package worker

import (
	"fmt"
	"strings"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/spawn"
)

// Codes of what can happen to a task process; docs/errors.md.
const (
	codeNoExec      = "E041" // not an executable of this platform
	codeNoJob       = "E042" // no Hello
	codeBuildDied   = "E043" // the build function panicked, or took its process down
	codeBuildTime   = "E044" // time limit
	codeProtocol    = "E045" // protocol outside the window
	codeNoArtifact  = "E060" // the job binary could not be fetched
	codeNoStart     = "E061" // the process could not be started
	codeCrashed     = "E062" // it ended by itself
	codeOutOfMemory = "E063" // killed by the system
	codeKilled      = "E064" // killed from outside
	codeGarbled     = "E065" // it does not speak the task protocol
	codeAbsent      = "E067" // it is not on this worker
	codeRefused     = "E068" // the worker cannot carry out what the leader asks
	codeStdout      = "W040" // the build function wrote to standard output
)

// order is why a process was asked to end. The zero value: it was not.
type order struct {
	reason string
	kind   jobpb.FailureKind // what its end means for the attempts in it
}

// ending is everything that is known about the end of a process.
type ending struct {
	exit    spawn.Exit
	order   order
	killed  bool           // it did not end in time
	failure *jobpb.Failure // what it, or the agent, said was wrong
	silent  *jobpb.Failure // it ended before it had introduced itself; stands if nobody else is to blame
	oom     bool           // the system has killed something for want of memory meanwhile
	stderr  string
	crash   string // the beginning of a panic or a fatal error
}

// report turns the end of a process into what the leader commits. The kind decides about restarts: an end that was
// ordered has the kind of the order; a death from outside is a loss; everything else is the work of user code.
func (e ending) report() *controlpb.ProcessExit {
	x := &controlpb.ProcessExit{
		Code: int32(e.exit.Code), Signal: e.exit.Signal, StderrTail: e.stderr,
	}
	switch {
	case e.failure != nil:
		x.Failure, x.Kind, x.Reason = e.failure, e.failure.Kind, e.failure.Message
	case e.order.reason != "":
		x.Kind, x.Reason = e.order.kind, e.order.reason
		if e.killed {
			x.Reason += " (did not end in time and was killed)"
		}
	default:
		x.Failure = e.diagnose()
		x.Kind, x.Reason = x.Failure.Kind, x.Failure.Message
	}
	return x
}

// foreign is the failure of a process that somebody else has ended, neither the worker nor itself; nil if that is not so.
func (e ending) foreign() *jobpb.Failure {
	switch {
	case e.killed:
	case e.exit.Signal == "SIGKILL" && e.oom:
		return &jobpb.Failure{
			Code: codeOutOfMemory, Kind: jobpb.FailureKind_FAILURE_USER, Stack: e.crash,
			Message: "the task process was killed by the system for want of memory: give the worker more --memory, or the job fewer slots on it",
		}
	case e.exit.Signal == "SIGKILL" || e.exit.Signal == "SIGTERM" || e.exit.Signal == "SIGINT":
		return &jobpb.Failure{
			Code: codeKilled, Kind: jobpb.FailureKind_FAILURE_LOSS, Stack: e.crash,
			Message: "the task process was killed from outside by " + e.exit.Signal,
		}
	}
	return nil
}

// diagnose explains an end that nobody ordered.
func (e ending) diagnose() *jobpb.Failure {
	if f := e.foreign(); f != nil {
		return f
	}
	if e.silent != nil {
		return e.silent
	}
	f := &jobpb.Failure{Code: codeCrashed, Kind: jobpb.FailureKind_FAILURE_USER, Stack: e.crash}
	cause, _, _ := strings.Cut(e.crash, "\n")
	switch {
	case e.killed:
		f.Message = "the task process closed its link to the worker, did not end and was killed: only the runtime may use its inherited descriptors"
	case cause != "":
		f.Message = "the task process crashed: " + cause
	case e.exit.Signal != "":
		f.Message = "the task process " + e.exit.String()
	default:
		f.Message = fmt.Sprintf("the task process %s by itself: user code must return an error instead of calling os.Exit or log.Fatal", e.exit)
	}
	return f
}
