package ops

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"text/template"

	"github.com/sluiceio/sluice/internal/vfs"
)

// Module is the import path of this project.
const Module = "github.com/sluiceio/sluice"

//go:embed scaffold/*.tmpl
var templates embed.FS // read-only: the compiler fills it

// NewJobOptions of NewJob.
type NewJobOptions struct {
	Dir string // to make; its base is the job's name
	// Checkout is where this project's source is, which the new module builds against.
	Checkout string
}

// jobNameForm is what a job's name, which is also a module's, may look like.
var jobNameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// NewJob writes a module of the user's own: a small job and its test. It has the requirements and checksums of this
// project, so that it builds without a network.
func NewJob(s *Session, o NewJobOptions) error {
	name := filepath.Base(o.Dir)
	if !jobNameForm.MatchString(name) {
		return Usagef("lower-case letters, digits, '.', '_' and '-'", "%q cannot be the name of a job", name)
	}
	files, err := scaffold(name, o.Checkout)
	if err != nil {
		return err
	}
	if err := os.Mkdir(o.Dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return &Fault{Exit: ExitPrecondition, Code: CodeLocalFile, Err: err, Where: o.Dir, Hints: []string{"choose another name, or remove it"}}
		}
		return localFault(err)
	}
	for _, f := range files {
		if err := vfs.Publish(vfs.OS{}, filepath.Join(o.Dir, f.name), f.data); err != nil {
			return localFault(err)
		}
	}
	made := struct {
		Dir   string   `json:"dir"`
		Files []string `json:"files"`
	}{Dir: o.Dir}
	for _, f := range files {
		made.Files = append(made.Files, f.name)
	}
	return s.printValue(made, func(w *tabwriter.Writer) {
		for _, name := range made.Files {
			row(w, filepath.Join(o.Dir, name))
		}
		row(w, "\nNext: cd "+o.Dir+" && go test ./... && go run . plan")
		row(w, "If go is older than go.mod asks for: export GOTOOLCHAIN=auto")
	})
}

type newFile struct {
	name string
	data []byte
}

func scaffold(name, checkout string) (files []newFile, err error) {
	mod, err := scaffoldModule(name, checkout)
	if err != nil {
		return nil, err
	}
	sum, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	if err != nil {
		return nil, localFault(err)
	}
	files = []newFile{{"go.mod", mod}, {"go.sum", sum}, {".gitignore", []byte("/" + name + "\n/out/\n")}}
	for _, f := range []string{"main.go", "main_test.go"} {
		t, err := template.ParseFS(templates, "scaffold/"+f+".tmpl")
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", f, err)
		}
		var b bytes.Buffer
		if err := t.Execute(&b, struct{ Name string }{name}); err != nil {
			return nil, fmt.Errorf("template %s: %w", f, err)
		}
		files = append(files, newFile{f, b.Bytes()})
	}
	return files, nil
}

var requireLine = regexp.MustCompile(`(?m)^\s*(?:require\s+)?(\S+\.\S+/\S+\s+v\S+)(?:\s*// indirect)?$`)

var versionLine = regexp.MustCompile(`(?m)^(?:go|toolchain) \S+$`)

// scaffoldModule is the go.mod of the new job.
func scaffoldModule(name, checkout string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	if err != nil {
		return nil, localFault(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "module %s\n\n%s\n\nrequire %s v0.0.0\n\n", name, strings.Join(versionLine.FindAllString(string(data), -1), "\n\n"), Module)
	fmt.Fprintf(&b, "replace %s => %s\n\nrequire (\n", Module, checkout)
	for _, m := range requireLine.FindAllStringSubmatch(string(data), -1) {
		fmt.Fprintf(&b, "\t%s // indirect\n", m[1])
	}
	b.WriteString(")\n")
	return []byte(b.String()), nil
}

// FindCheckout looks for this project's source: above the directories given, one after the other.
func FindCheckout(from ...string) (string, error) {
	for _, dir := range from {
		for at := dir; ; at = filepath.Dir(at) {
			data, err := os.ReadFile(filepath.Join(at, "go.mod"))
			if err == nil && bytes.HasPrefix(data, []byte("module "+Module+"\n")) {
				return at, nil
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return "", Usagef("--checkout DIR, with the directory of its go.mod", "the source of %s was not found", Module)
}
