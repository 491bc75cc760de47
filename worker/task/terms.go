package task

import (
	"time"

	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/layout"
)

// terms are what the settings and the resources of a deployment mean to its attempts.
type terms struct {
	timeout time.Duration // buffer.timeout; setting.Never
	live    shuffle.Compression
	stored  stored.Compression
	eager   bool  // regions run at the same time
	lazy    bool  // consumers wait for word that there is something to consume
	batch   int64 // bytes of batch.memory per slot
}

// obeyed are the settings that this package obeys.
var obeyed = []string{setting.BufferTimeout, setting.NetworkCompress, setting.BatchCompress, setting.Schedule, setting.BatchMemory}

// termsOf reads the settings of a deployment. Others than those obeyed here may be newer than this binary.
func termsOf(d *taskpb.Deployment) (terms, error) {
	said := map[string]string{}
	for _, name := range obeyed {
		if v, ok := d.Settings[name]; ok {
			said[name] = v
		}
	}
	for _, problem := range setting.Check(said) {
		if !problem.Warning() {
			return terms{}, fault.Fatal(problem.Code, "%s", problem.Message)
		}
	}
	v := setting.Values(said)
	t := terms{timeout: v.Duration(setting.BufferTimeout)}
	if v.Text(setting.NetworkCompress) == "s2" {
		t.live = shuffle.S2
	}
	var err error
	if t.stored, err = stored.ParseCompression(v.Text(setting.BatchCompress)); err != nil {
		return terms{}, fault.Fatal(setting.CodeBadValue, "%v", err)
	}
	switch v.Text(setting.Schedule) {
	case "eager":
		t.eager = true
	case "lazy":
		t.lazy = true
	}
	t.batch = v.Bytes(setting.BatchMemory, d.ProcessMemory) / int64(max(1, d.Slots))
	return t, nil
}

// grant is the share of batch.memory of one batch operator in a subtask, in bytes: that of a slot, divided by the batch
// operators that work in the slot at the same time. It is never 0, which would be no limit: too little is for the operator to
// refuse.
func (t *terms) grant(l *layout.Layout, chain, index int32) int64 {
	return max(1, t.batch/int64(max(1, l.BatchOperators(chain, index, t.eager))))
}
