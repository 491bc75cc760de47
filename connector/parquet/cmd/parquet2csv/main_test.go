package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"
)

type record struct {
	At    time.Time `parquet:"at,timestamp(microsecond)"`
	Delay int64     `parquet:"delay"`
	Name  string    `parquet:"name"`
	Maybe *float64  `parquet:"maybe,optional"`
}

func TestRowsKeepTheirOrderAcrossFiles(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "in.parquet"), filepath.Join(dir, "out")
	half := 0.5
	var rows []record
	for i := range 25 {
		r := record{At: time.Date(2001, 1, 1, 0, i, 0, 0, time.UTC), Delay: int64(-i), Name: "a"}
		switch i {
		case 3:
			r.Name = `say "hi", twice`
		case 4:
			r.Maybe = &half
			r.At = r.At.Add(time.Millisecond)
		}
		rows = append(rows, r)
	}
	f, err := os.Create(from)
	if err != nil {
		t.Fatal(err)
	}
	w := pq.NewGenericWriter[record](f, pq.MaxRowsPerRowGroup(7))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := convert(from, to, options{parts: 4}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(to, "*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%v, %v", files, err)
	}
	var lines []string
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		part := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		if part[0] != "at,delay,name,maybe" {
			t.Errorf("%s: header %q", name, part[0])
		}
		lines = append(lines, part[1:]...)
	}
	if len(lines) != 25 {
		t.Fatalf("%d rows", len(lines))
	}
	for i, line := range lines {
		want := rows[i].At.Format("2006-01-02 15:04:05") + "," + "-" + strconv.Itoa(i) + ",a,"
		switch i {
		case 0:
			want = "2001-01-01 00:00:00,0,a,"
		case 3:
			want = `2001-01-01 00:03:00,-3,"say ""hi"", twice",`
		case 4:
			want = "2001-01-01 00:04:00.001,-4,a,0.5"
		}
		if line != want {
			t.Errorf("row %d: %q, want %q", i, line, want)
		}
	}
	if err := convert(from, to, options{parts: 1}); err == nil {
		t.Error("an existing directory was overwritten")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".parquet2csv-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestNestedColumnsAreRefused(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "in.parquet")
	type nested struct {
		Tags []string `parquet:"tags"`
	}
	f, err := os.Create(from)
	if err != nil {
		t.Fatal(err)
	}
	w := pq.NewGenericWriter[nested](f)
	if _, err := w.Write([]nested{{[]string{"a"}}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := convert(from, filepath.Join(dir, "out"), options{parts: 1}); err == nil || !strings.Contains(err.Error(), "tags") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
		t.Error("half a directory was published")
	}
}

func TestRowsAreNumberedAcrossFilesAndRowGroups(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "in.parquet"), filepath.Join(dir, "out")
	type named struct {
		Name string `parquet:"name"`
	}
	f, err := os.Create(from)
	if err != nil {
		t.Fatal(err)
	}
	w := pq.NewGenericWriter[named](f, pq.MaxRowsPerRowGroup(4))
	for i := range 11 {
		if _, err := w.Write([]named{{Name: "n" + strconv.Itoa(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := convert(from, to, options{parts: 3, row: "row"}); err != nil {
		t.Fatal(err)
	}
	next := 0
	for i := range 3 {
		data, err := os.ReadFile(filepath.Join(to, "part-00"+strconv.Itoa(i)+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		if lines[0] != "name,row" {
			t.Errorf("header %q", lines[0])
		}
		for _, line := range lines[1:] {
			if want := "n" + strconv.Itoa(next) + "," + strconv.Itoa(next); line != want {
				t.Errorf("line %q, want %q", line, want)
			}
			next++
		}
	}
	if next != 11 {
		t.Errorf("%d rows", next)
	}
	if err := convert(from, filepath.Join(dir, "twice"), options{parts: 1, row: "name"}); err == nil || !strings.Contains(err.Error(), "name") {
		t.Errorf("a column of the file was hidden: %v", err)
	}
}
