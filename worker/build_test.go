//go:build unix

package worker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

func TestABuildIsAnsweredWithTheGraph(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	startWorker(t, cfg)
	s := c.session()
	s.order(build("job-1", 1, c.tiny()))
	b := s.built(1)
	if b.Job != "job-1" || b.Built.GetGraph().GetName() != "tiny" || b.Protocol != 1 || b.Built.Output != "" || len(b.Built.Graph.Warnings) > 0 {
		t.Errorf("answer: %v", b)
	}
	dirs, err := os.ReadDir(filepath.Join(cfg.DataDir, processesName))
	if err != nil || len(dirs) > 0 {
		t.Errorf("the build left %v, %v", dirs, err)
	}
}

func TestErrorsOfABuildArePassedOn(t *testing.T) {
	c := newCoordinator(t)
	startWorker(t, testConfig(t, c))
	s := c.session()
	s.order(build("", 1, c.tiny(), "build", "errors"))
	b := s.built(1)
	if b.Failure != nil || len(b.Built.GetErrors()) != 1 || b.Built.Errors[0].Code != "E011" {
		t.Errorf("answer: %v", b)
	}
}

func TestAJobThatPrintsWhilePlanningStillPlans(t *testing.T) {
	c := newCoordinator(t)
	startWorker(t, testConfig(t, c))
	s := c.session()
	s.order(build("job-1", 1, c.tiny(), "build", "print", "text", strings.Repeat("ü", 30_000)))
	b := s.built(1)
	if b.Failure != nil || b.Built.Graph == nil {
		t.Fatalf("answer: %v", b.Failure)
	}
	if !strings.HasPrefix(b.Built.Output, "planning with üü") || len(b.Built.Output) < 60_000 || len(b.Built.Output) > 64<<10 {
		t.Errorf("output of %d bytes: %.40s", len(b.Built.Output), b.Built.Output)
	}
	if w := b.Built.Graph.Warnings; len(w) != 1 || w[0].Code != codeStdout || !strings.Contains(w[0].Message, "planning with") {
		t.Errorf("warnings: %v", w)
	}
}

func TestABuildThatDiesIsE043WithItsReason(t *testing.T) {
	c := newCoordinator(t)
	startWorker(t, testConfig(t, c))
	s := c.session()
	digest := c.tiny()
	s.order(build("job-1", 1, digest, "build", "panic"))
	if f := s.built(1).Failure; f.GetCode() != codeBuildDied || !strings.Contains(f.Message, "panic: no such table") ||
		!strings.Contains(f.Stack, "tinyjob_test.go") || f.Kind != jobpb.FailureKind_FAILURE_FATAL {
		t.Errorf("panic: %v", f)
	}
	s.order(build("job-1", 2, digest, "build", "exit"))
	if f := s.built(2).Failure; f.GetCode() != codeBuildDied || !strings.Contains(f.Stack, "I give up") {
		t.Errorf("exit: %v", f)
	}
}

func TestABuildThatDoesNotReturnIsE044(t *testing.T) {
	c := newCoordinator(t)
	startWorker(t, testConfig(t, c))
	s := c.session()
	m := build("job-1", 1, c.tiny(), "build", "hang")
	m.GetBuild().TimeLimitUs = (300 * time.Millisecond).Microseconds()
	s.order(m)
	if f := s.built(1).Failure; f.GetCode() != codeBuildTime || !strings.Contains(f.Message, "300ms") {
		t.Errorf("answer: %v", f)
	}
}

func TestABuildThatHangsDoesNotHoldUpAnother(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	cfg.MaxBuilds = 2
	startWorker(t, cfg)
	s := c.session()
	digest := c.tiny()
	s.order(build("job-1", 1, digest, "build", "hang"))
	s.order(build("job-1", 1, digest, "build", "hang")) // asked again: runs once
	s.order(build("job-2", 2, digest))
	if b := s.built(2); b.Built == nil {
		t.Errorf("answer: %v", b)
	}
}

func TestABuildThatNobodyWaitsForEndsWithItsProcess(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	cfg.MaxBuilds = 1
	startWorker(t, cfg)
	s := c.session()
	digest := c.tiny()
	s.order(build("job-1", 1, digest, "build", "hang"))
	s.order(build("job-2", 2, digest, "build", "hang")) // waits for the first one
	s.order(build("job-3", 3, digest))
	for _, b := range []*controlpb.AbandonBuild{{Job: "job-2", Build: 2}, {Job: "job-1", Build: 1}, {Job: "job-9", Build: 9}} {
		s.order(&controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_AbandonBuild{AbandonBuild: b}})
		if b.Build == 9 {
			continue // nobody has heard of it
		}
		if f := s.built(b.Build).Failure; f.GetKind() != jobpb.FailureKind_FAILURE_LOSS {
			t.Errorf("answer: %v", f)
		}
	}
	if b := s.built(3); b.Built == nil {
		t.Errorf("answer: %v", b)
	}
}

func TestTheAnswerToABuildReachesTheNextLeader(t *testing.T) {
	c := newCoordinator(t)
	startWorker(t, testConfig(t, c))
	s := c.session()
	s.order(build("job-1", 5, c.tiny()))
	s.built(5)
	c.set(func() { c.term = 2 })
	c.die()
	c.listen(c.addr)
	c.session().built(5)
}

// ---------------------------------------------------------------- artifacts

// bulky is a job binary of several messages: a script with a long tail.
func bulky(c *coordinator) string {
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	return c.script("exec env "+quickExit+" '"+self+"'", strings.Repeat("# padding\n", 20_000))
}

func TestAnArtifactIsFetchedOnce(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	startWorker(t, cfg)
	s := c.session()
	digest := bulky(c)
	for process := uint64(7); process < 10; process++ {
		s.order(deploy(deployment("job-1", process, digest)))
	}
	for range 6 {
		s.state(jobpb.SubtaskState_SUBTASK_RUNNING)
	}
	c.set(func() {
		if c.fetches != 1 {
			t.Errorf("fetched %d times", c.fetches)
		}
	})
}

func TestADamagedArtifactIsNeverRun(t *testing.T) {
	for name, damage := range map[string]func(c *coordinator){
		"cut in half":  func(c *coordinator) { c.cut = 100_000 },
		"flipped bit":  func(c *coordinator) { c.flip = true },
		"stands still": func(c *coordinator) { c.stall = true },
		"missing":      func(c *coordinator) { clear(c.artifacts) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoordinator(t)
			cfg := testConfig(t, c)
			cfg.FetchTimeout = 200 * time.Millisecond
			startWorker(t, cfg)
			s := c.session()
			digest := bulky(c)
			c.set(func() { damage(c) })
			s.order(deploy(deployment("job-1", 7, digest)))
			x := s.exit(7)
			if x.Failure.GetCode() != codeNoArtifact || x.Kind != jobpb.FailureKind_FAILURE_LOSS {
				t.Errorf("reported as %v", x)
			}
			files, err := os.ReadDir(filepath.Join(cfg.DataDir, artifactsName))
			if err != nil || len(files) > 0 {
				t.Errorf("left behind: %v, %v", files, err)
			}
		})
	}
}

func TestAnArtifactComesFromAnyCoordinatorThatHasIt(t *testing.T) {
	leader, other := newCoordinator(t), newCoordinator(t)
	other.set(func() { other.leader = leader.addr })
	startWorker(t, testConfig(t, leader, other))
	s := leader.session()
	digest := bulky(other)
	s.order(deploy(deployment("job-1", 7, digest)))
	s.state(jobpb.SubtaskState_SUBTASK_RUNNING)
}

func TestAnArtifactThatWasDamagedOnDiskIsFetchedAnew(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	w := startWorker(t, cfg)
	s := c.session()
	digest := bulky(c)
	running(t, s, cfg, deployment("job-1", 7, digest))
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(cfg.DataDir, artifactsName, digest)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data[:len(data)/2], 0o755); err != nil {
		t.Fatal(err)
	}
	startWorker(t, cfg)
	s = c.session()
	running(t, s, cfg, deployment("job-1", 8, digest))
	again, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(again); hex.EncodeToString(sum[:]) != digest || !bytes.Equal(data, again) {
		t.Error("the damaged file is still there")
	}
}
