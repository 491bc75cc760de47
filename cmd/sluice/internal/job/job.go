package job

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/discard"
	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
)

// Config are the parameters of all built-in jobs; each says which it reads.
type Config struct {
	Job     string `flag:"job" default:"count" help:"which built-in job: count, pass, stages, ledger"`
	Records int64  `flag:"records" default:"1000000" help:"records to generate; -1: without end"`
	Keys    int64  `flag:"keys" default:"1000" help:"number of different keys"`
	Rate    int    `flag:"rate" default:"0" help:"records per second of the whole job; 0: full speed"`
	Out     string `flag:"out" help:"directory for the rows; empty: they are counted and thrown away"`
	Pause   int    `flag:"pause" default:"0" help:"microseconds that each subtask of stages and ledger rests after 1000 records"`
	Seed    int64  `flag:"seed" default:"1" help:"of the keys of ledger"`
	// Of ledger:
	Partitions int64 `flag:"partitions" default:"4" help:"partitions of ledger's input"`
	Window     int64 `flag:"window" default:"1000" help:"records of a partition that a window of ledger is long"`
	FailAt     int64 `flag:"fail-at" default:"-1" help:"number of the record at which the job fails, on every attempt; -1: none"`
}

// builtin is one job.
type builtin struct {
	name  string
	help  string
	build func(p *flow.Pipeline, cfg *Config) error
}

func builtins() []builtin {
	return []builtin{
		{"count", "generate records, count them by key: rows KEY|COUNT", count},
		{"pass", "generate records and write each: rows NUMBER|KEY", pass},
		{"stages", "two inputs merged, rebalanced, counted by key and gathered by the last digit of the key, stage by stage: rows DIGIT|KEYS|COUNT|SUM|XOR", stages},
		{"ledger", "count and sign by key what came before each record: rows/ PARTITION|SEQ|KEY|COUNT|XOR|ATTEMPT, windows/ KEY|START|COUNT", ledger},
	}
}

// Describe lists the jobs for people.
func Describe() string {
	var b strings.Builder
	for _, j := range builtins() {
		fmt.Fprintf(&b, "  %-8s %s\n", j.name, j.help)
	}
	return b.String()
}

// Names lists the jobs.
func Names() (names []string) {
	for _, j := range builtins() {
		names = append(names, j.name)
	}
	return names
}

// Known reports whether there is such a job.
func Known(name string) bool { return slices.Contains(Names(), name) }

// TaskProcess reports whether a worker has started this process to run subtasks, which it then does by Main.
func TaskProcess() bool { return os.Getenv("SLUICE_TASK") == "1" }

// Main runs in the mode that the arguments of the process ask for, like any job binary. It does not return.
func Main() { flow.Main("sluice", build) }

// Embedded runs a job in this process, with the arguments that a job binary takes. It does not return.
func Embedded(name string, args []string) {
	i := 0
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		i = 1 // a verb of job binaries stands first: plan, vet, help
	}
	os.Args = slices.Concat([]string{"sluice job " + name}, args[:i], []string{"--job=" + name}, args[i:])
	Main()
}

func build(p *flow.Pipeline, cfg *Config) error {
	for _, j := range builtins() {
		if j.name == cfg.Job {
			return j.build(p, cfg)
		}
	}
	return fmt.Errorf("there is no built-in job %q; there are %s", cfg.Job, strings.Join(Names(), ", "))
}

// record is what the generators make.
type record struct {
	N, Key int64
}

func records(cfg *Config) (connector.Source[record], error) {
	if cfg.Keys < 1 {
		return nil, fmt.Errorf("keys is %d, want at least 1", cfg.Keys)
	}
	keys, failAt := cfg.Keys, cfg.FailAt
	recordAt := func(i int64) (record, flow.Time) {
		if i == failAt {
			panic(fmt.Sprintf("record %d was asked to fail", i))
		}
		return record{N: i, Key: i % keys}, flow.Time(i)
	}
	if cfg.Records < 0 {
		return generate.Endless(recordAt, generate.Rate(cfg.Rate)), nil
	}
	return generate.Records(cfg.Records, recordAt, generate.Rate(cfg.Rate)), nil
}

// sink writes rows of two integers.
func sink[T any](cfg *Config, row func(v T) (int64, int64)) connector.Sink[T] {
	if cfg.Out == "" {
		return discard.Sink[T](nil)
	}
	return file.Text(cfg.Out, func(dst []byte, v T) []byte {
		a, b := row(v)
		dst = append(strconv.AppendInt(dst, a, 10), '|')
		return strconv.AppendInt(dst, b, 10)
	})
}

func count(p *flow.Pipeline, cfg *Config) error {
	src, err := records(cfg)
	if err != nil {
		return err
	}
	p.From("records", src).
		KeyBy(func(r record) int64 { return r.Key }).
		Count().ID("count").
		To("out", sink(cfg, func(c flow.KV[int64, int64]) (int64, int64) { return c.Key, c.Value }))
	return nil
}

func pass(p *flow.Pipeline, cfg *Config) error {
	src, err := records(cfg)
	if err != nil {
		return err
	}
	p.From("records", src).To("out", sink(cfg, func(r record) (int64, int64) { return r.N, r.Key }))
	return nil
}
