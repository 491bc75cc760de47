package main

import (
	"fmt"
	"strconv"
	"strings"
)

// bytesValue is a flag for an amount of memory: 8GiB, 512MiB, 1.5GB, or plain bytes.
type bytesValue int64

// units from the longest name to the shortest, so that the first suffix that fits is the right one.
func units() []struct {
	name  string
	bytes float64
} {
	return []struct {
		name  string
		bytes float64
	}{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
	}
}

func (b *bytesValue) Set(s string) error {
	number, factor := s, 1.0
	for _, u := range units() {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			number, factor = n, u.bytes
			break
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(v >= 0) || v*factor >= 1<<62 {
		return fmt.Errorf("%q is no amount of memory, like 8GiB or 512MB", s)
	}
	*b = bytesValue(v * factor)
	return nil
}

func (b *bytesValue) String() string {
	all := units()
	for i := 3; i >= 0; i-- { // the binary ones, the largest first
		if unit := int64(all[i].bytes); int64(*b) >= unit && int64(*b)%unit == 0 {
			return fmt.Sprintf("%d%s", int64(*b)/unit, all[i].name)
		}
	}
	return fmt.Sprintf("%dB", int64(*b))
}

func (b *bytesValue) Type() string { return "bytes" }
