package mark

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
)

// The scripts under testdata tell how the watermark of several inputs comes about:
//
//	inputs n=N            starts over with N inputs
//	run                   the lines of the block change inputs and print what has to be said downstream
//	  wm I T | wake I | idle I | end I [T] | add
func TestWatermarkOfSeveralInputs(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var m *Merger
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "inputs":
				var n int
				d.ScanArgs(t, "n", &n)
				m = New(n)
				return ""
			case "run":
				return script(t, m, d.Input)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

func script(t *testing.T, m *Merger, input string) string {
	var out strings.Builder
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		var verb string
		i, at := 0, element.MaxTime
		if n, err := fmt.Sscan(line, &verb, &i, &at); n == 0 {
			t.Fatal(err)
		}
		switch verb {
		case "wm":
			m.Set(i, at)
		case "wake":
			m.Wake(i)
		case "idle":
			m.Rest(i)
		case "end":
			m.Finish(i, at)
		case "add":
			m.Add()
		default:
			t.Fatalf("unknown verb in %q", line)
		}
		fmt.Fprintf(&out, "%-10s", line)
		for ev, ok := m.Next(); ok; ev, ok = m.Next() {
			fmt.Fprintf(&out, " → %s", eventText(ev))
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

func eventText(ev element.Event) string {
	at := fmt.Sprint(int64(ev.Time))
	switch ev.Time {
	case element.MinTime, element.MaxTime:
		at = ev.Time.String()
	}
	switch ev.Kind {
	case element.Watermark:
		return "watermark " + at
	case element.Idle:
		return "idle"
	case element.End:
		return "end " + at
	}
	return "?"
}

// TestWatermarkIsTheMinimumOfActiveInputs compares the Merger with the definition, after any changes.
func TestWatermarkIsTheMinimumOfActiveInputs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "inputs")
		m := New(n)
		type model struct {
			at          element.Time
			idle, ended bool
		}
		ins := make([]model, n)
		for i := range ins {
			ins[i].at = element.MinTime
		}
		said := element.MinTime
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			i := rapid.IntRange(0, n-1).Draw(t, "input")
			in := &ins[i]
			switch rapid.IntRange(0, 9).Draw(t, "change") {
			case 0:
				m.Rest(i)
				in.idle = true
			case 1:
				m.Wake(i)
				in.idle = false
			case 2:
				m.Finish(i, element.MaxTime)
				in.ended = true
			default:
				at := element.Time(rapid.IntRange(0, 20).Draw(t, "time"))
				m.Set(i, at)
				if !in.ended {
					in.at, in.idle = max(in.at, at), false
				}
			}
			least, active, live := element.MaxTime, 0, 0
			for _, in := range ins {
				if !in.ended {
					live++
					if !in.idle {
						active++
						least = min(least, in.at)
					}
				}
			}
			ev, ok := m.Next()
			switch {
			case live == 0:
				if ok && ev != (element.Event{Kind: element.End, Time: element.MaxTime}) {
					t.Fatalf("all inputs have ended, said %v", ev)
				}
			case active == 0:
				if ok && ev.Kind != element.Idle {
					t.Fatalf("every input is idle, said %v", ev)
				}
			case least > said:
				if !ok || ev != (element.Event{Kind: element.Watermark, Time: least}) {
					t.Fatalf("the minimum is %d, said %v %v", least, ev, ok)
				}
				said = least
			case ok && (ev.Kind != element.Watermark || ev.Time != said):
				t.Fatalf("nothing moved, said %v", ev)
			}
		}
	})
}
