package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"text/tabwriter"
	"time"

	"github.com/sluiceio/sluice/flow/setting"
)

type config struct {
	input       string
	half        int64
	parallelism int
	runs        int
	most        int64 // bytes of memory that are unlimited for this input
	asJSON      bool
}

// shares of the build side's memory.
var shares = [...]int64{2, 3, 5, 10, 20}

// row of the table.
type row struct {
	Share   string  `json:"share"` // of the build side: "unlimited", "1/2", …
	Memory  int64   `json:"memory"`
	Seconds float64 `json:"seconds"`
	Ratio   float64 `json:"ratio"` // to the unlimited run
	Spilled int64   `json:"spilledBytes"`
	Records int64   `json:"spilledRecords"`
	Depth   int32   `json:"depth"`
	Pairs   int64   `json:"pairs"`
}

func main() {
	var c config
	flag.StringVar(&c.input, "input", "data/flights-3m", "CSV `files` with numbered rows")
	flag.Int64Var(&c.half, "half", 1_500_000, "`row` that begins the second half")
	flag.IntVar(&c.parallelism, "parallelism", 1, "subtasks of every operator")
	flag.IntVar(&c.runs, "runs", 2, "runs of which the best counts")
	flag.Int64Var(&c.most, "unlimited", 400<<20, "`bytes` of memory that are more than enough")
	flag.BoolVar(&c.asJSON, "json", false, "print JSON instead of a table")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := c.curve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "curve:", err)
		os.Exit(1)
	}
}

func (c config) curve(ctx context.Context) error {
	base, err := c.best(ctx, c.most)
	if err != nil {
		return err
	}
	if base.spilled > 0 {
		return fmt.Errorf("%s are not unlimited: %s were spilled", setting.Size(c.most), setting.Size(base.spilled))
	}
	side, err := c.buildSide(ctx)
	if err != nil {
		return err
	}
	rows := []row{newRow("unlimited", c.most, base, base)}
	for _, share := range shares {
		m, err := c.best(ctx, side/share)
		if err != nil {
			return err
		}
		if m.pairs != base.pairs {
			return fmt.Errorf("%d pairs with 1/%d of the memory, %d with all of it", m.pairs, share, base.pairs)
		}
		rows = append(rows, newRow(fmt.Sprintf("1/%d", share), side/share, m, base))
	}
	if c.asJSON {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"buildSide": side, "rows": rows})
	}
	return table(side, rows)
}

func newRow(share string, memory int64, m, base measured) row {
	return row{
		Share: share, Memory: memory, Seconds: m.took.Seconds(), Ratio: m.took.Seconds() / base.took.Seconds(),
		Spilled: m.spilled, Records: m.records, Depth: m.depth, Pairs: m.pairs,
	}
}

// best is the fastest of some runs: the others were disturbed.
func (c config) best(ctx context.Context, memory int64) (best measured, err error) {
	for i := range max(1, c.runs) {
		m, err := c.run(ctx, memory)
		if err != nil {
			return best, err
		}
		if i == 0 || m.took < best.took {
			best = m
		}
	}
	return best, nil
}

// buildSide is the least memory, to two per cent, with which the join spills nothing.
func (c config) buildSide(ctx context.Context) (int64, error) {
	short, enough := int64(1<<20), c.most
	for enough-short > enough/50 {
		middle := (short + enough) / 2
		if enough/short > 4 { // far apart: by factors
			middle = enough / 4
		}
		m, err := c.run(ctx, middle)
		if err != nil {
			return 0, err
		}
		if m.spilled > 0 {
			short = middle
		} else {
			enough = middle
		}
	}
	if enough == c.most {
		return 0, errors.New("the build side takes all that was called unlimited")
	}
	return enough, nil
}

func table(side int64, rows []row) error {
	fmt.Printf("The build side takes %s; every run formed %d pairs.\n\n", setting.Size(side), rows[0].Pairs)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "share\tmemory\ttime\tratio\tspilled\trecords\tdepth\t")
	for _, r := range rows {
		took := time.Duration(r.Seconds * float64(time.Second)).Round(10 * time.Millisecond)
		fmt.Fprintf(w, "%s\t%s\t%v\t%.2f\t%s\t%d\t%d\t\n", r.Share, setting.Size(r.Memory), took, r.Ratio, setting.Size(r.Spilled), r.Records, r.Depth)
	}
	return w.Flush()
}
