package parquet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/suite"
)

type trip struct {
	At     int64  `parquet:"at,timestamp(microsecond)"`
	Delay  int64  `parquet:"delay"`
	Origin string `parquet:"origin"`
	Note   string `parquet:"note,optional"`
}

// write makes a file with row groups of five rows.
func write(t testing.TB, path string, rows []trip) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := pq.NewGenericWriter[trip](f, pq.MaxRowsPerRowGroup(5))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func trips(from, to int) (rows []trip) {
	for i := from; i < to; i++ {
		rows = append(rows, trip{At: int64(i) * 1e6, Delay: int64(i) - 7, Origin: fmt.Sprint("origin ", i%3), Note: strings.Repeat("n", i%2)})
	}
	return rows
}

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.parquet"), trips(0, 23))
	write(t, filepath.Join(dir, "sub", "b.parquet"), trips(23, 25))
	write(t, filepath.Join(dir, ".hidden.parquet"), trips(100, 101))
	write(t, filepath.Join(dir, "empty.parquet"), nil)
	if err := os.WriteFile(filepath.Join(dir, "readme.txt"), []byte("no parquet"), 0o644); err != nil {
		t.Fatal(err)
	}
	suite.TestSource(t, suite.Source[trip]{
		Open: func(testing.TB) connector.Source[trip] { return Rows[trip](dir) },
		Want: trips(0, 25),
		Name: func(v trip) string { return fmt.Sprint(v) },
	})
}

func read[T any](t *testing.T, src connector.Source[T]) (vs []T, err error) {
	t.Helper()
	e, err := src.OpenEnumerator(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	splits, err := e.Next(t.Context())
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return readSplits(t, src, splits)
}

func readSplits[T any](t *testing.T, src connector.Source[T], splits []connector.Split) (vs []T, err error) {
	t.Helper()
	r, err := src.OpenReader(t.Context(), &connector.Task{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Assign(splits); err != nil {
		return nil, err
	}
	for {
		out := connector.Records[T]{Max: 100}
		err := r.Poll(t.Context(), &out)
		vs = append(vs, out.Vals...)
		if errors.Is(err, io.EOF) {
			return vs, nil
		}
		if err != nil {
			return vs, err
		}
	}
}

func TestColumnsAreFoundByName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	write(t, path, trips(3, 5))
	type some struct {
		Origin string    `parquet:"origin"`
		When   time.Time `parquet:"at,timestamp(microsecond)"`
	}
	got, err := read(t, Rows[some](path))
	if err != nil || len(got) != 2 || got[1].Origin != "origin 1" || !got[1].When.Equal(time.Unix(4, 0)) {
		t.Errorf("%+v, %v", got, err)
	}
	type other struct {
		Origin string `parquet:"origin"`
		Gone   int64  `parquet:"arrival"`
	}
	if _, err := read(t, Rows[other](path)); err == nil || !connector.IsFatal(err) || !strings.Contains(err.Error(), "no column arrival") || !strings.Contains(err.Error(), path) {
		t.Errorf("a field without a column: %v", err)
	}
}

func TestBadInputIsNamed(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.parquet")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no parquet file ", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none")
	if err := os.Mkdir(none, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{text, none, filepath.Join(dir, "*.pq"), filepath.Join(dir, "missing.parquet"), filepath.Join(dir, "[")} {
		if _, err := read(t, Rows[trip](pattern)); err == nil || !connector.IsFatal(err) || !strings.Contains(err.Error(), pattern) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

func TestARelativePathIsRefusedInATaskProcess(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "x.parquet", trips(0, 9))
	if _, err := read(t, Rows[trip]("x.parquet")); err != nil {
		t.Errorf("embedded: %v", err)
	}
	t.Setenv("SLUICE_TASK", "1")
	if _, err := read(t, Rows[trip]("x.parquet")); err == nil || !connector.IsFatal(err) || !strings.Contains(err.Error(), "relative") {
		t.Errorf("on a cluster: %v", err)
	}
}

func TestAChangedFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	write(t, path, trips(0, 9))
	src := Rows[trip](path)
	e, err := src.OpenEnumerator(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	splits, err := e.Next(t.Context())
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := readSplits(t, src, splits); err == nil || !connector.IsFatal(err) || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("got %v", err)
	}
}

func TestADamagedFileIsAnErrorAndNoPanic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	write(t, path, trips(0, 40))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(whole); i += 7 {
		bad := append([]byte(nil), whole...)
		bad[i] ^= 0x5a
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := read(t, Rows[trip](path)); err != nil && !connector.IsFatal(err) {
			t.Errorf("byte %d: %v is not fatal", i, err)
		}
	}
}

func FuzzSplit(f *testing.F) {
	g := group{Path: "x", Rows: 5, Next: 2}
	f.Add(uint16(splitVersion), g.split().Data)
	f.Fuzz(func(t *testing.T, version uint16, data []byte) {
		g, err := decode(connector.Split{Version: version, Data: data})
		if err == nil && (g.Group < 0 || g.Next < 0 || g.Next > g.Rows) {
			t.Errorf("accepted %+v", g)
		}
	})
}
