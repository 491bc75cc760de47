package answer

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Status says what became of a command.
type Status uint8

const (
	// Applied: the facts changed.
	Applied Status = iota + 1
	// Stale: the precondition no longer holds, or there was nothing to change. Nothing changed.
	Stale
	// Refused: the command can never be right: malformed, unknown job, request id used for something else. Nothing changed.
	Refused
	// Duplicate: a request id that was served before; Job is the answer given then. Nothing changed.
	Duplicate
	// Halt: the command is newer than this binary. The node must stop: whatever it did next would diverge.
	Halt
)

func (s Status) String() string {
	switch s {
	case Applied:
		return "applied"
	case Stale:
		return "stale"
	case Refused:
		return "refused"
	case Duplicate:
		return "duplicate"
	case Halt:
		return "halt"
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Codes of results that clients see. They are stable.
const (
	CodeRequestReused  = "E100" // the request id stands for another request
	CodeRequestExpired = "E101" // the request id is older than the cluster remembers
	CodeNoJob          = "E102" // no such job
	CodeNoArtifact     = "E103" // the artifact is not stored
	CodeWrongStatus    = "E104" // the job's status does not allow it
	CodeMalformed      = "E105" // the command is malformed
	CodeNoWorker       = "E106" // no such worker
	CodeNewer          = "E107" // the command is newer than this binary
	CodeFull           = "E108" // the cluster cannot keep more of it
	CodeInUse          = "E109" // the artifact is still needed
)

// Result is the answer to one command: equal on every coordinator and part of the hash chain.
type Result struct {
	Status  Status
	Code    string // stable, for clients; empty if there is nothing that a client could mend
	Message string
	Job     string // that the command created or concerns
	Index   uint64 // of the command
	// Dropped counts the parts of an applied command that were stale by themselves: reports of dead attempts, splits
	// that have an owner.
	Dropped int
}

func (r Result) String() string {
	s := r.Status.String()
	if r.Code != "" {
		s += " " + r.Code
	}
	if r.Message != "" {
		s += ": " + r.Message
	}
	return s
}

// Chain is a value of the hash chain over entries, results and changed records.
type Chain = [sha256.Size]byte

// Canonical appends the bytes that stand for r in the hash chain.
func (r Result) Canonical(b []byte) []byte {
	b = append(b, byte(r.Status))
	for _, s := range []string{r.Code, r.Message, r.Job} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return binary.AppendUvarint(b, uint64(r.Dropped))
}
