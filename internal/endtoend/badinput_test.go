package endtoend

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestABatchWithAnEndlessSourceIsRefusedWithItsPlace(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	a := job(t, "trial", "--job=endless", "--out="+out, "--sluice.mode=batch")
	if a.exit != exitPlan || !a.says("error E0", `"in"`, "trial/main.go:") {
		t.Error(a)
	}
}

func TestABlockingExchangeAfterAnEndlessSourceNamesBothPlaces(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	a := job(t, "trial", "--job=dammed", "--out="+out)
	if a.exit != exitPlan || !a.says("error E020", "numbered", "counted") || strings.Count(a.err, "trial/main.go:") < 2 {
		t.Error(a)
	}
	c := newCluster(t, options{workers: 1, slots: 2})
	a = c.submit("trial", "-p", "job=dammed", "-p", "out="+out)
	if a.exit != exitPlan || !a.says("E020") {
		t.Error(a)
	}
}

func TestAPartitionerThatMissesFailsTheJobOnce(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	a := job(t, "trial", "--job=misroute", "--rows=1000", "--out="+out, "--sluice.parallelism=2")
	if a.exit != exitFailed || !a.says("E128", "2") {
		t.Error(a)
	}
	if rows := rowsOf(t, out); len(rows) > 0 {
		t.Errorf("%d rows of a failed job were published", len(rows))
	}
	c := newCluster(t, options{workers: 1, slots: 2})
	a = c.submit("trial", "-p", "job=misroute", "-p", "rows=1000", "-p", "out="+out, "--parallelism", "2", "--set", "restart=none")
	if a.exit != exitFailed || !a.says("E128") {
		t.Error(a)
	}
}

func TestRecordsLargerThanABufferPassEveryExchange(t *testing.T) {
	const size = 3 << 20 // a buffer holds 32 KiB, a block 64 KiB
	var want []string
	for i := range 6 { // every record goes to both consumers
		row := fmt.Sprintf("%d|%d", i, size)
		want = append(want, row, row)
	}
	c := newCluster(t, options{workers: 2, slots: 1})
	for _, mode := range []string{"streaming", "batch"} {
		out := filepath.Join(t.TempDir(), mode)
		if a := job(t, "trial", "--job=large", "--rows=6", fmt.Sprintf("--size=%d", size), "--out="+out, "--sluice.mode="+mode, "--sluice.parallelism=2"); a.exit != exitOK {
			t.Fatalf("mode %s: %v", mode, a)
		}
		checkRows(t, out, want)
		out += "-cluster"
		c.finish("trial", "-p", "job=large", "-p", "rows=6", "-p", fmt.Sprintf("size=%d", size), "-p", "out="+out, "--set", "mode="+mode, "--parallelism", "2")
		checkRows(t, out, want)
	}
}

func TestARecordOfMoreThan64MiBFailsTheJobWithItsSize(t *testing.T) {
	const size = 65 << 20
	c := newCluster(t, options{workers: 2, slots: 1})
	for _, mode := range []string{"streaming", "batch"} {
		out := filepath.Join(t.TempDir(), mode)
		a := c.submit("trial", "-p", "job=large", "-p", "rows=1", "-p", fmt.Sprintf("size=%d", size), "-p", "out="+out,
			"--set", "mode="+mode, "--set", "restart=none", "--parallelism", "2")
		if a.exit != exitFailed || !a.says("E129", "64") {
			t.Errorf("mode %s: %v", mode, a)
		}
		if rows := rowsOf(t, out); len(rows) > 0 {
			t.Errorf("mode %s: %d rows of a failed job were published", mode, len(rows))
		}
	}
}

// TestAKeyWithMoreRowsThanMemoryOnBothSidesIsJoined: 12 MiB of rows on each side, 4 MiB for the join.
func TestAKeyWithMoreRowsThanMemoryOnBothSidesIsJoined(t *testing.T) {
	const n, size = 3000, 4096
	want := buckets(func(put func(key, value int64)) {
		for i := range int64(n) {
			for j := range int64(n) {
				put(i, i+j)
			}
		}
	})
	for _, mode := range []string{"auto", "streaming"} {
		out := filepath.Join(t.TempDir(), mode)
		a := job(t, "trial", "--job=hotkey", fmt.Sprintf("--rows=%d", n), fmt.Sprintf("--size=%d", size), "--out="+out,
			"--sluice.mode="+mode, "--sluice.parallelism=1", "--sluice.batch.memory=4MiB")
		if a.exit != exitOK {
			t.Fatalf("mode %s: %v", mode, a)
		}
		checkRows(t, out, want)
	}
}

// TestASortThatExceedsItsMemoryIsATotalOrder: some 20 MiB of records, 2 MiB of memory, two ranges.
func TestASortThatExceedsItsMemoryIsATotalOrder(t *testing.T) {
	const n, size = 100_000, 200
	out := filepath.Join(t.TempDir(), "out")
	a := job(t, "trial", "--job=sort", fmt.Sprintf("--rows=%d", n), fmt.Sprintf("--size=%d", size), "--out="+out, "--sluice.parallelism=2", "--sluice.batch.memory=4MiB")
	if a.exit != exitOK {
		t.Fatal(a)
	}
	rows := rowsOf(t, out)
	if !slices.IsSorted(rows) {
		t.Error("the rows are not in order")
	}
	seen := make([]bool, n)
	for _, row := range rows {
		_, id, _ := strings.Cut(row, "|")
		i, err := strconv.Atoi(id)
		if err != nil || i < 0 || i >= n || seen[i] {
			t.Fatalf("row %q", row)
		}
		seen[i] = true
	}
	if len(rows) != n {
		t.Errorf("%d rows, want %d", len(rows), n)
	}
}
