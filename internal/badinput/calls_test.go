package badinput

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// A call that does not answer in time is an error of its record, which the policy decides about.
func TestACallThatTakesTooLongFailsItsRecord(t *testing.T) {
	silent := func(ctx context.Context, v int) (int, error) {
		if v == 7 {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return v, nil
	}
	build := func(pol flow.ErrorPolicy) func(p *flow.Pipeline) {
		return func(p *flow.Pipeline) {
			p.DeadLetters("letters", drop[flow.DeadLetter]())
			in(p, "in").AsyncMap(silent, flow.Timeout(20*time.Millisecond)).ID("it").Parallelism(1).OnError(pol).To("out", drop[int]())
		}
	}
	err := try(t, build(flow.Fail))
	if err.Code != "E050" || err.Operator != "it" || !strings.Contains(err.Message, "20ms") || !strings.ContainsAny(err.Position, "78") {
		t.Errorf("%+v", err)
	}
	out, letters := flowtest.Sink[int]("out"), flowtest.Sink[flow.DeadLetter]("letters")
	run(t, build(flow.DeadLetters), out, letters)
	if len(out.Values()) != 19 || len(letters.Values()) != 1 || !strings.Contains(letters.Values()[0].Error, "20ms") {
		t.Errorf("%d results, letters %+v", len(out.Values()), letters.Values())
	}
}

// One that ignores its context as well keeps its place; the record fails all the same, and its result is dropped.
func TestACallThatIgnoresItsContextFailsItsRecord(t *testing.T) {
	release := make(chan struct{})
	out := flowtest.Sink[int]("out")
	run(t, func(p *flow.Pipeline) {
		in(p, "in").AsyncMap(func(_ context.Context, v int) (int, error) {
			switch v {
			case 7:
				<-release
			case 19:
				close(release)
			}
			return v, nil
		}, flow.Timeout(20*time.Millisecond), flow.InFlight(2), flow.Unordered()).ID("it").Parallelism(1).OnError(flow.Skip).To("out", drop[int]())
	}, out)
	if got := slices.Sorted(slices.Values(out.Values())); len(got) < 19 || !slices.Contains(got, 19) {
		t.Errorf("got %v", got)
	}
}

// What returns after the attempt was stopped is nobody's result.
func TestACallThatReturnsAfterTheStopIsDropped(t *testing.T) {
	var late atomic.Int64
	waits := make(chan struct{})
	out := flowtest.Sink[int]("out")
	err := try(t, func(p *flow.Pipeline) {
		in(p, "in").AsyncMap(func(ctx context.Context, v int) (int, error) {
			switch v {
			case 3:
				close(waits)
				<-ctx.Done() // and it has an answer all the same
				late.Add(1)
			case 7:
				<-waits
				return 0, errors.New("no answer")
			}
			return v, nil
		}, flow.Timeout(time.Hour)).ID("it").Parallelism(1).To("out", drop[int]())
	}, out)
	if err.Code != "E050" || !strings.Contains(err.Message, "no answer") || late.Load() != 1 {
		t.Errorf("%+v, %d late", err, late.Load())
	}
	if got := out.Values(); len(got) > 0 {
		t.Errorf("a failed job shows %v", got)
	}
}

func TestACallThatPanicsLateIsNoEndOfTheProcess(t *testing.T) {
	waits := make(chan struct{})
	err := try(t, func(p *flow.Pipeline) {
		in(p, "in").AsyncMap(func(ctx context.Context, v int) (int, error) {
			switch v {
			case 3:
				close(waits)
				<-ctx.Done()
				panic("too late")
			case 7:
				<-waits
				panic("boom")
			}
			return v, nil
		}, flow.Timeout(time.Hour)).ID("it").Parallelism(1).To("out", drop[int]())
	})
	if err.Code != "E051" || !strings.Contains(err.Message, "boom") || !strings.Contains(err.Stack, "calls_test.go") {
		t.Errorf("%+v", err)
	}
}
