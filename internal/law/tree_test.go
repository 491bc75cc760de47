package law

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/sluiceio/sluice"

// tree is the whole repository, parsed.
type tree struct {
	root     string
	fset     *token.FileSet
	packages []*pkg // sorted by directory
	texts    []text // everything that people wrote
}

// pkg is one directory with Go files, in this module or in a nested one.
type pkg struct {
	dir    string // slash-separated, relative to the root; "." is the root
	path   string // import path
	nested bool   // belongs to a module of its own
	files  []*file
}

type file struct {
	name      string // slash-separated, relative to the root
	ast       *ast.File
	test      bool
	generated bool
	lines     int
}

// text is a file that people wrote, line by line.
type text struct {
	name  string
	lines []string
}

var load = sync.OnceValues(func() (*tree, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	t := &tree{root: root, fset: token.NewFileSet()}
	if err := t.walk(); err != nil {
		return nil, err
	}
	return t, nil
})

func house(t *testing.T) *tree {
	t.Helper()
	tr, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.packages) < 10 {
		t.Fatalf("only %d packages found below %s: the laws would judge nothing", len(tr.packages), tr.root)
	}
	return tr
}

// skipped directories hold no source of ours: artifacts, downloaded data, tests' inputs.
var skipped = map[string]bool{"bin": true, "data": true, "testdata": true}

var textual = regexp.MustCompile(`(\.(go|md|proto|sh|mod|yaml|yml)|(^|/)(Makefile|run))$`)

func (t *tree) walk() error {
	modules := map[string]string{} // directory → module path
	byDir := map[string]*pkg{}
	err := filepath.WalkDir(t.root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(t.root, full)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (skipped[d.Name()] || strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci" || strings.HasPrefix(d.Name(), "_")) {
				return filepath.SkipDir
			}
			return t.enter(rel, modules)
		}
		if !textual.MatchString(rel) {
			return nil
		}
		return t.read(rel, modules, byDir)
	})
	if err != nil {
		return err
	}
	slices.SortFunc(t.packages, func(a, b *pkg) int { return strings.Compare(a.dir, b.dir) })
	return nil
}

var moduleLine = regexp.MustCompile(`(?m)^module\s+(\S+)`)

// enter notes the module that a directory begins, if it has a go.mod.
func (t *tree) enter(dir string, modules map[string]string) error {
	data, err := os.ReadFile(filepath.Join(t.root, dir, "go.mod"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	m := moduleLine.FindSubmatch(data)
	if m == nil {
		return fmt.Errorf("%s/go.mod has no module line", dir)
	}
	modules[dir] = string(m[1])
	return nil
}

// importPath finds the module of a directory: that of its nearest parent with a go.mod.
func importPath(dir string, modules map[string]string) (importPath string, nested bool) {
	for at := dir; ; at = path.Dir(at) {
		if m, ok := modules[at]; ok {
			rest := strings.TrimPrefix(strings.TrimPrefix(dir, at), "/")
			if at == "." {
				rest = dir
			}
			return path.Join(m, rest), at != "."
		}
		if at == "." {
			return "", false
		}
	}
}

var generatedLine = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func (t *tree) read(rel string, modules map[string]string, byDir map[string]*pkg) error {
	data, err := os.ReadFile(filepath.Join(t.root, filepath.FromSlash(rel)))
	if err != nil {
		return err
	}
	generated := generatedLine.Match(data)
	if !generated {
		t.texts = append(t.texts, text{name: rel, lines: strings.Split(string(data), "\n")})
	}
	if !strings.HasSuffix(rel, ".go") {
		return nil
	}
	parsed, err := parser.ParseFile(t.fset, rel, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(rel)
	p := byDir[dir]
	if p == nil {
		p = &pkg{dir: dir}
		p.path, p.nested = importPath(dir, modules)
		byDir[dir] = p
		t.packages = append(t.packages, p)
	}
	p.files = append(p.files, &file{
		name: rel, ast: parsed, generated: generated,
		test: strings.HasSuffix(rel, "_test.go"), lines: bytes.Count(data, []byte("\n")),
	})
	return nil
}

func (t *tree) at(p token.Pos) string {
	pos := t.fset.Position(p)
	return fmt.Sprintf("%s:%d", pos.Filename, pos.Line)
}

// sources are the files that people wrote, tests left out.
func (p *pkg) sources() []*file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f *file) bool { return f.test || f.generated })
}

// handwritten are the files that people wrote, tests included.
func (p *pkg) handwritten() []*file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f *file) bool { return f.generated })
}

// imports returns the paths that a file imports and where.
func (f *file) imports() map[string]token.Pos {
	out := map[string]token.Pos{}
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser has read it
		}
		out[p] = spec.Pos()
	}
	return out
}

// importName returns the name under which a file uses an import path; empty if it does not import it.
func (f *file) importName(importPath string) string {
	for _, spec := range f.ast.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); p != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		base := path.Base(importPath)
		if version.MatchString(base) {
			base = path.Base(path.Dir(importPath))
		}
		return base
	}
	return ""
}

var version = regexp.MustCompile(`^v[0-9]+$`)

// uses calls found for every selector pkg.Name of an imported package, called or not.
func (f *file) uses(importPath string, found func(name string, at token.Pos)) {
	local := f.importName(importPath)
	if local == "" || local == "_" {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
			found(sel.Sel.Name, sel.Pos())
		}
		return true
	})
}

// matches compares a directory with a pattern: "a/b" is that directory, "a/..." it and everything below, "a/*" its
// direct children.
func matches(pattern, dir string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return dir == base || strings.HasPrefix(dir, base+"/")
	}
	ok, err := path.Match(pattern, dir)
	if err != nil {
		panic(fmt.Sprintf("pattern %q: %v", pattern, err))
	}
	return ok
}

func matchesAny(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, dir) })
}
