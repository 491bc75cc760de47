package traffic

import (
	"fmt"
	"strconv"

	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Ledger is the job `sluice job ledger`.
type Ledger struct {
	history.Workload
	Artifact    string // SHA-256 of the sluice binary, in hex
	Out         string // directory
	Parallelism int32
	Settings    map[string]string
}

// Spec makes the job.
func (l Ledger) Spec(name string) *jobpb.JobSpec {
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	return &jobpb.JobSpec{Name: name, Artifact: l.Artifact, Parallelism: l.Parallelism, Settings: l.Settings, Params: map[string]string{
		"job": "ledger", "seed": strconv.FormatUint(l.Seed%(1<<62), 10), "records": n(l.Records), "partitions": n(l.Partitions), "keys": n(l.Keys),
		"window": n(l.Window), "rate": n(l.Rate), "out": l.Out,
	}}
}

// Oracle says what a ledger must hold.
type Oracle struct{ history.Workload }

// block of records in a row that belong to one partition.
const block = 256

// Size is how many records a partition has.
func (o Oracle) Size(partition int64) int64 {
	round := o.Partitions * block
	n := o.Records / round * block
	return n + min(block, max(0, o.Records%round-partition*block))
}

// Key of a record.
func (o Oracle) Key(partition, seq int64) int64 {
	return int64(mix(o.Seed%(1<<62), uint64(partition), uint64(seq)) % uint64(o.Keys))
}

// Sign is what a record adds to the exclusive-or of its key.
func (o Oracle) Sign(partition, seq int64) int64 {
	return int64(mix(0, uint64(partition), uint64(seq)) / 2)
}

// mix is splitmix64's finaliser (Steele, Lea, Flood) of a weighted sum.
func mix(seed, partition, seq uint64) uint64 {
	x := seed + 11400714819323198485*partition + 15074714826142052245*seq
	x ^= x >> 30
	x *= 13787848793156543929
	x ^= x >> 27
	x *= 10723151780598845931
	x ^= x >> 31
	return x
}

// Fold is the whole right answer of a bounded ledger.
type Fold struct {
	Counts  map[int64]int64    // records by key
	Signs   map[int64]int64    // exclusive-or by key
	Windows map[[2]int64]int64 // records by key and start of the window
}

// Fold reads every record once.
func (o Oracle) Fold() Fold {
	f := Fold{Counts: map[int64]int64{}, Signs: map[int64]int64{}, Windows: map[[2]int64]int64{}}
	for p := range o.Partitions {
		for seq := range o.Size(p) {
			k := o.Key(p, seq)
			f.Counts[k]++
			f.Signs[k] ^= o.Sign(p, seq)
			f.Windows[[2]int64{k, seq / o.Window * o.Window}]++
		}
	}
	return f
}

// Row of the ledger.
type Row struct{ Partition, Seq, Key, Count, Sign, Attempt int64 }

// ParseRow reads a row of rows/.
func ParseRow(text string) (r Row, err error) {
	err = fields(text, &r.Partition, &r.Seq, &r.Key, &r.Count, &r.Sign, &r.Attempt)
	return r, err
}

// Span is a row of windows/.
type Span struct{ Key, Start, Count int64 }

// ParseSpan reads a row of windows/.
func ParseSpan(text string) (s Span, err error) {
	err = fields(text, &s.Key, &s.Start, &s.Count)
	return s, err
}

// fields reads numbers separated by bars.
func fields(text string, into ...*int64) error {
	rest := text
	for i, v := range into {
		at := len(rest)
		if i < len(into)-1 {
			at = 0
			for at < len(rest) && rest[at] != '|' {
				at++
			}
		}
		n, err := strconv.ParseInt(rest[:at], 10, 64)
		if err != nil {
			return fmt.Errorf("row %q: field %d: %w", text, i+1, err)
		}
		*v, rest = n, rest[min(len(rest), at+1):]
	}
	return nil
}
