package state

import (
	"fmt"

	"github.com/sluiceio/sluice/coordinator/state/answer"
)

// What applying a command says.
type (
	Status = answer.Status
	Result = answer.Result
	Chain  = answer.Chain
)

// What became of a command.
const (
	Applied   = answer.Applied
	Stale     = answer.Stale
	Refused   = answer.Refused
	Duplicate = answer.Duplicate
	Halt      = answer.Halt
)

// Codes of results that clients see.
const (
	CodeRequestReused  = answer.CodeRequestReused
	CodeRequestExpired = answer.CodeRequestExpired
	CodeNoJob          = answer.CodeNoJob
	CodeNoArtifact     = answer.CodeNoArtifact
	CodeWrongStatus    = answer.CodeWrongStatus
	CodeMalformed      = answer.CodeMalformed
	CodeNoWorker       = answer.CodeNoWorker
	CodeNewer          = answer.CodeNewer
	CodeFull           = answer.CodeFull
	CodeInUse          = answer.CodeInUse
)

func applied(job string) Result { return Result{Status: Applied, Job: job} }

func stale(job, format string, args ...any) Result {
	return Result{Status: Stale, Job: job, Message: fmt.Sprintf(format, args...)}
}

func refused(code, format string, args ...any) Result {
	return Result{Status: Refused, Code: code, Message: fmt.Sprintf(format, args...)}
}
