package law

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// Sizes, in lines, without tests and generated code.
const (
	functionLines = 60 // at the 95th percentile
	fileLines     = 500
	fileLinesMost = 800
	packageLines  = 3500
)

// longFiles may have more than fileLines lines, each for a reason.
var longFiles = map[string]string{}

type sized struct {
	name  string
	lines int
}

func functions(tr *tree, p *pkg) (list []sized) {
	for _, f := range p.sources() {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if fn, ok := n.(*ast.FuncDecl); ok && fn.Body != nil {
				lines := tr.fset.Position(fn.End()).Line - tr.fset.Position(fn.Pos()).Line + 1
				list = append(list, sized{tr.at(fn.Pos()) + " " + fn.Name.Name, lines})
			}
			return true
		})
	}
	slices.SortFunc(list, func(a, b sized) int { return a.lines - b.lines })
	return list
}

func percentile95(list []sized) int { return list[(len(list)-1)*95/100].lines }

// fewFunctions is where a percentile of one package begins to mean something; the tree's own holds for all.
const fewFunctions = 20

func TestFunctionsFitOnAScreen(t *testing.T) {
	tr := house(t)
	var all []sized
	for _, p := range tr.packages {
		list := functions(tr, p)
		all = append(all, list...)
		if len(list) >= fewFunctions && percentile95(list) > functionLines {
			t.Errorf("%s: the 95th percentile is %d lines; %d at most. The longest: %v", p.dir, percentile95(list), functionLines, list[max(0, len(list)-5):])
		}
	}
	slices.SortFunc(all, func(a, b sized) int { return a.lines - b.lines })
	if p := percentile95(all); p > functionLines {
		t.Errorf("the 95th percentile of all %d functions is %d lines; %d at most. The longest: %v", len(all), p, functionLines, all[max(0, len(all)-20):])
	}
}

func TestFilesAndPackagesAreOfASize(t *testing.T) {
	tr := house(t)
	for _, p := range tr.packages {
		total := 0
		for _, f := range p.sources() {
			total += f.lines
			switch _, excused := longFiles[f.name]; {
			case f.lines > fileLinesMost:
				t.Errorf("%s has %d lines; %d at most", f.name, f.lines, fileLinesMost)
			case f.lines > fileLines && !excused:
				t.Errorf("%s has %d lines; %d at most: cut it by noun, or give the reason in longFiles", f.name, f.lines, fileLines)
			}
		}
		if total > packageLines {
			t.Errorf("%s has %d lines; %d at most", p.dir, total, packageLines)
		}
	}
	for name, why := range longFiles {
		if why == "" || !slices.ContainsFunc(tr.texts, func(x text) bool { return x.name == name }) {
			t.Errorf("longFiles: %s does not exist, or has no reason", name)
		}
	}
}

// patterns are names after what code does to code. They attract everything and tell nothing.
var patterns = []string{"util", "utils", "common", "helper", "helpers", "types", "manager", "misc", "shared", "base", "core", "lib"}

func TestPackagesAreDocumentedAndNamedAfterTheirNoun(t *testing.T) {
	tr := house(t)
	for _, p := range tr.packages {
		if slices.Contains(patterns, path.Base(p.dir)) {
			t.Errorf("%s: a package is named after the noun that lives in it", p.dir)
		}
		if !slices.ContainsFunc(p.files, func(f *file) bool { return !f.test }) {
			continue // tests of something else
		}
		doc := slices.IndexFunc(p.files, func(f *file) bool { return path.Base(f.name) == "doc.go" })
		if doc < 0 {
			t.Errorf("%s has no doc.go: what lives here, what never, who may call it from where", p.dir)
			continue
		}
		if c := p.files[doc].ast.Doc; c == nil || len(strings.Fields(c.Text())) < 15 {
			t.Errorf("%s/doc.go says nothing: what lives here, what never, who may call it from where", p.dir)
		}
		for _, f := range p.sources() {
			if f.ast.Doc != nil && path.Base(f.name) != "doc.go" {
				t.Errorf("%s: the package comment stands in doc.go", f.name)
			}
		}
	}
}
