package endtoend

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// A job of two worlds: two seconds of loading a past of 3 × 10,000 records into state, and three of numbering live ones.
const (
	pastRows = 30_000
	pastKeys = 900
	pastSize = 200 // bytes, so that a subtask reads many blocks
	liveRows = 6_000
	pace     = 5_000 // records a second that a subtask loads
	rate     = 2_000 // live records a second
)

// loading is a run of that job.
type loading struct {
	*cluster
	t   *testing.T
	job string
	out string
	// reread is what attempts of the loading operator have read of the stored past, in bytes, by subtask and attempt.
	reread map[[2]int]int64
}

func (c *cluster) load(t *testing.T, schedule string, more ...string) *loading {
	l := &loading{cluster: c, t: t, out: filepath.Join(t.TempDir(), "out"), reread: map[[2]int]int64{}}
	p := func(name string, v int) []string { return []string{"-p", fmt.Sprintf("%s=%d", name, v)} }
	args := slices.Concat([]string{"submit", bin("trial"), "-p", "job=loaded", "-p", "out=" + l.out, "--parallelism", "3",
		"--set", "mode=streaming", "--set", "schedule=" + schedule, "--set", "checkpoint.interval=100ms"},
		p("rows", pastRows), p("keys", pastKeys), p("size", pastSize), p("live", liveRows), p("pace", pace), p("rate", rate), more)
	a := c.run(args...)
	if _, err := fmt.Sscanf(a.out, "job %s submitted", &l.job); a.exit != exitOK || err != nil {
		t.Fatal(a, err)
	}
	return l
}

// look is how many records the operator has taken that loads, in the attempts that run now.
func (l *loading) look() (taken int64, s jobStatus) {
	s = l.status(l.job)
	for _, u := range s.Subtasks {
		if slices.Contains(u.Operators, "numbered") && u.Counters != nil {
			taken += u.Counters.RecordsIn
			at := [2]int{u.Index, u.Attempt}
			l.reread[at] = max(l.reread[at], u.Counters.RereadBytes)
		}
	}
	return taken, s
}

// attempts are the numbers of the attempts of an operator, the largest one.
func (s *jobStatus) attempts(operator string) (most int) {
	for _, u := range s.Subtasks {
		if slices.Contains(u.Operators, operator) {
			most = max(most, u.Attempt)
		}
	}
	return most
}

// stored is what the producers of the past have stored, in bytes.
func (s *jobStatus) stored() (n int64) {
	for _, u := range s.Subtasks {
		if slices.Contains(u.Operators, "past-told") && u.Counters != nil {
			n += u.Counters.StoredBytes
		}
	}
	return n
}

// isRight waits for the end of the job, and compares its rows with those that follow from the numbers of the records.
func (l *loading) isRight() jobStatus {
	l.t.Helper()
	await(l.t, func() bool {
		_, s := l.look()
		if s.Failure != nil {
			l.t.Fatalf("%+v", s.Failure)
		}
		return s.Status == "JOB_FINISHED"
	})
	var want []string
	sums := make([]int64, pastKeys)
	for i := range int64(pastRows) {
		sums[i%pastKeys] += i
	}
	for i := range int64(liveRows) {
		want = append(want, fmt.Sprintf("%d|%d|%d|%d", i, i%pastKeys, sums[i%pastKeys], i/pastKeys+1))
	}
	got := rowsOf(l.t, l.out)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		l.t.Errorf("%d rows, not the %d that follow: the first that differs is %s", len(got), len(want), firstOf(got, want))
	}
	_, s := l.look()
	return s
}

func firstOf(got, want []string) string {
	for i, w := range want {
		if i >= len(got) || got[i] != w {
			return strconv.Quote(w)
		}
	}
	return "behind them"
}

// hit kills one of the task processes.
func (l *loading) hit(random *rand.Rand) {
	l.t.Helper()
	pids := l.taskProcesses(l.t)
	if len(pids) == 0 {
		l.t.Fatal("there is no process to kill")
	}
	kill(l.t, pids[random.IntN(len(pids))])
}

// TestCheckpointsGoOnInAllPhasesOfAMixedJob kills task processes while the bounded part of a job runs, while its result is loaded
// into state, and while the stream is read, and once takes the result away in the middle of the load, with the disk that it lies on.
func TestCheckpointsGoOnInAllPhasesOfAMixedJob(t *testing.T) {
	random := rand.New(rand.NewPCG(*seed, 3))
	c := newCluster(t, options{workers: 3, slots: 6})
	const total = pastRows
	t.Run("loading", func(t *testing.T) {
		// Every subtask stops at nine tenths of its part, a third of the past, until it may go on. The counters lag a little.
		open := filepath.Join(t.TempDir(), "open")
		l := c.load(t, "region", "-p", "hold="+strconv.Itoa(total*9/30), "-p", "open="+open)
		await(t, func() bool { n, _ := l.look(); return n >= total*88/100 })
		if c.newest(l.job) == 0 {
			t.Error("no checkpoint was completed while the state was loaded")
		}
		l.hit(random)
		if err := os.WriteFile(open, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s := l.isRight()
		if n := s.attempts("past-told"); n != 1 {
			t.Errorf("the bounded part, which had finished, was run %d times", n)
		}
		again := int64(0)
		for at, n := range l.reread {
			if at[1] > 1 {
				again += n
			}
		}
		// A tenth had not been read yet.
		if all := s.stored(); again == 0 || again > all*(10+15)/100 {
			t.Errorf("%d bytes of %d were read behind the restart", again, all)
		}
	})
	t.Run("bounded", func(t *testing.T) {
		l := c.load(t, "eager")
		await(t, func() bool { return c.newest(l.job) >= 1 })
		l.hit(random)
		l.isRight()
	})
	t.Run("live", func(t *testing.T) {
		l := c.load(t, "region")
		await(t, func() bool { n, _ := l.look(); return n >= total+liveRows/3 })
		seen := c.newest(l.job)
		await(t, func() bool { return c.newest(l.job) > seen })
		l.hit(random)
		if s := l.isRight(); s.attempts("past-told") != 1 {
			t.Error("the bounded part was run again, though its result was loaded")
		}
	})
	t.Run("lost", func(t *testing.T) {
		l := c.load(t, "region")
		await(t, func() bool { n, _ := l.look(); return n >= total/2 })
		if c.newest(l.job) == 0 {
			t.Error("no checkpoint was completed while the state was loaded")
		}
		kill(t, c.pids["w2"])
		if err := os.RemoveAll(filepath.Join(c.dir, "w2")); err != nil {
			t.Fatal(err)
		}
		if s := l.isRight(); s.attempts("past-told") == 1 {
			t.Error("the lost part of the result was not made again")
		}
	})
}
