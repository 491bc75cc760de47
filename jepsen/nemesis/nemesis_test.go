package nemesis

import (
	"context"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/jepsen/history"
)

type fake struct {
	name          string
	alive, paused bool
	trace         *[]string
}

func (f *fake) Name() string { return f.name }
func (f *fake) Alive() bool  { return f.alive }
func (f *fake) note(what string) error {
	*f.trace = append(*f.trace, what+" "+f.name)
	return nil
}
func (f *fake) Kill() error                 { f.alive = false; return f.note("kill") }
func (f *fake) Start(context.Context) error { f.alive = true; return f.note("start") }
func (f *fake) Pause() error                { f.paused = true; return f.note("pause") }
func (f *fake) Resume() error               { f.paused = false; return f.note("resume") }

func TestOneSeedIsOneSchedule(t *testing.T) {
	a := Plan(7, 20, time.Second, time.Second, Kill, Pause)
	if !reflect.DeepEqual(a, Plan(7, 20, time.Second, time.Second, Kill, Pause)) {
		t.Error("the same seed gave another schedule")
	}
	if reflect.DeepEqual(a, Plan(8, 20, time.Second, time.Second, Kill, Pause)) {
		t.Error("another seed gave the same schedule")
	}
	for i, s := range a {
		if s.Heals >= 0 && (s.Heals >= i || a[s.Heals].Heals != -1) {
			t.Errorf("step %d heals step %d", i, s.Heals)
		}
	}
}

func TestEverythingHurtIsHealedEvenWhenTheRunIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trace []string
		f := &fake{name: "n1", alive: true, trace: &trace}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		n := Nemesis{Pick: func(context.Context) (Target, error) { return f, nil }, Log: history.New(io.Discard, time.Now)}
		out, err := n.Run(ctx, []Step{{time.Second, Kill, -1}, {time.Hour, Start, 0}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if want := []string{"kill n1", "start n1"}; !reflect.DeepEqual(trace, want) {
			t.Errorf("did %v, want %v", trace, want)
		}
		if out.Hurt[Kill] != 1 {
			t.Errorf("outcome %+v", out)
		}
	})
}

func TestAFaultWithoutAVictimDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trace []string
		dead := &fake{name: "n1", trace: &trace}
		n := Nemesis{Pick: func(context.Context) (Target, error) { return dead, nil }, Log: history.New(io.Discard, time.Now)}
		out, err := n.Run(t.Context(), Plan(1, 3, time.Second, time.Second, Kill))
		if err != nil || out.Missed != 3 || out.Hurt[Kill] != 0 || len(trace) != 0 {
			t.Errorf("outcome %+v, error %v, did %v", out, err, trace)
		}
	})
}
