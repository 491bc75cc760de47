package join

import (
	"testing"

	"github.com/sluiceio/sluice/internal/invariant"
)

// TestTwoMillionRecordsInEightMebibytes joins what is a dozen times larger than the memory, on real files.
func TestTwoMillionRecordsInEightMebibytes(t *testing.T) {
	each, memory := 1_000_000, int64(8<<20)
	if invariant.Enabled { // a tenth under the race detector
		each, memory = each/10, memory/10
	}
	cs, ps := data(each, each)
	want, got, n := int64(0), int64(0), 0
	names := map[int64]string{}
	for i := range cs {
		names[cs[i].ID] = cs[i].Country
	}
	for i := range ps {
		want += digest(names[ps[i].Customer], ps[i].Cents)
	}
	counters := byOperator(t, cs, ps, memory, t.TempDir()+"/spill", func(s sale) {
		got += digest(s.Country, s.Cents)
		n++
	})
	if n != each || got != want {
		t.Errorf("%d results with digest %d, want %d with %d", n, got, each, want)
	}
	if counters.SpilledRecords < int64(each) || counters.SpillDepth < 1 || counters.Spilled == 0 {
		t.Errorf("counters are %+v", counters)
	}
}

func digest(s string, n int64) int64 {
	for _, c := range []byte(s) {
		n = n*31 + int64(c)
	}
	return n
}
