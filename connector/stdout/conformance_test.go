package stdout

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/connector/suite"
)

func TestConformance(t *testing.T) {
	suite.TestSink(t, suite.Sink[int]{
		Values: []int{1, 2, 3, 4, 5, 6},
		Name:   strconv.Itoa,
		Open: func(t testing.TB) suite.Place[int] {
			f, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			old := os.Stdout
			os.Stdout = f
			t.Cleanup(func() { os.Stdout = old; f.Close() })
			return suite.Place[int]{Sink: Sink[int](), Visible: func(t testing.TB) []string {
				data, err := os.ReadFile(f.Name())
				if err != nil {
					t.Fatal(err)
				}
				return strings.Fields(string(data))
			}}
		},
	})
}
