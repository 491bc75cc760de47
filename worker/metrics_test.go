//go:build unix

package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// TestMetricsTellWhatWasStoredAndSpilled, added up over the subtasks of a chain and the processes of a job.
func TestMetricsTellWhatWasStoredAndSpilled(t *testing.T) {
	process := func(number uint64, memory int64, c ...*taskpb.Counters) *taskProcess {
		p := &taskProcess{key: processKey{job: "j-1", number: number}}
		p.mu.chains = []*jobpb.Chain{{Name: "sort"}}
		p.mu.sample = &taskpb.Sample{NetworkBytes: memory, NetworkLimitBytes: 100, SpillFiles: 2, Counters: c}
		return p
	}
	a := &agent{table: newTable()}
	for number, p := range []*taskProcess{
		process(0, 30, &taskpb.Counters{SpilledBytes: 10, SpilledRecords: 2, SpillFiles: 1, SpillDepth: 3, StoredBytes: 5, RereadBytes: 6},
			&taskpb.Counters{Index: 1, SpilledBytes: 1, SpillDepth: 1}),
		process(1, 40, &taskpb.Counters{Index: 2, SpilledBytes: 100, SpilledRecords: 20, SpillFiles: 10, StoredBytes: 50, RereadBytes: 60}),
	} {
		a.table.ensure(processKey{job: "j-1", number: uint64(number)}, func() *taskProcess { return p })
	}
	var got []string
	(&collector{agent: a}).processes(func(m metric, v float64, labels ...string) {
		name, _, _ := strings.Cut(strings.TrimPrefix(m.desc.String(), `Desc{fqName: "`), `"`)
		got = append(got, fmt.Sprint(name, labels, " ", v))
	})
	for _, want := range []string{
		"sluice_task_process_network_bytes[j-1 reserved] 70", "sluice_task_process_network_bytes[j-1 limit] 200", "sluice_task_process_spill_files[j-1] 4",
		"sluice_chain_spilled_bytes_total[j-1 sort] 111", "sluice_chain_spilled_records_total[j-1 sort] 22", "sluice_chain_spill_files_total[j-1 sort] 11",
		"sluice_chain_spill_depth[j-1 sort] 3", "sluice_chain_stored_bytes_total[j-1 sort] 55", "sluice_chain_stored_read_bytes_total[j-1 sort] 66",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
}
