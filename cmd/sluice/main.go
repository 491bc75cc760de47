package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/sluiceio/sluice/cmd/sluice/internal/job"
	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

func main() {
	if job.TaskProcess() {
		job.Main() // does not return
	}
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	a := &app{out: os.Stdout, err: os.Stderr, getenv: os.LookupEnv, dial: ops.Dial, now: time.Now}
	if term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stderr.Fd())) {
		a.terminal = ops.Screen
	}
	os.Exit(int(a.execute(ctx, os.Args[1:])))
}
