package discard

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sluiceio/sluice/connector/suite"
)

func TestConformance(t *testing.T) {
	suite.TestSink(t, suite.Sink[int]{
		Values: []int{1, 2, 3, 4, 5, 6},
		Name:   func(int) string { return "record" },
		Open: func(testing.TB) suite.Place[int] {
			n := new(atomic.Int64)
			return suite.Place[int]{Sink: Sink[int](n), Visible: func(testing.TB) []string { return slices.Repeat([]string{"record"}, int(n.Load())) }}
		},
	})
}
