package launch

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/sluiceio/sluice/flow/launch/param"
	"github.com/sluiceio/sluice/flow/launch/process"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
)

// Job is what a job binary is made of, as package flow hands it over.
type Job struct {
	Name string
	// Params describes the parameters of the job.
	Params func() (*param.Set, []*jobpb.Diagnostic)
	// Build runs the user's build function with the defaults and the values given, and reports every fault at once. It
	// opens nothing and gives the same graph each time.
	Build func(values map[string]string) (*task.Program, []*jobpb.Diagnostic)
}

// Exit codes of a job binary, those of the command line where both have one.
const (
	ExitOK          = 0
	ExitOther       = 1
	ExitPlan        = 2 // a wrong parameter, setting or plan
	ExitFailed      = 8 // the job failed
	ExitInterrupted = 130
)

// Streams are where a mode writes to. Out belongs to the user: results of verbs, and the sinks of an embedded run.
type Streams struct {
	Out, Err io.Writer
}

// Main runs the mode that the environment and the arguments ask for and returns the exit code of the process.
func Main(job Job, args []string) int {
	if process.Requested() {
		return process.Main(process.Job{Name: job.Name, Version: version(), Build: func(spec *jobpb.JobSpec) (*task.Program, []*jobpb.Diagnostic) {
			return job.Build(spec.Params)
		}})
	}
	return Run(job, args, Streams{Out: os.Stdout, Err: os.Stderr})
}

// Run is Main with streams of the caller's own: a verb (plan, vet, help) or the embedded run.
func Run(job Job, args []string, s Streams) int {
	verb := "run"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	set, diags := job.Params()
	if len(diags) > 0 {
		return planFault(s, diags)
	}
	if verb == "help" {
		usage(s.Out, job.Name, set)
		return ExitOK
	}
	switches, known := switchesOf(verb)
	if !known {
		return planFault(s, []*jobpb.Diagnostic{unknownVerb(verb)})
	}
	a, diags := set.Split(args, switches...)
	if a.Help {
		usage(s.Out, job.Name, set)
		return ExitOK
	}
	diags = slices.Concat(diags, set.Check(a.Params), checkSettings(a.Settings))
	if len(diags) > 0 {
		return planFault(s, diags)
	}
	job.Build = inTime(job.Build)
	c := command{job: job, args: a, streams: s}
	switch verb {
	case "plan":
		return c.plan()
	case "vet":
		return c.vet()
	}
	return c.run()
}

// switchesOf are the options without a value that a verb has.
func switchesOf(verb string) (switches []string, known bool) {
	switch verb {
	case "run", "vet":
		return nil, true
	case "plan":
		return []string{"json", "dot", "v"}, true
	}
	return nil, false
}

func unknownVerb(verb string) *jobpb.Diagnostic {
	d := &jobpb.Diagnostic{Code: "E031", Message: fmt.Sprintf("unknown verb %q", verb)}
	if c := param.Closest(verb, []string{"plan", "vet", "help"}); c != "" {
		d.Hints = append(d.Hints, fmt.Sprintf("did you mean %s?", c))
	}
	d.Hints = append(d.Hints, "without a verb the job runs; the verbs are plan, vet and help; parameters are written --name=value")
	return d
}

// checkSettings are the faults of settings; warnings come with the plan.
func checkSettings(values map[string]string) []*jobpb.Diagnostic {
	var diags []*jobpb.Diagnostic
	for _, p := range setting.Check(values) {
		if !p.Warning() {
			diags = append(diags, &jobpb.Diagnostic{Code: p.Code, Message: p.Message, Hints: p.Hints})
		}
	}
	return diags
}

func planFault(s Streams, diags []*jobpb.Diagnostic) int {
	printDiagnostics(s.Err, "error", diags)
	return ExitPlan
}

// command is one call of the binary, its arguments taken apart.
type command struct {
	job     Job
	args    param.Args
	streams Streams
}

const modulePath = "github.com/sluiceio/sluice"

// version is that of the runtime which is linked into this binary.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == modulePath && m.Version != "" {
			return m.Version
		}
	}
	return "devel"
}
