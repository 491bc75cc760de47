package collect

import (
	"testing"

	"github.com/sluiceio/sluice/connector/suite"
)

func TestConformance(t *testing.T) {
	suite.TestSink(t, suite.Sink[string]{
		Values: []string{"a", "b", "c", "d", "e", "f"},
		Name:   func(v string) string { return v },
		Open: func(testing.TB) suite.Place[string] {
			r := New[string]()
			return suite.Place[string]{Sink: r, Visible: func(testing.TB) []string { return r.Values() }, Leftovers: func(testing.TB) int {
				n := 0
				for _, p := range r.mu.parts {
					if !p.committed {
						n++
					}
				}
				return n
			}}
		},
	})
}
