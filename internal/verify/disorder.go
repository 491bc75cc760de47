package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// disordered are the queries over flights in the order in which they left.
var disordered = []string{"f7", "f7b", "f7late"}

func (s *suite) disorderClaims() (cs []claim) {
	for _, q := range disordered {
		cs = append(cs, s.disorderClaim(embedded, q))
	}
	return append(cs, claim{
		name:    "of 3,000,000 flights in disorder each is counted or late, at parallelism 4 with a watermark per batch; with one per record both answers are exact",
		command: "bin/examples/flights --query=f7both --order=observed --watermarks=batch --input=data/flights-3m --out=OUT --sluice.parallelism=4 --sluice.mode=streaming",
		check:   s.countedOrLate,
	})
}

func (s *suite) disorderClaim(where place, query string) claim {
	return claim{
		name:    fmt.Sprintf("%s over 3,000,000 flights in disorder is exact, %v, at parallelism 1, 2 and 4 in mode streaming and 2 in mode auto", query, where),
		command: fmt.Sprintf("flights query=%s order=observed input=data/flights-3m out=OUT, parallelism=P mode=MODE", query),
		check: func(ctx context.Context) (string, error) {
			var took []time.Duration
			for _, way := range timedWays {
				d, err := s.try(ctx, where, s.flights, query, map[string]string{"parallelism": way.parallelism, "mode": way.mode})
				if err != nil {
					return "", fmt.Errorf("parallelism %s, mode %s: %w", way.parallelism, way.mode, err)
				}
				took = append(took, d)
			}
			return s.flights.figure(query, took), nil
		},
	}
}

// countedOrLate adds up what two outputs of one job have.
func (s *suite) countedOrLate(ctx context.Context) (string, error) {
	var figures []string
	for _, watermarks := range []string{"batch", "record"} {
		out := s.out()
		args := []string{"--watermarks=" + watermarks, "--sluice.parallelism=4", "--sluice.mode=streaming"}
		for _, p := range s.params("f7both", out) {
			args = append(args, "--"+p)
		}
		if _, err := output(ctx, s.dir, nil, s.bin("examples", "flights"), args...); err != nil {
			return "", err
		}
		hours, late := filepath.Join(out, "hours"), filepath.Join(out, "late")
		counted, err := sumOf(hours, 2)
		if err != nil {
			return "", err
		}
		missed, err := rowsOf(late)
		if err != nil {
			return "", err
		}
		figures = append(figures, fmt.Sprintf("a watermark per %s: %d counted, %d late", watermarks, counted, len(missed)))
		if counted+int64(len(missed)) != rows {
			return strings.Join(figures, "; "), fmt.Errorf("%d flights were counted or late", counted+int64(len(missed)))
		}
		if watermarks == "record" {
			for dir, query := range map[string]string{hours: "f7b", late: "f7late"} {
				if err := s.compare(ctx, s.flights, query, dir); err != nil {
					return "", fmt.Errorf("%s: %w", query, err)
				}
			}
		}
		if err := os.RemoveAll(out); err != nil {
			return "", err
		}
	}
	return strings.Join(figures, "; "), nil
}

// sumOf adds up a column of the rows of a directory.
func sumOf(dir string, column int) (sum int64, err error) {
	all, err := rowsOf(dir)
	if err != nil {
		return 0, err
	}
	for _, row := range all {
		fields := strings.Split(row, "|")
		if column >= len(fields) {
			return 0, fmt.Errorf("%s: row %q", dir, row)
		}
		v, err := strconv.ParseInt(fields[column], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", dir, err)
		}
		sum += v
	}
	return sum, nil
}
