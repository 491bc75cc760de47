package mail

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func TestAMailboxIsBounded(t *testing.T) {
	m := New()
	for range MaxLetters {
		if !m.Post(Letter{}) {
			t.Fatal("refused too early")
		}
	}
	if m.Post(Letter{}) {
		t.Error("not bounded")
	}
	if l, _ := m.Take(); len(l) != MaxLetters || m.Pending() {
		t.Errorf("%d letters, pending %v", len(l), m.Pending())
	}
	if !m.Post(Letter{}) {
		t.Error("still full")
	}
}

// The mailbox never loses a wake-up, whatever the order of posting, polling and taking.
func TestNoLetterIsLost(t *testing.T) {
	m := New()
	const n = 20_000
	g := run.NewGroup(t.Context(), "test")
	g.Go("post", func(context.Context) error {
		for i := range n {
			for !m.Post(Letter{Assign: &taskpb.AssignSplits{Offset: int32(i)}}) {
				select {
				case <-t.Context().Done():
					return fmt.Errorf("nobody takes")
				case <-time.After(time.Microsecond):
				}
			}
		}
		return nil
	})
	next := int32(0)
	for next < n {
		ctx, cancel := context.WithCancel(t.Context())
		m.OnLetter(cancel)
		if !m.Pending() {
			<-ctx.Done() // a poll that nothing but a letter ends
		}
		letters, _ := m.Take()
		for _, l := range letters {
			if l.Assign.Offset != next {
				t.Fatalf("letter %d, want %d", l.Assign.Offset, next)
			}
			next++
		}
		cancel()
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}
