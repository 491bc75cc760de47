package budget

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the order and the sizes: what fits into half of the memory with the smallest buffers is never refused.
func TestBuffersShrinkBeforeAnyoneIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New(rapid.Int64Range(1<<20, 256<<20).Draw(t, "limit"))
		type user struct {
			least int64
			r     Reservation
		}
		var users []user
		var least, taken int64
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if len(users) > 0 && rapid.IntRange(0, 3).Draw(t, "leave") == 0 {
				i := rapid.IntRange(0, len(users)-1).Draw(t, "who")
				m.GiveBack(users[i].r)
				least, taken = least-users[i].least, taken-users[i].r.Bytes
				users = append(users[:i], users[i+1:]...)
				continue
			}
			buffers := rapid.IntRange(1, 300).Draw(t, "buffers")
			need := int64(buffers) * MinUnit
			unit, r, err := m.Fit("x", buffers)
			var e *Error
			if err != nil && (!errors.As(err, &e) || e.Need != need || least+need <= m.limit/2) {
				t.Fatalf("%v, with %d of %d taken", err, least, m.limit)
			}
			if err != nil {
				continue
			}
			if r.Bytes != int64(buffers)*int64(unit) || unit < MinUnit || unit > MaxUnit {
				t.Fatalf("%d buffers of %d bytes in %d", buffers, unit, r.Bytes)
			}
			users = append(users, user{need, r})
			least, taken = least+need, taken+r.Bytes
			if used, limit := m.Usage(); used != taken || used > limit {
				t.Fatalf("%d of %d used, %d taken", used, limit, taken)
			}
		}
		for _, u := range users {
			m.GiveBack(u.r)
		}
		if used, _ := m.Usage(); used != 0 || m.mu.extra != 0 {
			t.Fatalf("%d used at the end", used)
		}
	})
	if unit, _, err := New(32<<20).Fit("x", 32); err != nil || unit != MaxUnit {
		t.Errorf("with plenty of memory: buffers of %d bytes, %v", unit, err)
	}
}
