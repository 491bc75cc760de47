package setting

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Codes of faults in settings.
const (
	CodeUnknown  = "E034" // there is no setting of this name
	CodeBadValue = "E036" // the value does not fit the setting
	CodeNoEffect = "W034" // a setting of a later release
)

// Names of the settings.
const (
	Parallelism       = "parallelism"
	Mode              = "mode"
	Schedule          = "schedule"
	CheckpointEvery   = "checkpoint.interval"
	CheckpointPause   = "checkpoint.min-pause"
	CheckpointTimeout = "checkpoint.timeout"
	CheckpointFails   = "checkpoint.tolerable"
	CheckpointKeep    = "checkpoint.retained"
	CheckpointCopies  = "checkpoint.copies"
	CheckpointDir     = "checkpoint.dir"
	Restore           = "restore"
	StateMemory       = "state.memory"
	BatchMemory       = "batch.memory"
	NetworkMemory     = "network.memory"
	NetworkCompress   = "network.compression"
	BatchCompress     = "batch.compression"
	BufferTimeout     = "buffer.timeout"
	RestartStrategy   = "restart"
)

// Setting is one name of the list.
type Setting struct {
	Name    string
	Type    string // for people: count, duration, size, …
	Default string // as it would be written; empty: Doc says what is taken
	Doc     string
	// Later: this release accepts the value and does nothing with it.
	Later bool
	// Process: every task process obeys it by itself, so a worker may have a value of its own for jobs that say none.
	Process bool

	check func(value string) error
}

var list = []Setting{
	{Name: Parallelism, Type: "count or all", Doc: "default parallelism of operators; without it the cores of an embedded run, the free slots of a cluster", check: checkCount(1, maxParallelism, "all")},
	{Name: Mode, Type: "auto, streaming or batch", Default: "auto", Doc: "which exchanges are pipelined (records cross as they are made) and which blocking (stored complete before they are read); auto stores what is shuffled and ends", check: checkChoice("auto", "streaming", "batch")},
	{Name: Schedule, Type: "region, eager or lazy", Default: "region", Doc: "when subtasks start: region: together, when all that they read is stored; lazy: likewise, but consumers with their first record; eager: all of the job at once", check: checkChoice("region", "eager", "lazy")},
	{Name: CheckpointEvery, Type: "duration", Default: "10s", Doc: "time between the starts of two checkpoints; 0 switches them off; a job whose sources all end takes them only if this is said", check: checkDuration(0)},
	{Name: CheckpointPause, Type: "duration", Default: "500ms", Doc: "least pause between the end of a checkpoint and the next; without it half of the interval at most", check: checkDuration(0)},
	{Name: CheckpointTimeout, Type: "duration", Default: "10m", Doc: "time after which a checkpoint is given up", check: checkDuration(time.Millisecond)},
	{Name: CheckpointFails, Type: "count", Default: "10", Doc: "checkpoints that may fail in a row; one more counts as a failure of the job, and the restart strategy decides", check: checkCount(0, 1<<20)},
	{Name: CheckpointKeep, Type: "count", Default: "3", Doc: "completed checkpoints that are kept", check: checkCount(1, 1000)},
	{Name: CheckpointCopies, Type: "count", Default: "2", Doc: "stores that hold each object of a checkpoint; with fewer workers all of them do", check: checkCount(1, 16)},
	{Name: CheckpointDir, Type: "directory", Doc: "where checkpoints are stored; without it the workers' own disks", Later: true, check: checkAny},
	{Name: Restore, Type: "none, latest or a savepoint", Default: "none", Doc: "what a new job starts from", Later: true, check: checkText},
	{Name: StateMemory, Type: "size or percent", Default: "35%", Doc: "memory of a task process for keyed state; what exceeds it is moved to disk", Process: true, check: checkSize},
	{Name: BatchMemory, Type: "size or percent", Default: "25%", Doc: "memory of a task process for joins, sorts and bounded aggregations; what exceeds it is spilled to disk", Process: true, check: checkSize},
	{Name: NetworkMemory, Type: "size or percent", Default: "10%", Doc: "memory of a task process for buffers between subtasks; at least 32MiB", Process: true, check: checkNetwork},
	{Name: NetworkCompress, Type: "none or s2", Default: "none", Doc: "compression of records between task processes", Process: true, check: checkChoice("none", "s2")},
	{Name: BatchCompress, Type: "none, s2 or zstd", Default: "s2", Doc: "compression of the results of blocking exchanges on disk", Process: true, check: checkChoice("none", "s2", "zstd")},
	{Name: BufferTimeout, Type: "duration or never", Default: "2ms", Doc: "time after which a buffer is sent although it is not full; 0 sends after each batch, never only when it is full or there is no input", Process: true, check: checkDuration(0, "never")},
	{Name: RestartStrategy, Type: "strategy", Default: DefaultRestart, Doc: "none, fixed(n,delay), rate(n,window,delay) or exponential(initial,max,factor,jitter,reset,n); an embedded run takes none", check: checkRestart},
}

const maxParallelism = 32768

// All are the settings in the order of the documentation.
func All() []Setting { return slices.Clone(list) }

// Lookup finds a setting by its name.
func Lookup(name string) (Setting, bool) {
	for _, s := range list {
		if s.Name == name {
			return s, true
		}
	}
	return Setting{}, false
}

// Problem is a setting that cannot be taken, or a warning (code W…) about one that is.
type Problem struct {
	Code    string
	Name    string
	Message string
	Hints   []string
}

// Warning reports whether the setting is taken all the same.
func (p Problem) Warning() bool { return strings.HasPrefix(p.Code, "W") }

// Check finds every problem of the values, ordered by name.
func Check(values map[string]string) []Problem {
	var ps []Problem
	names := make([]string, 0, len(values))
	for n := range values {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if p, bad := check(n, values[n]); bad {
			ps = append(ps, p)
		}
	}
	return ps
}

func check(name, value string) (Problem, bool) {
	s, ok := Lookup(name)
	if !ok {
		p := Problem{Code: CodeUnknown, Name: name, Message: fmt.Sprintf("there is no setting %q", name)}
		if near := Suggest(name); near != "" {
			p.Hints = append(p.Hints, fmt.Sprintf("did you mean %s?", near))
		} else {
			p.Hints = append(p.Hints, "the settings are "+strings.Join(effective(), ", "))
		}
		return p, true
	}
	if err := s.check(value); err != nil {
		return Problem{Code: CodeBadValue, Name: name, Message: fmt.Sprintf("setting %s: %v", name, err), Hints: []string{fmt.Sprintf("%s: %s", s.Type, s.Doc)}}, true
	}
	if s.Later {
		return Problem{Code: CodeNoEffect, Name: name, Message: fmt.Sprintf("setting %s has no effect in this release", name)}, true
	}
	return Problem{}, false
}

func names() []string { return namesOf(list) }

// effective are the names of the settings that do something in this release.
func effective() []string {
	return namesOf(slices.DeleteFunc(All(), func(s Setting) bool { return s.Later }))
}

func namesOf(settings []Setting) []string {
	ns := make([]string, len(settings))
	for i, s := range settings {
		ns[i] = s.Name
	}
	return ns
}

// Merge lays maps over each other: for each name the first map that has it wins. So the order is that of precedence:
// command line, code, worker configuration.
func Merge(layers ...map[string]string) map[string]string {
	m := map[string]string{}
	for _, l := range slices.Backward(layers) {
		for k, v := range l {
			m[k] = v
		}
	}
	return m
}

// Values answers with the effective value of each setting: what was said, or the default. The values must have passed
// Check; one that has not counts as not said.
type Values map[string]string

// Text is the effective value as it was written.
func (v Values) Text(name string) string {
	s, ok := Lookup(name)
	if !ok {
		return ""
	}
	if said, ok := v[name]; ok && s.check(said) == nil {
		return said
	}
	return s.Default
}

// Said reports whether the setting has a value other than its default one.
func (v Values) Said(name string) bool {
	s, ok := Lookup(name)
	said, there := v[name]
	return ok && there && s.check(said) == nil
}

// Never is the Duration of the word never.
const Never time.Duration = -1

// Duration is the value of a setting whose type is a duration; Never if it is never.
func (v Values) Duration(name string) time.Duration {
	t := v.Text(name)
	if t == "never" {
		return Never
	}
	d, err := time.ParseDuration(t)
	if err != nil {
		return 0
	}
	return d
}

// Count is the value of a setting whose type is a count: -1 for all, 0 if there is none.
func (v Values) Count(name string) int {
	t := v.Text(name)
	if t == "all" {
		return -1
	}
	n, err := strconv.Atoi(t)
	if err != nil {
		return 0
	}
	return n
}

// Bytes is the value of a setting whose type is a size; percentages are of total.
func (v Values) Bytes(name string, total int64) int64 {
	n, err := ParseSize(v.Text(name), total)
	if err != nil {
		return 0
	}
	return n
}

// Restart is the effective restart strategy; fallback is taken where the job says none.
func (v Values) Restart(fallback string) Restart {
	text := fallback
	if v.Said(RestartStrategy) || fallback == "" {
		text = v.Text(RestartStrategy)
	}
	r, err := ParseRestart(text)
	if err != nil {
		r, _ = ParseRestart(DefaultRestart)
	}
	return r
}

func checkAny(string) error { return nil }

func checkText(v string) error {
	if strings.TrimSpace(v) == "" {
		return fmt.Errorf("it is empty")
	}
	return nil
}

func checkChoice(choices ...string) func(string) error {
	return func(v string) error {
		if slices.Contains(choices, v) {
			return nil
		}
		return fmt.Errorf("%q is none of %s", v, strings.Join(choices, ", "))
	}
}

func checkCount(least, most int, words ...string) func(string) error {
	return func(v string) error {
		if slices.Contains(words, v) {
			return nil
		}
		n, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("%q is no whole number", v)
		}
		if n < least || n > most {
			return fmt.Errorf("%d is not in %d…%d", n, least, most)
		}
		return nil
	}
}

func checkDuration(least time.Duration, words ...string) func(string) error {
	return func(v string) error {
		if slices.Contains(words, v) {
			return nil
		}
		d, err := time.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("%q is no duration such as 500ms, 2s or 1m30s", v)
		}
		if d < least {
			return fmt.Errorf("%s is less than %s", d, least)
		}
		return nil
	}
}

func checkSize(v string) error {
	_, err := ParseSize(v, 1<<40)
	return err
}

// checkNetwork refuses a size with which no task process can work. A percentage is of what the process has, which is not known
// here: Divide gives it the least where that is more.
func checkNetwork(v string) error {
	n, err := ParseSize(v, math.MaxInt64)
	if err == nil && n < minNetwork && !strings.HasSuffix(strings.TrimSpace(v), "%") {
		return fmt.Errorf("%s is less than the %s that a task process needs for its buffers", v, Size(minNetwork))
	}
	return err
}

func checkRestart(v string) error {
	_, err := ParseRestart(v)
	return err
}
