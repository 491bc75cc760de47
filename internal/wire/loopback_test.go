package wire

import (
	"context"
	"net"
	"strings"
	"testing"
)

func TestFreeLoopbackDrawsNothingTwiceAndNothingThatTheSystemHandsOut(t *testing.T) {
	seen := map[string]bool{}
	for range 5 {
		all, err := FreeLoopback(t.Context(), 20)
		if err != nil || len(all) != 20 {
			t.Fatalf("drew %v: %v", all, err)
		}
		for _, address := range all {
			at, err := net.ResolveTCPAddr("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			if seen[address] || at.Port >= 32768 || !at.IP.IsLoopback() {
				t.Errorf("drew %s", address)
			}
			seen[address] = true
			l, err := Policy{}.Listen(t.Context(), address)
			if err != nil {
				t.Errorf("%s is not free: %v", address, err)
				continue
			}
			t.Cleanup(func() { _ = l.Close() })
		}
	}
}

func TestFreeLoopbackGivesUpWithTheReason(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if all, err := FreeLoopback(ctx, 3); err == nil || !strings.Contains(err.Error(), "draw 3 free ports") {
		t.Errorf("drew %v: %v", all, err)
	}
}
