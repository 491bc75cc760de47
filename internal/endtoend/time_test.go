package endtoend

import (
	"path/filepath"
	"strings"
	"testing"
)

// clocks is the part of `sluice watermarks -o json` that tests look at.
type clocks struct {
	Operators []struct {
		Operator    string
		WatermarkUs int64 `json:",string"`
		Subtasks    []struct {
			Clock *struct {
				Source *struct {
					NewestUs int64 `json:",string"`
					Paused   int
				}
			}
		}
	}
	Blames []struct{ Cause, Operator string }
}

// newest is the largest event time that a source has read, and whether any of its splits waits.
func (k clocks) newest(source string) (us int64, paused bool) {
	for _, o := range k.Operators {
		if o.Operator != source {
			continue
		}
		for _, t := range o.Subtasks {
			if t.Clock != nil && t.Clock.Source != nil {
				us, paused = max(us, t.Clock.Source.NewestUs), paused || t.Clock.Source.Paused > 0
			}
		}
	}
	return us, paused
}

func (c *cluster) clocks(job string) (k clocks) {
	c.t.Helper()
	c.decode(&k, "watermarks", job)
	return k
}

// begin submits a job that has no end and returns its id.
func (c *cluster) begin(name string, args ...string) (id string) {
	c.t.Helper()
	a := c.run(append([]string{"submit", bin("trial"), "--name", name}, args...)...)
	if a.exit != exitOK {
		c.t.Fatal(a)
	}
	for _, j := range c.jobs() {
		if strings.HasPrefix(j, name+"-") {
			return j
		}
	}
	c.t.Fatalf("no job %s", name)
	return ""
}

func (c *cluster) jobs() (ids []string) {
	c.t.Helper()
	var list struct{ Jobs []struct{ ID string } }
	c.decode(&list, "list")
	for _, j := range list.Jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// One split without records holds the time of a whole job. The command says which one, and what to change; with that changed, time
// goes on.
func TestASilentSplitThatHoldsTimeIsNamed(t *testing.T) {
	c := newCluster(t, options{workers: 2, slots: 2})
	out := filepath.Join(t.TempDir(), "out")
	job := c.begin("stuck", "-p", "job=stuck", "-p", "rate=2000", "-p", "out="+out, "--parallelism", "2")
	await(t, func() bool {
		k := c.clocks(job)
		return len(k.Blames) > 0 && k.Blames[0].Cause == "BLAME_SPLIT_SILENT" && k.Blames[0].Operator == "quiet"
	})
	a := c.run("watermarks", job, "--subtasks")
	for _, text := range []string{"held by source quiet, split ", "no record since", "idle after: not set", "fix: set flow.IdleAfter"} {
		if a.exit != exitOK || !strings.Contains(a.out, text) {
			t.Errorf("%q is not in\n%v", text, a)
		}
	}
	if a := c.run("cancel", job); a.exit != exitOK {
		t.Fatal(a)
	}
	job = c.begin("moving", "-p", "job=stuck", "-p", "rate=2000", "-p", "idle=1", "-p", "out="+out+"2", "--parallelism", "2")
	await(t, func() bool { // past what the silent source has promised
		for _, o := range c.clocks(job).Operators {
			if strings.HasPrefix(o.Operator, "counted") && o.WatermarkUs > 100 {
				return true
			}
		}
		return false
	})
	if a := c.run("watermarks", "nothing-1"); a.exit == exitOK || !a.says("E") {
		t.Errorf("a job that there is not: %v", a)
	}
}

// Two aligned sources in two processes: the fast one, which could read millions of records per second, stays with the slow one.
func TestAlignedSourcesOfTwoProcessesStayTogether(t *testing.T) {
	c := newCluster(t, options{workers: 2, slots: 1})
	job := c.begin("aligned", "-p", "job=aligned", "-p", "rate=20000", "-p", "out="+filepath.Join(t.TempDir(), "out"), "--parallelism", "2")
	const enough = 30_000 // records of the slow source, one per µs of event time: more than the drift
	await(t, func() bool {
		k := c.clocks(job)
		slow, _ := k.newest("slow")
		_, waits := k.newest("fast")
		return slow > enough && waits
	})
	k := c.clocks(job)
	slow, _ := k.newest("slow")
	fast, _ := k.newest("fast")
	// Beyond the drift of 20,000: a poll of each reader, what the other process did not know at first, and the age of the answer.
	if limit := slow + 200_000; fast > limit {
		t.Errorf("the fast source is at %d µs, the slow one at %d", fast, slow)
	}
}
