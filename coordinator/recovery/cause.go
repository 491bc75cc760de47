package recovery

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// KindOf is what a failure counts as. A stored result that is gone is a loss, whoever noticed it.
func KindOf(f *jobpb.Failure) jobpb.FailureKind {
	if len(f.Lost) > 0 && f.Kind != jobpb.FailureKind_FAILURE_FATAL {
		return jobpb.FailureKind_FAILURE_LOSS
	}
	return f.Kind
}

// Root is the gravest failure, and among equals the first: what follows a failure is often only its echo. There must be
// one.
func Root(causes []*jobpb.Failure) *jobpb.Failure {
	grave := func(f *jobpb.Failure) int {
		switch KindOf(f) {
		case jobpb.FailureKind_FAILURE_FATAL:
			return 0
		case jobpb.FailureKind_FAILURE_LOSS:
			return 2
		}
		return 1
	}
	return slices.MinFunc(causes, func(a, b *jobpb.Failure) int {
		return cmp.Or(cmp.Compare(grave(a), grave(b)), cmp.Compare(a.TimeUs, b.TimeUs))
	})
}

// Tell makes a record of a failure: with what it counts as, and the time of the decision (microseconds since the Unix
// epoch) if it has none of its own.
func Tell(f *jobpb.Failure, now int64) *jobpb.Failure {
	n := proto.CloneOf(f)
	n.Kind = KindOf(f)
	if n.TimeUs == 0 {
		n.TimeUs = now
	}
	return n.Bounded()
}

// Explain adds to a failure why it is not followed by a restart.
func Explain(f *jobpb.Failure, reason string) *jobpb.Failure {
	n := proto.CloneOf(f)
	if f.Kind != jobpb.FailureKind_FAILURE_FATAL {
		n.Message = strings.TrimRight(n.Message, "\n") + "\nnot restarted: " + reason
	}
	return n.Bounded()
}
