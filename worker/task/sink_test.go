package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// shown is a sink without commit: what was flushed is seen outside. It notes what is called, and when.
type shown struct {
	connector.NoCommit
	start    time.Time
	flushErr error
	mu       sync.Mutex
	calls    []string
}

func (s *shown) Guarantee() connector.Guarantee { return connector.AtLeastOnce }
func (s *shown) OpenWriter(context.Context, *connector.Task, [][]byte) (connector.Writer[int], error) {
	return s, nil
}

func (s *shown) call(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf("%s@%v", what, time.Since(s.start)))
}

func (s *shown) Write(_ context.Context, v int, _ element.Time) error {
	s.call(fmt.Sprint(v))
	return nil
}

func (s *shown) Flush(context.Context) error {
	s.call("flush")
	return s.flushErr
}
func (s *shown) End(context.Context) error { return nil }
func (s *shown) Close() error              { return nil }

// The output of a job that never ends is seen soon after it was written, not when a buffer happens to be full.
func TestOutputWithoutCommitIsFlushedWhileTheJobRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &live{counted: counted[int]{n: 1, endless: true}, feed: make(chan record)}
		sink := &shown{start: time.Now()}
		j := newJob(t)
		j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{})), "out", NewSink[int](sink))
		c := start(t, j)
		if err := c.proc.Deploy(j.deployment(1, 1)); err != nil {
			t.Fatal(err)
		}
		c.awaitRunning(1)
		src.feed <- record{v: 1}
		<-time.After(30 * time.Millisecond)
		src.feed <- record{v: 2}
		<-time.After(time.Minute)
		src.feed <- record{v: 3}
		<-time.After(time.Minute)
		sink.mu.Lock()
		defer sink.mu.Unlock()
		if want := []string{"1@0s", "2@30ms", "flush@100ms", "3@1m0.03s", "flush@1m0.13s"}; !slices.Equal(sink.calls, want) {
			t.Errorf("calls %v, want %v", sink.calls, want)
		}
	})
}

func TestAFlushThatFailsFailsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &live{counted: counted[int]{n: 1, endless: true}, feed: make(chan record)}
		j := newJob(t)
		j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{})), "out", NewSink[int](&shown{flushErr: errors.New("nobody listens")}))
		c := start(t, j)
		if err := c.proc.Deploy(j.deployment(1, 1)); err != nil {
			t.Fatal(err)
		}
		c.awaitRunning(1)
		src.feed <- record{v: 1}
		expect(t, c.await(1)[0].Failure, fault.CodeSink, "out", "")
	})
}
