package flowtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
)

// Recode reads a snapshot and writes it again.
func Recode(b []byte) ([]byte, error) {
	s, err := decodeSnapshot(b)
	if err != nil {
		return nil, err
	}
	return encodeSnapshot(s), nil
}

// SameGraph and SameAnswer are what Deterministic finds.
func SameGraph[C any](cfg *C, build func(*flow.Pipeline, *C) error) error {
	return sameGraph(cfg, build)
}

func SameAnswer[C any](t *testing.T, cfg *C, build func(*flow.Pipeline, *C) error, opts []Option) error {
	return sameAnswer(t, cfg, build, opts)
}

// Shuffled is what a seed makes of records.
func Shuffled[T any](seed uint64, at func(T) flow.Time, within time.Duration, records []T) []T {
	return given[T]{records: records, at: at, within: within}.shuffled(rand.New(rand.NewPCG(seed, 0)))
}
