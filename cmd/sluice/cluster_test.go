package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

// user types commands, with the binary as it is built for users.
type user struct {
	t      *testing.T
	binary string
	dir    string
	addr   string
}

// answer is what a command said.
type answer struct {
	exit     ops.Exit
	out, err string
}

func (u *user) run(args ...string) answer {
	u.t.Helper()
	cmd := exec.CommandContext(u.t.Context(), u.binary, args...)
	cmd.Dir = u.dir
	cmd.Env = append(os.Environ(), "SLUICE_ADDR="+u.addr, "SLUICE_CONTEXTS="+filepath.Join(u.dir, "contexts.json"), "TMPDIR="+u.dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		u.t.Fatalf("sluice %v: %v", args, err)
	}
	return answer{exit: ops.Exit(cmd.ProcessState.ExitCode()), out: out.String(), err: errs.String()}
}

func (u *user) want(exit ops.Exit, args ...string) answer {
	u.t.Helper()
	a := u.run(args...)
	if a.exit != exit {
		u.t.Fatalf("sluice %s: exit %d, want %d\n%s%s", strings.Join(args, " "), a.exit, exit, a.out, a.err)
	}
	return a
}

// decode runs a command with -o json.
func (u *user) decode(into any, args ...string) {
	u.t.Helper()
	a := u.want(ops.ExitOK, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(a.out), into); err != nil {
		u.t.Fatalf("sluice %v: %v\n%s", args, err, a.out)
	}
}

// newUser has a cluster of one coordinator and two workers with two slots each, until the test ends.
func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{t: t, dir: t.TempDir()}
	u.binary = filepath.Join(u.dir, "sluice")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", u.binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data := filepath.Join(u.dir, "data")
	u.want(ops.ExitOK, "dev", "--detach", "--workers", "2", "--slots", "2", "--ports", "free", "--data-dir", data)
	t.Cleanup(func() {
		stop := exec.Command(u.binary, "dev", "stop", "--data-dir", data) // the test's context has ended
		if out, err := stop.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if t.Failed() {
			t.Log(logs(data))
		}
	})
	raw, err := os.ReadFile(filepath.Join(data, "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Nodes []struct{ API string } }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	u.addr = file.Nodes[0].API
	return u
}

func logs(data string) string {
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join(data, "logs", "*.log")) // the pattern is right
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "== %s\n", filepath.Base(name))
		_, _ = io.Copy(&b, io.LimitReader(f, 64<<10))
		_ = f.Close()
	}
	return b.String()
}

// TestUserWorksWithARealCluster is one user's session: what the other tests show with fakes holds with the real thing.
func TestUserWorksWithARealCluster(t *testing.T) {
	u := newUser(t)
	u.finishes()
	u.isOneJob()
	u.fails()
	u.waitsForSlots()
	u.misuses()
	u.looksAfterTheCluster()
}

// finishes runs a job to its end and looks at what is left of it.
func (u *user) finishes() {
	t := u.t
	out := filepath.Join(u.dir, "out")
	u.want(ops.ExitOK, "submit", u.binary, "-p", "job=count", "-p", "records=10000", "-p", "keys=10", "-p", "out="+out, "--name", "count", "--parallelism", "2", "--wait")
	var want ops.RowDigest
	for k := range 10 {
		want.Add(fmt.Appendf(nil, "%d|1000", k))
	}
	if got := u.want(ops.ExitOK, "digest", out).out; got != want.String()+"\n" {
		t.Errorf("digest %s, want %v", got, want)
	}
	var status struct {
		ID, Status string
		Subtasks   []struct {
			Operator, Worker, State string
			Attempt                 int
			Counters                struct {
				RecordsIn int64 `json:",string"`
			}
		}
		Regions []struct{ State string }
		Edges   []struct{ Exchange string }
	}
	u.decode(&status, "status", "count-1")
	if status.Status != "JOB_FINISHED" || len(status.Subtasks) != 4 || status.Subtasks[0].Attempt != 1 || status.Subtasks[0].State != "SUBTASK_FINISHED" ||
		status.Subtasks[0].Worker == "" || len(status.Regions) != 4 || len(status.Edges) != 1 || status.Edges[0].Exchange != "EXCHANGE_BLOCKING" {
		t.Errorf("status %+v", status)
	}
	records := int64(0) // nothing runs any more: these are facts
	for _, s := range status.Subtasks {
		records += s.Counters.RecordsIn
	}
	if records != 2*10000 {
		t.Errorf("%d records counted, want those of the source and as many behind the exchange", records)
	}
	if events := u.want(ops.ExitOK, "events", "--job", "count-1").out; !strings.Contains(events, "job-finished") {
		t.Errorf("events %s", events)
	}
	u.want(ops.ExitOK, "logs", "count-1")
	if plan := u.want(ops.ExitOK, "plan", "count-1").out; !strings.Contains(plan, "← records") {
		t.Errorf("plan %s", plan)
	}
	u.want(ops.ExitOK, "wait", "count-1")
	if a := u.want(ops.ExitPrecondition, "cancel", "count-1"); !strings.Contains(a.err, "FINISHED already") {
		t.Errorf("cancel said %s", a.err)
	}
}

// isOneJob submits twice with the same request id.
func (u *user) isOneJob() {
	var first, second struct {
		Job     string
		Existed bool
	}
	args := []string{"submit", u.binary, "-p", "records=100", "--name", "twice", "--request-id", "r-1"}
	u.decode(&first, args...)
	u.decode(&second, args...)
	if first.Job == "" || first.Job != second.Job || first.Existed || !second.Existed {
		u.t.Errorf("%+v, then %+v", first, second)
	}
	u.want(ops.ExitOK, "wait", first.Job)
}

// fails runs jobs that cannot end well; nothing of them is published.
func (u *user) fails() {
	t := u.t
	out := filepath.Join(u.dir, "failed")
	a := u.want(ops.ExitJobFailed, "submit", u.binary, "-p", "job=pass", "-p", "records=1000", "-p", "fail-at=500", "-p", "out="+out,
		"--name", "fails", "--set", "restart=none", "--wait")
	if !strings.Contains(a.err, "record 500 was asked to fail") {
		t.Errorf("the root cause is missing: %s", a.err)
	}
	if got := u.run("digest", out); got.exit == ops.ExitOK && !strings.HasPrefix(got.out, "0 ") {
		t.Errorf("a failed job published %s", got.out)
	}
	for text, params := range map[string][]string{
		"there is no built-in job": {"-p", "job=nope"},
		"unknown parameter":        {"-p", "nope=1"},
		"keys is 0":                {"-p", "keys=0"},
	} {
		args := slices.Concat([]string{"submit", u.binary, "--dry-run"}, params)
		if a := u.want(ops.ExitUsage, args...); !strings.Contains(a.err, text) || !strings.Contains(a.err, "fix: ") {
			t.Errorf("%v: %s", params, a.err)
		}
	}
}

// waitsForSlots asks for more at once than there is: region by region five subtasks would do with four slots.
func (u *user) waitsForSlots() {
	a := u.want(ops.ExitTimeout, "submit", u.binary, "-p", "records=10", "--name", "wide", "--parallelism", "5", "--set", "mode=streaming", "--wait", "--timeout", "10s")
	if !strings.Contains(a.err, "wide-") {
		u.t.Errorf("the job is not named: %s", a.err)
	}
	var list struct {
		Jobs []struct{ ID, Status, Message string }
	}
	u.decode(&list, "list", "--status", "waiting")
	if len(list.Jobs) != 1 || !strings.Contains(list.Jobs[0].Message, "slot") {
		u.t.Fatalf("waiting are %+v", list.Jobs)
	}
	u.want(ops.ExitOK, "cancel", list.Jobs[0].ID, "--wait")
	u.want(ops.ExitJobCancelled, "wait", list.Jobs[0].ID)
}

// misuses asks for what is not there.
func (u *user) misuses() {
	for _, args := range [][]string{{"status", "none-1"}, {"wait", "none-1"}, {"cancel", "none-1"}, {"logs", "none-1"}, {"events", "--job", "none-1"}, {"plan", "none-1"},
		{"workers", "drain", "none"}, {"raft", "remove-peer", "none"}} {
		if a := u.want(ops.ExitNotFound, args...); !strings.HasPrefix(a.err, "error E") {
			u.t.Errorf("%v: %s", args, a.err)
		}
	}
	script := filepath.Join(u.dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700); err != nil {
		u.t.Fatal(err)
	}
	u.want(ops.ExitUsage, "submit", script)
	u.want(ops.ExitUnreachable, "list", "--addr", "127.0.0.1:1", "--timeout", "1s")
}

// looksAfterTheCluster drains, saves and restores.
func (u *user) looksAfterTheCluster() {
	t := u.t
	var workers struct {
		Workers []struct {
			Worker struct {
				ID, Health string
				Slots      int
				Draining   bool
			}
		}
	}
	u.decode(&workers, "workers")
	if len(workers.Workers) != 2 || workers.Workers[0].Worker.Health != "WORKER_ALIVE" || workers.Workers[0].Worker.Slots != 2 {
		t.Fatalf("workers %+v", workers)
	}
	drained := workers.Workers[0].Worker.ID
	u.want(ops.ExitOK, "workers", "drain", drained)
	u.decode(&workers, "workers", "list")
	if !workers.Workers[0].Worker.Draining {
		t.Errorf("worker %s does not drain", drained)
	}
	u.want(ops.ExitOK, "workers", "undrain", drained)

	var peers struct {
		Peers            []struct{ Role string }
		FailureTolerance int
	}
	u.decode(&peers, "peers")
	if len(peers.Peers) != 1 || peers.Peers[0].Role != "leader" || peers.FailureTolerance != 0 {
		t.Errorf("peers %+v", peers)
	}
	u.want(ops.ExitOK, "raft", "info")

	saved := filepath.Join(u.dir, "facts")
	u.want(ops.ExitOK, "raft", "snapshot", "save", saved)
	u.want(ops.ExitOK, "submit", u.binary, "-p", "records=1", "--name", "later", "--wait")
	u.want(ops.ExitOK, "raft", "snapshot", "restore", saved)
	var list struct{ Jobs []struct{ ID string } }
	u.decode(&list, "list")
	for _, j := range list.Jobs {
		if strings.HasPrefix(j.ID, "later-") {
			t.Errorf("%s is known after the facts before it were restored", j.ID)
		}
	}
	if len(list.Jobs) == 0 {
		t.Error("no job is known after the restore")
	}
	if err := os.WriteFile(saved, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := u.run("raft", "snapshot", "restore", saved); a.exit == ops.ExitOK {
		t.Errorf("a damaged snapshot was restored: %s", a.out)
	}
	u.decode(&list, "list") // and changed nothing
	if len(list.Jobs) == 0 {
		t.Error("no job is known after a restore that was refused")
	}
}
