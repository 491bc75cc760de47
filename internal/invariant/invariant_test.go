package invariant

import (
	"testing"
	"unsafe"
)

// violation runs f and returns the message of the invariant that it violates.
func violation(f func()) (message string) {
	defer func() {
		if v, ok := recover().(*Violation); ok {
			message = v.Error()
		}
	}()
	f()
	return ""
}

func expect(t *testing.T, f func(), want string) {
	t.Helper()
	if !Enabled {
		want = ""
	}
	if got := violation(f); got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestViolationsPanicInCheckedBuildsOnly(t *testing.T) {
	expect(t, func() { That(true, "never") }, "")
	expect(t, func() { That(1 > 2, "%d > %d", 1, 2) }, "invariant violated: 1 > 2")
}

func TestSecondOwnerIsFound(t *testing.T) {
	var e Exclusive
	expect(t, func() { e.Enter("a"); e.Leave(); e.Enter("b"); e.Leave() }, "")
	expect(t, func() { e.Leave() }, "invariant violated: leave without enter")
	expect(t, func() { e.Enter("loop"); e.Enter("reader") }, "invariant violated: reader enters while loop is inside")
}

func TestUncheckedBuildsPayNothing(t *testing.T) {
	if Enabled {
		t.Skip("this build has checks")
	}
	if size := unsafe.Sizeof(Exclusive{}); size != 0 {
		t.Errorf("Exclusive takes %d bytes", size)
	}
	var e Exclusive
	if n := testing.AllocsPerRun(100, func() { e.Enter("x"); That(false, "x"); e.Leave() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
