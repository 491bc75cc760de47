package window_test

import (
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"pgregory.net/rapid"
)

func drawTumbling(t *rapid.T) window.Tumbling {
	w, err := window.NewTumbling(
		time.Duration(rapid.Int64Range(1, 1<<40).Draw(t, "size_us"))*time.Microsecond,
		time.Duration(rapid.Int64Range(-1<<42, 1<<42).Draw(t, "offset_us"))*time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestTumblingWindowsPartitionTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawTumbling(t)
		at := element.Time(rapid.Int64Range(-1<<50, 1<<50).Draw(t, "at"))
		win := w.Assign(at)
		if !win.Contains(at) || win.End-win.Start != w.Size {
			t.Fatalf("%v in %v, size %d", at, win, w.Size)
		}
		if (win.Start-w.Offset)%w.Size != 0 {
			t.Fatalf("%v is not aligned to %d + n·%d", win, w.Offset, w.Size)
		}
		if next := w.Assign(win.End); next.Start != win.End {
			t.Fatalf("%v is followed by %v", win, next)
		}
		if same := w.Assign(win.Last()); same != win {
			t.Fatalf("the last instant of %v is in %v", win, same)
		}
	})
}

func TestNegativeTimesFloor(t *testing.T) {
	day, _ := window.NewTumbling(24*time.Hour, 0)
	at := element.At(time.Date(1969, 12, 31, 23, 0, 0, 0, time.UTC))
	want := window.Window{
		Start: element.At(time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)),
		End:   element.At(time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	if got := day.Assign(at); got != want {
		t.Errorf("%v is in %v, want %v", at, got, want)
	}
}

func TestOffsetMovesTheStart(t *testing.T) {
	berlin, _ := window.NewTumbling(24*time.Hour, -time.Hour) // midnight at UTC+1
	at := element.At(time.Date(2026, 1, 1, 23, 30, 0, 0, time.UTC))
	want := element.At(time.Date(2026, 1, 1, 23, 0, 0, 0, time.UTC))
	if got := berlin.Assign(at).Start; got != want {
		t.Errorf("starts at %v, want %v", got, want)
	}
}

func TestWindowsAreCutAtTheLimitsOfTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawTumbling(t)
		for _, at := range []element.Time{
			element.MinTime, element.MinTime + element.Time(rapid.Int64Range(0, 1<<41).Draw(t, "low")),
			element.MaxTime - 1 - element.Time(rapid.Int64Range(0, 1<<41).Draw(t, "high")),
		} {
			win := w.Assign(at)
			if !win.Contains(at) || win.Start > win.End {
				t.Fatalf("%d is in [%d, %d)", at, win.Start, win.End)
			}
		}
	})
	w, _ := window.NewTumbling(time.Second, 0)
	if win := w.Assign(element.MaxTime); win.End != element.MaxTime || win.Start > element.MaxTime-1 {
		t.Errorf("the end of time is in [%d, %d)", win.Start, win.End)
	}
}

func TestSizeMustBePositive(t *testing.T) {
	for _, size := range []time.Duration{0, -time.Second, time.Nanosecond} {
		if _, err := window.NewTumbling(size, 0); err == nil {
			t.Errorf("size %v was taken", size)
		}
	}
}
