package endtoend

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What a processor counts itself is what the status of the job and the metrics show, and what it rejects is in the sink of
// dead letters.
func TestCountersAndLettersOfAProcessorReachTheOperator(t *testing.T) {
	c := newCluster(t, options{workers: 2, slots: 1})
	out := filepath.Join(t.TempDir(), "out")
	const rows = 2000
	job := c.begin("tally", "-p", "job=tally", "-p", fmt.Sprint("rows=", rows), "-p", "rate=1000", "-p", "out="+out, "--parallelism", "2", "--set", "mode=streaming")
	var status string
	await(t, func() bool {
		status = c.run("status", job).out
		return strings.Contains(status, "records seen")
	})
	if !strings.Contains(status, "COUNTER") || !strings.Contains(status, "tallied") {
		t.Errorf("the status is\n%s", status)
	}
	series := fmt.Sprintf(`sluice_user_counter_total{counter="records seen",job=%q,op="tallied"} `, job)
	await(t, func() bool {
		_, after, found := strings.Cut(c.metrics(), series)
		value, _, _ := strings.Cut(after, "\n")
		n, err := strconv.ParseFloat(value, 64)
		return found && err == nil && n > 0 && n <= rows
	})
	await(t, func() bool { return c.status(job).Status == "JOB_FINISHED" })
	if letters := rowsOf(t, out+"-letters"); len(letters) != rows/10 || !strings.HasPrefix(letters[0], "tallied|") || !strings.HasSuffix(letters[0], "a tenth record") {
		t.Errorf("%d letters: %.300q", len(letters), letters)
	}
	if n := len(rowsOf(t, out)); n != rows-rows/10 {
		t.Errorf("%d rows", n)
	}
	seen := int64(0)
	var last struct {
		Subtasks []struct {
			Counters struct {
				User []struct {
					Name  string
					Value int64 `json:",string"`
				}
			}
		}
	}
	c.decode(&last, "status", job)
	for _, s := range last.Subtasks {
		for _, u := range s.Counters.User {
			if u.Name == "records seen" {
				seen += u.Value
			}
		}
	}
	if seen != rows {
		t.Errorf("the status of the finished job counts %d records of %d", seen, rows)
	}
}

// metrics is what the coordinator's /metrics says.
func (c *cluster) metrics() string {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), "GET", "http://"+c.http+"/metrics", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// idleLimit is what a task process of an idle job with state may have resident, in bytes.
const idleLimit = 40_000_000

// TestAnIdleJobWithStateIsSmall measures task processes as the system does. Their binaries are built without the race detector.
func TestAnIdleJobWithStateIsSmall(t *testing.T) {
	c := newCluster(t, options{workers: 1, slots: 2})
	job := c.begin("quiet", "-p", "job=quiet", "-p", "out="+filepath.Join(t.TempDir(), "out"), "--parallelism", "2")
	await(t, func() bool { return strings.Contains(c.run("status", job).out, "records seen") })
	children := c.taskProcesses(t)
	if len(children) != 1 {
		t.Fatalf("%d task processes", len(children))
	}
	var least int64
	await(t, func() bool { // what starting took is given back meanwhile
		least = resident(t, children[0])
		return least < idleLimit
	})
	t.Logf("%.1f MB resident", float64(least)/1e6)
}

// resident is the memory of a process that is in RAM, in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n * 1024
		}
	}
	t.Fatalf("process %d tells no VmRSS", pid)
	return 0
}
