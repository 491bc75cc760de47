package ops

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluiceio/sluice/proto/apipb"
)

// enum is the name of an enum value without its prefix, for people.
func enum(v fmt.Stringer) string {
	name := v.String()
	if _, rest, ok := strings.Cut(name, "_"); ok {
		name = rest
	}
	return strings.ReplaceAll(name, "_", "-")
}

// span is a duration in two units at most: 3h12m, 45s, 120ms.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// spanUs is span for microseconds; absent values are a dash.
func spanUs(us int64) string {
	if us < 0 {
		return "-"
	}
	return span(time.Duration(us) * time.Microsecond)
}

// ran is how long something has run that began and perhaps ended, in microseconds since the epoch.
func ran(startUs, endUs int64, now time.Time) string {
	if startUs == 0 {
		return "-"
	}
	if endUs == 0 {
		endUs = now.UnixMicro()
	}
	return spanUs(endUs - startUs)
}

// clock is an instant in microseconds since the epoch.
func clock(us int64) string {
	if us == 0 {
		return "-"
	}
	return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000Z")
}

// size is a number of bytes with a binary unit.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/unit, "KMGTP"
	for f >= unit && len(units) > 1 {
		f, units = f/unit, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, units[0])
}

// amount is a count with a decimal unit from ten thousand on.
func amount(n int64) string {
	f, units := float64(n), " kMGT"
	for f >= 10_000 && len(units) > 1 {
		f, units = f/1000, units[1:]
	}
	if units[0] == ' ' {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%.1f%c", f, units[0])
}

// staleNote says that an answer may be old; empty for a fresh one.
func staleNote(r *apipb.ReadInfo) string {
	if !r.GetStale() {
		return ""
	}
	if r.Leader == "" {
		return fmt.Sprintf("(stale: no leader for %s; last applied %d, as seen by %s)", spanUs(r.WithoutLeaderUs), r.Applied, short(r.Node))
	}
	return fmt.Sprintf("(stale: as seen by %s; last applied %d)", short(r.Node), r.Applied)
}

// short is the beginning of a random id, enough to tell nodes apart.
func short(id string) string { return id[:min(len(id), 8)] }
