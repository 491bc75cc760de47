package file

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/suite"
)

func TestSourceConformance(t *testing.T) {
	dir := t.TempDir()
	var lines []string
	for f := range 3 {
		var text strings.Builder
		for i := range 20 {
			lines = append(lines, fmt.Sprintf("%d-%d%s", f, i, strings.Repeat("x", i)))
			text.WriteString(lines[len(lines)-1] + "\n")
		}
		write(t, dir, []string{"a.txt", "b.txt.gz", "sub/c.txt"}[f], text.String())
	}
	suite.TestSource(t, suite.Source[string]{
		Open: func(testing.TB) connector.Source[string] { return Lines(dir, SplitSize(64)) },
		Slow: func(testing.TB) connector.Source[string] { return Lines(dir, Rate(1)) },
		Want: lines, Name: func(s string) string { return s },
	})
}

func TestCSVConformance(t *testing.T) {
	dir := t.TempDir()
	want := []row{{"plain", 1, 0}, {"with \"quotes\", and\na break", 2, 0}, {"", 3, 0}, {"last", 4, 0}}
	write(t, dir, "quoted.csv", "name,n,at\nplain,1,1970-01-01 00:00:00\n\"with \"\"quotes\"\", and\na break\",2,1970-01-01 00:00:00\n\n,3,1970-01-01 00:00:00\nlast,4,1970-01-01 00:00:00")
	name := func(r row) string { return fmt.Sprint(r) }
	suite.TestSource(t, suite.Source[row]{
		Open: func(testing.TB) connector.Source[row] { return CSV[row](dir, SplitSize(10)) },
		Want: want, Name: name,
	})
	plain := t.TempDir()
	text := "n,name,at\n"
	want = nil
	for i := range 50 {
		want = append(want, row{fmt.Sprint("name", i), int64(i), 0})
		text += fmt.Sprintf("%d,name%d,1970-01-01 00:00:00\n", i, i)
	}
	write(t, plain, "plain.csv", text)
	suite.TestSource(t, suite.Source[row]{
		Open: func(testing.TB) connector.Source[row] { return CSV[row](plain, SplitSize(100), NoQuotes()) },
		Want: want, Name: name,
	})
}

func TestSinkConformance(t *testing.T) {
	suite.TestSink(t, suite.Sink[string]{
		Values: []string{"a", "b", "c", "d", "e", "f"},
		Name:   func(v string) string { return v },
		Open:   directory,
	})
}

// directory is a real one that others use, too.
func directory(t testing.TB) suite.Place[string] {
	dir := t.TempDir()
	list := func(t testing.TB, dir string, ours bool) (paths []string) {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.IsDir() && strings.HasPrefix(e.Name(), "part-") == ours {
				paths = append(paths, filepath.Join(dir, e.Name()))
			}
		}
		return paths
	}
	return suite.Place[string]{
		Sink: Text(dir, text),
		Visible: func(t testing.TB) (rows []string) {
			for _, p := range list(t, dir, true) {
				f, err := os.Open(p)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				for sc := bufio.NewScanner(f); sc.Scan(); {
					rows = append(rows, sc.Text())
				}
			}
			return rows
		},
		Leftovers: func(t testing.TB) int { return len(list(t, filepath.Join(dir, tmpDir), true)) },
		Litter: func(t testing.TB) func(testing.TB) {
			paths := []string{write(t, dir, "notes.txt", "mine"), write(t, dir, ".tmp/draft", "mine"), write(t, dir, "sub/deep", "mine")}
			return func(t testing.TB) {
				for _, p := range paths {
					if data, err := os.ReadFile(p); err != nil || string(data) != "mine" {
						t.Errorf("%s: %q, %v", p, data, err)
					}
				}
			}
		},
	}
}
