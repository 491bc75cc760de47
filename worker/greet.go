package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/spawn"
)

// linkError is a process that the agent cannot work with, with the code for the user.
type linkError struct {
	code, text string
	gone       bool // the process has left the link: its end, if that is why, may tell another story
	late       bool // it has not spoken in time
}

func (e *linkError) Error() string { return e.text }

// linkFailure makes the failure that is reported. No restart can cure it.
func linkFailure(err error) *jobpb.Failure {
	f := &jobpb.Failure{Code: codeGarbled, Message: err.Error(), Kind: jobpb.FailureKind_FAILURE_FATAL}
	var link *linkError
	if errors.As(err, &link) {
		f.Code = link.code
	}
	return f
}

// gone reports whether err says that the other end of a link is no more.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// lastBreath is how long the end of a process is waited for that has left its link.
const lastBreath = time.Second

// dying reports whether a process ends by itself that has left its link: it may have been killed, which is not its fault.
func dying(ctx context.Context, child *spawn.Child) bool {
	timer := time.NewTimer(lastBreath)
	defer timer.Stop()
	select {
	case <-child.Exited():
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// greet waits for the Hello of a started process and checks its protocol.
func (a *agent) greet(child *spawn.Child) (*taskpb.Hello, error) {
	if err := child.Link.SetReceiveDeadline(time.Now().Add(a.cfg.HelloTimeout)); err != nil {
		return nil, noJob("its link is of no use: " + err.Error())
	}
	var m taskpb.TaskMessage
	switch err := child.Link.Receive(&m); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		late := noJob(fmt.Sprintf("it did not introduce itself within %s", a.cfg.HelloTimeout))
		late.late = true
		return nil, late
	case gone(err):
		silent := noJob("it ended, or closed its link, without introducing itself")
		silent.gone = true
		return nil, silent
	case err != nil:
		return nil, noJob(err.Error())
	}
	hello := m.GetHello()
	if hello == nil {
		return nil, noJob(fmt.Sprintf("its first message was %T", m.Message))
	}
	if hello.Protocol < taskpb.ProtocolMin || hello.Protocol > taskpb.ProtocolMax {
		return nil, &linkError{code: codeProtocol, text: fmt.Sprintf(
			"the binary speaks task protocol %d (runtime %s), this worker %d to %d: rebuild the job against a release that the cluster supports, or upgrade the workers",
			hello.Protocol, hello.Version, taskpb.ProtocolMin, taskpb.ProtocolMax)}
	}
	return hello, child.Link.SetReceiveDeadline(time.Time{})
}

func noJob(why string) *linkError {
	return &linkError{code: codeNoJob, text: "the binary is not a sluice job: " + why +
		": its main function must call flow.Main before anything that blocks or exits"}
}

// execFailure explains why a binary could not be started: a file that the system cannot execute never will be.
func execFailure(err error) *jobpb.Failure {
	if errors.Is(err, syscall.ENOEXEC) {
		return &jobpb.Failure{
			Code: codeNoExec, Kind: jobpb.FailureKind_FAILURE_FATAL,
			Message: "the job binary is not an executable of this platform: " + err.Error(),
		}
	}
	return startFailure(codeNoStart, err)
}
