package setting

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// minNetwork is the least network memory of a task process, in bytes.
const minNetwork = 32 << 20

// units of sizes, longest name first.
var units = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"B", 1},
}

// ParseSize reads 64MiB, 1.5GiB, 500MB, 1048576 or 10%; a percentage is of total. The result is in bytes.
func ParseSize(text string, total int64) (int64, error) {
	s := strings.TrimSpace(text)
	if p, ok := strings.CutSuffix(s, "%"); ok {
		f, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil || !(f >= 0 && f <= 100) {
			return 0, fmt.Errorf("%q is no percentage", text)
		}
		return int64(f / 100 * float64(total)), nil
	}
	factor := 1.0
	for _, u := range units {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			s, factor = strings.TrimSpace(n), u.bytes
			break
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0) || f*factor >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is no size such as 64MiB, 1.5GiB or 10%%", text)
	}
	return int64(f * factor), nil
}

// Memory is how a task process divides what it has, in bytes. The rest belongs to user code and the collector.
type Memory struct {
	Process int64
	Network int64 // buffers between subtasks
	State   int64 // keyed state
	Batch   int64 // joins, sorts
	Limit   int64 // GOMEMLIMIT
}

// ProcessMemory is the share of a worker's memory that a task process with so many of its slots gets.
func ProcessMemory(worker int64, slots, held int32) int64 {
	if slots <= 0 || held <= 0 {
		return 0
	}
	return int64(float64(worker) / float64(slots) * float64(min(held, slots)))
}

// Divide divides the memory of a task process. It fails if what was asked for cannot fit.
func Divide(process int64, v Values) (Memory, error) {
	m := Memory{
		Process: process,
		Network: max(minNetwork, v.Bytes(NetworkMemory, process)),
		State:   v.Bytes(StateMemory, process),
		Batch:   v.Bytes(BatchMemory, process),
		Limit:   process / 100 * 95,
	}
	if sum := m.Network + m.State + m.Batch; sum > m.Limit {
		return m, fmt.Errorf("network %s, state %s and batch %s together exceed the %s of a task process that may be used",
			Size(m.Network), Size(m.State), Size(m.Batch), Size(m.Limit))
	}
	return m, nil
}

// Size is a number of bytes for people.
func Size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
