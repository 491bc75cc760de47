package task

import (
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// span is a half-open range of subtask indices.
type span struct{ first, end int }

func (s span) len() int { return s.end - s.first }

// consumersOf is the range of consumer subtasks that have a channel from producer p, of an edge that joins producers
// and consumers subtasks. Partitioners without a rule of nearness join all with all: whoever gets no records still
// gets watermarks and the end.
func consumersOf(by jobpb.Partitioner, p, producers, consumers int) span {
	switch by {
	case jobpb.Partitioner_PARTITIONER_FORWARD:
		return span{p, p + 1}
	case jobpb.Partitioner_PARTITIONER_RESCALE:
		first := p * consumers / producers
		if producers <= consumers {
			return span{first, (p + 1) * consumers / producers}
		}
		return span{first, first + 1}
	}
	return span{0, consumers}
}

// producersOf is the inverse of consumersOf.
func producersOf(by jobpb.Partitioner, c, producers, consumers int) span {
	switch by {
	case jobpb.Partitioner_PARTITIONER_FORWARD:
		return span{c, c + 1}
	case jobpb.Partitioner_PARTITIONER_RESCALE:
		if producers <= consumers {
			p := ((c+1)*producers - 1) / consumers
			return span{p, p + 1}
		}
		return span{ceilDiv(c*producers, consumers), ceilDiv((c+1)*producers, consumers)}
	}
	return span{0, producers}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// keyGroupsOf are the key groups g with codec.Subtask(g) = subtask.
func keyGroupsOf(subtask, parallelism, maxParallelism int) KeyGroups {
	return KeyGroups{
		First: ceilDiv(subtask*maxParallelism, parallelism),
		End:   ceilDiv((subtask+1)*maxParallelism, parallelism),
	}
}

// owners maps each key group to the subtask that owns it: a division per record less.
func owners(parallelism, maxParallelism int) []int32 {
	t := make([]int32, maxParallelism)
	for g := range t {
		t[g] = int32(codec.Subtask(g, parallelism, maxParallelism))
	}
	return t
}

// checkPartitioner says why an edge cannot be routed.
func checkPartitioner(by jobpb.Partitioner, producers, consumers int) error {
	switch by {
	case jobpb.Partitioner_PARTITIONER_FORWARD:
		if producers != consumers {
			return fmt.Errorf("forward from %d to %d subtasks", producers, consumers)
		}
	case jobpb.Partitioner_PARTITIONER_HASH, jobpb.Partitioner_PARTITIONER_REBALANCE, jobpb.Partitioner_PARTITIONER_RESCALE,
		jobpb.Partitioner_PARTITIONER_BROADCAST, jobpb.Partitioner_PARTITIONER_GLOBAL:
	default:
		return fmt.Errorf("partitioner %v is not known to this runtime", by)
	}
	return nil
}
