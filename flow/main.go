package flow

import (
	"os"

	"github.com/sluiceio/sluice/flow/launch"
	"github.com/sluiceio/sluice/flow/launch/param"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
)

// NoConfig is for jobs without parameters.
type NoConfig struct{}

// Secret is a parameter that names a secret: env:NAME or file:/path. Plans, logs and job records hold only the name; the
// value exists where Reveal is called.
type Secret = param.Secret

// Main is the entry point of a job binary; it does not return. The same call serves every mode:
//
//	./job [--param=value] [--sluice.setting=value]   run in this process
//	./job plan [--json|--dot|-v]                     print the plan, run nothing
//	./job vet                                        build it eight times, compare, check types, keys and ids
//	./job --help                                     list parameters and settings
//	(started by a worker)                            run subtasks of a cluster's job
//
// The exported fields of C are the parameters: flag:"name" default:"text" help:"one line". Types are string, []string,
// bool, integers, floats, time.Duration and Secret. build must be a pure function of its configuration.
//
// Exit codes: 0 ok, 2 a wrong parameter or plan, 8 the job failed, 130 interrupted, 1 anything else.
func Main[C any](name string, build func(p *Pipeline, cfg *C) error) {
	os.Exit(launch.Main(job(name, build), os.Args[1:]))
}

func job[C any](name string, build func(*Pipeline, *C) error) launch.Job {
	return launch.Job{
		Name:   name,
		Params: func() (*param.Set, []*jobpb.Diagnostic) { return param.Of(new(C)) },
		Build: func(values map[string]string) (*task.Program, []*jobpb.Diagnostic) {
			cfg := new(C)
			if diags := bind(cfg, values); len(diags) > 0 {
				return nil, diags
			}
			p, diags := assemble(name, cfg, build)
			if len(diags) > 0 {
				return nil, diags
			}
			return p.program()
		},
	}
}

// bind sets cfg to its defaults and the values given.
func bind(cfg any, values map[string]string) []*jobpb.Diagnostic {
	set, diags := param.Of(cfg)
	if len(diags) > 0 {
		return diags
	}
	return append(set.SetDefaults(), set.Apply(values)...)
}
