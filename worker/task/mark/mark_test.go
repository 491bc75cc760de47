package mark

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

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
