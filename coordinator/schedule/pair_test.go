package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Two jobs that each need every slot of the cluster, submitted together: neither waits for what the other one holds, also
// when attempts and results are lost on the way.
func TestTwoJobsThatEachNeedAllSlotsBothFinish(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &world{sim: newSim(r), r: r, last: map[string]*controlpb.CoordinatorMessage{}}
		const slots = 4
		w.start("w1", slots/2)
		w.start("w2", slots/2)
		submit := func() {
			graph := rapid.SampledFrom([]string{"keyed", "pipe", "batch", "stages", "lanes", "merge", "deep", "join", "groups"}).Draw(r, "graph")
			settings := map[string]string{}
			if s := rapid.SampledFrom([]string{"region", "eager", "lazy"}).Draw(r, "schedule"); graph != "groups" {
				settings["schedule"] = s
			}
			w.jobs = append(w.jobs, w.submit("j", fmt.Sprint(graph, " ", slots), settings))
		}
		submit()
		submit()
		for range rapid.IntRange(0, 5).Draw(r, "losses") {
			for range rapid.IntRange(0, 120).Draw(r, "steps") {
				w.work()
			}
			if rapid.Bool().Draw(r, "kind") {
				w.failAny(jobpb.FailureKind_FAILURE_LOSS)
			} else {
				w.spoilAny(rapid.Bool().Draw(r, "corrupt"))
			}
		}
		for range 300 {
			w.pass(time.Second)
			if w.over() {
				break
			}
		}
		for _, id := range w.jobs {
			if j := w.job(id); j.Status() != jobpb.JobStatus_JOB_FINISHED {
				r.Fatalf("%s is %s: %s\n%s", id, state.StatusName(j.Status()), j.Head().Message, strings.Join(w.trace[max(0, len(w.trace)-60):], "\n"))
			}
		}
		w.inspect()
	})
}
