package task

import (
	"testing"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/proto/jobpb"
)

var partitioners = []jobpb.Partitioner{
	jobpb.Partitioner_PARTITIONER_FORWARD, jobpb.Partitioner_PARTITIONER_HASH, jobpb.Partitioner_PARTITIONER_REBALANCE,
	jobpb.Partitioner_PARTITIONER_RESCALE, jobpb.Partitioner_PARTITIONER_BROADCAST, jobpb.Partitioner_PARTITIONER_GLOBAL,
}

// Both ends of an edge find their channels without talking to each other.
func TestBothEndsAgreeOnTheChannelsOfAnEdge(t *testing.T) {
	for _, by := range partitioners {
		for producers := 1; producers <= 9; producers++ {
			for consumers := 1; consumers <= 9; consumers++ {
				if checkPartitioner(by, producers, consumers) != nil {
					continue
				}
				fed := make([]int, consumers)
				for p := range producers {
					to := consumersOf(by, p, producers, consumers)
					if to.len() < 1 || to.first < 0 || to.end > consumers {
						t.Fatalf("%v %d→%d: producer %d sends to %v", by, producers, consumers, p, to)
					}
					for c := range consumers {
						from := producersOf(by, c, producers, consumers)
						sends, reads := to.first <= c && c < to.end, from.first <= p && p < from.end
						if sends != reads {
							t.Fatalf("%v %d→%d: producer %d sends to %v, consumer %d reads %v", by, producers, consumers, p, to, c, from)
						}
						if sends {
							fed[c]++
						}
					}
				}
				for c, n := range fed {
					if n == 0 {
						t.Fatalf("%v %d→%d: consumer %d has no channel: it would never end", by, producers, consumers, c)
					}
				}
			}
		}
	}
}

func TestKeyGroupRangesAreThoseOfTheRouting(t *testing.T) {
	for _, most := range []int{1, 7, 128, 256} {
		for p := 1; p <= min(most, 17); p++ {
			owner := owners(p, most)
			next := 0
			for s := range p {
				r := keyGroupsOf(s, p, most)
				if r.First != next {
					t.Fatalf("subtask %d of %d, %d key groups: begins at %d, the one before ended at %d", s, p, most, r.First, next)
				}
				next = r.End
				for g := range most {
					if r.Contains(g) != (codec.Subtask(g, p, most) == s) || (owner[g] == int32(s)) != r.Contains(g) {
						t.Fatalf("subtask %d of %d: key group %d", s, p, g)
					}
				}
			}
			if next != most {
				t.Fatalf("%d of %d key groups are owned", next, most)
			}
		}
	}
}

func TestUnroutableEdgesAreRefused(t *testing.T) {
	if checkPartitioner(jobpb.Partitioner_PARTITIONER_FORWARD, 2, 3) == nil {
		t.Error("forward between different parallelisms was accepted")
	}
	if checkPartitioner(jobpb.Partitioner_PARTITIONER_CUSTOM, 1, 1) == nil {
		t.Error("a custom partitioner without a function was accepted")
	}
}
