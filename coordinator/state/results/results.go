package results

import "github.com/sluiceio/sluice/proto/jobpb"

// Results counts what the producers of a BLOCKING edge have stored.
type Results struct {
	Stored, Lost, Released int   // partitions by state
	Bytes, Records         int64 // of all of them, as they were reported
}

// Count adds a partition to those of its state, delta times.
func (r *Results) Count(p *jobpb.Partition, delta int) {
	switch p.State {
	case jobpb.PartitionState_PARTITION_STORED:
		r.Stored += delta
	case jobpb.PartitionState_PARTITION_LOST:
		r.Lost += delta
	case jobpb.PartitionState_PARTITION_RELEASED:
		r.Released += delta
	}
	r.Bytes += int64(delta) * p.Bytes
	r.Records += int64(delta) * p.Records
}
