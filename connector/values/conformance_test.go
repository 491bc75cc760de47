package values

import (
	"strconv"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/suite"
)

func TestConformance(t *testing.T) {
	want := []int{3, 1, 4, 1, 5, 9, 2, 6}
	suite.TestSource(t, suite.Source[int]{
		Want: want,
		Name: strconv.Itoa,
		Open: func(testing.TB) connector.Source[int] { return Slice[int](want) },
	})
}
