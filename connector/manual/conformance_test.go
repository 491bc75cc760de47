package manual

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/suite"
	"github.com/sluiceio/sluice/flow/element"
)

var numbers = []int{3, 1, 4, 1, 5, 9, 2, 6}

func fed(t testing.TB) *Feed[int] {
	f := newFeed[int]()
	f.bounded = true
	for i, v := range numbers {
		if err := f.Push(v, element.Time(i)); err != nil {
			t.Fatal(err)
		}
	}
	f.End()
	return f
}

func TestFeedConformance(t *testing.T) {
	suite.TestSource(t, suite.Source[int]{Want: numbers, Name: strconv.Itoa, Open: func(t testing.TB) connector.Source[int] { return fed(t) }})
}

func TestTimetableConformance(t *testing.T) {
	suite.TestSource(t, suite.Source[int]{Want: numbers, Name: strconv.Itoa, Open: func(testing.TB) connector.Source[int] {
		return Timetable(numbers, []Departure{{0, 2}, {time.Microsecond, 0}, {2 * time.Microsecond, 3}})
	}})
	every := make([]Departure, len(numbers))
	for i := range every {
		every[i] = Departure{time.Duration(i) * time.Second, 1}
	}
	suite.TestSource(t, suite.Source[int]{Want: numbers, Name: strconv.Itoa,
		Open: func(testing.TB) connector.Source[int] { return Timetable(numbers, nil) },
		Slow: func(testing.TB) connector.Source[int] { return Timetable(numbers, every) },
	})
}

func TestBasinConformance(t *testing.T) {
	suite.TestSink(t, suite.Sink[int]{
		Values: []int{1, 2, 3, 4, 5, 6}, Name: strconv.Itoa,
		Open: func(testing.TB) suite.Place[int] {
			b := &Basin[int]{}
			var seen []string
			return suite.Place[int]{Sink: b, Visible: func(testing.TB) []string {
				for _, v := range b.Take() {
					seen = append(seen, strconv.Itoa(v))
				}
				return seen
			}}
		},
	})
}

func TestPromisesComeWhereTheyWerePushed(t *testing.T) {
	f := newFeed[int]()
	for _, err := range []error{f.Push(7, 10), f.Watermark(12), f.Push(8, 20)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := &reader[int]{feed: f}
	if err := r.Assign([]connector.Split{splitAt(0)}); err != nil {
		t.Fatal(err)
	}
	var out connector.Records[int]
	out.Max = 10
	if err := r.Poll(t.Context(), &out); err != nil || !slices.Equal(out.Vals, []int{7}) || !slices.Equal(out.Marks, []connector.Mark{{Split: 0, At: 12}}) {
		t.Errorf("%v, promises %v, %v", out.Vals, out.Marks, err)
	}
	out.Reset()
	if err := r.Poll(t.Context(), &out); err != nil || !slices.Equal(out.Vals, []int{8}) || len(out.Marks) > 0 {
		t.Errorf("%v, promises %v, %v", out.Vals, out.Marks, err)
	}
	f.End()
	if err := f.Push(9, 30); err == nil {
		t.Error("a record after the end")
	}
}

func TestWhatDoesNotExistOrHasAnotherTypeIsAnErrorWithNames(t *testing.T) {
	c := New()
	Source[int](c, "clicks", nil)
	Sink[string](c, "out")
	for _, err := range []error{
		second(FeedOf[string](c, "clicks")), second(FeedOf[int](c, "clocks")), second(BasinOf[int](c, "out")), second(c.Feeder("out")),
	} {
		if err == nil {
			t.Error("found")
		}
	}
	if _, err := FeedOf[int](c, "clicks"); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }
