package graph

import "github.com/sluiceio/sluice/proto/jobpb"

// Consumers is the range of consumer subtasks that producer i of an edge can send to. Whoever opens channels and whoever
// tells subtasks of each other's places must use the same ranges, so they stand here once.
func Consumers(p jobpb.Partitioner, producers, consumers, i int32) (first, count int32) {
	switch p {
	case jobpb.Partitioner_PARTITIONER_FORWARD:
		return i, 1
	case jobpb.Partitioner_PARTITIONER_GLOBAL:
		return 0, 1
	case jobpb.Partitioner_PARTITIONER_RESCALE:
		return near(producers, consumers, i)
	}
	return 0, consumers
}

// Producers is the range of producer subtasks that consumer i of an edge can receive from.
func Producers(p jobpb.Partitioner, producers, consumers, i int32) (first, count int32) {
	switch p {
	case jobpb.Partitioner_PARTITIONER_FORWARD:
		return i, 1
	case jobpb.Partitioner_PARTITIONER_GLOBAL:
		if i != 0 {
			return 0, 0
		}
	case jobpb.Partitioner_PARTITIONER_RESCALE:
		return near(consumers, producers, i)
	}
	return 0, producers
}

// near divides the larger side evenly over the smaller one: subtask i of a side of n has these partners on a side of m.
func near(n, m, i int32) (first, count int32) {
	N, M, I := int64(n), int64(m), int64(i)
	if N >= M {
		return int32(I * M / N), 1
	}
	lo, hi := (I*M+N-1)/N, ((I+1)*M+N-1)/N
	return int32(lo), int32(hi - lo)
}
