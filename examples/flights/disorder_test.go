package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/connector/suite"
	"github.com/sluiceio/sluice/flow"
)

// TestFlightsAsSeenAreASource whose readers give way while they still collect what they have to sort, and go on where
// others stopped.
func TestFlightsAsSeenAreASource(t *testing.T) {
	var text strings.Builder
	text.WriteString("date,delay,distance,origin,destination,row\n")
	var want []Flight
	for i := range 30 {
		f := Flight{Date: flow.At(time.Date(2001, time.January, 1, 0, i, 0, 0, time.UTC)), Delay: int64(i * 7 % 11), Distance: int64(i), Origin: "SEA", Destination: "SFO"}
		want = append(want, f)
		fmt.Fprintf(&text, "%s,%d,%d,%s,%s,%d\n", f.Date.Std().UTC().Format("2006-01-02 15:04:05"), f.Delay, f.Distance, f.Origin, f.Destination, i)
	}
	path := filepath.Join(t.TempDir(), "flights.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{true, false} {
		t.Run(fmt.Sprintf("whole %v", whole), func(t *testing.T) {
			suite.TestSource(t, suite.Source[Flight]{
				Open: func(testing.TB) flow.Source[Flight] {
					return seen{Source: file.CSV[Flight](path, file.NoQuotes()), whole: whole}
				},
				Want: want,
				Name: func(f Flight) string { return fmt.Sprintf("%d", f.Distance) },
			})
		})
	}
}
