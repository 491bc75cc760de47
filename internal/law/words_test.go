package law

import (
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Written in pieces, so that this file obeys itself.
var (
	postponed = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	elsewhere = regexp.MustCompile(`(^|[^\w.])/wor` + `k/|\b(DES` + `IGN|PROTO` + `COL|STY` + `LE|U` + `X|AP` + `I|MEA` + `SURED)(\.md)? ?§|sha` + `red/[A-Z]`)
)

func TestNothingIsPostponedInComments(t *testing.T) {
	for _, x := range house(t).texts {
		for i, line := range x.lines {
			if w := postponed.FindString(line); w != "" {
				t.Errorf("%s:%d: %s: do it, or write down in docs what is missing and why", x.name, i+1, w)
			}
		}
	}
}

func TestNothingRefersOutsideTheRepository(t *testing.T) {
	for _, x := range house(t).texts {
		for i, line := range x.lines {
			if w := elsewhere.FindString(line); w != "" {
				t.Errorf("%s:%d: %q is not in this repository; restate what it says", x.name, i+1, w)
			}
		}
	}
}

// code is the shape of a stable error or warning code.
var code = regexp.MustCompile(`\b[EW][01][0-9]{2}\b`)

// codeRow is the row of a table that explains a code; that another row mentions it explains nothing.
var codeRow = regexp.MustCompile(`(?m)^\| ([EW][01][0-9]{2}) \|`)

// TestErrorCodesAreDocumented compares the codes in the code with the rows of docs/errors.md, both ways; each has one.
func TestErrorCodesAreDocumented(t *testing.T) {
	tr := house(t)
	data, err := os.ReadFile(filepath.Join(tr.root, "docs", "errors.md"))
	if err != nil {
		t.Fatalf("the codes that users see are listed with meaning and fix: %v", err)
	}
	documented := map[string]bool{}
	for _, row := range codeRow.FindAllStringSubmatch(string(data), -1) {
		if documented[row[1]] {
			t.Errorf("docs/errors.md: %s has two rows", row[1])
		}
		documented[row[1]] = true
	}
	used := map[string]string{}
	for _, p := range tr.packages {
		for _, f := range p.sources() {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok {
					return true
				}
				for _, c := range code.FindAllString(lit.Value, -1) {
					used[c] = tr.at(lit.Pos())
				}
				return true
			})
		}
	}
	for _, c := range slices.Sorted(maps.Keys(used)) {
		if !documented[c] {
			t.Errorf("%s: %s is not in docs/errors.md", used[c], c)
		}
	}
	for _, c := range slices.Sorted(maps.Keys(documented)) {
		if used[c] == "" {
			t.Errorf("docs/errors.md: nothing in the code says %s", c)
		}
	}
}

var requirement = regexp.MustCompile(`(?m)^\t(\S+\.\S+/\S+) v\S+$`) // direct: without "// indirect"

var firstCell = regexp.MustCompile(`(?m)^\| ([a-z0-9.-]+\.[a-z]+/\S+) \|`)

// TestDependenciesHaveAReason compares go.mod with docs/design/dependencies.md, both ways.
func TestDependenciesHaveAReason(t *testing.T) {
	tr := house(t)
	read := func(name string, form *regexp.Regexp) map[string]bool {
		data, err := os.ReadFile(filepath.Join(tr.root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, m := range form.FindAllStringSubmatch(string(data), -1) {
			found[m[1]] = true
		}
		return found
	}
	required, reasons := read("go.mod", requirement), read("docs/design/dependencies.md", firstCell)
	if len(required) == 0 {
		t.Fatal("go.mod requires nothing: the law judges nothing")
	}
	for _, m := range slices.Sorted(maps.Keys(required)) {
		if !reasons[m] {
			t.Errorf("%s is required by go.mod and has no line in docs/design/dependencies.md", m)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(reasons)) {
		if !required[m] {
			t.Errorf("%s has a line in docs/design/dependencies.md and is not required by go.mod", m)
		}
	}
}

// TestMatches pins the language of the tables.
func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, dir string
		want         bool
	}{
		{"a", "a", true}, {"a", "a/b", false}, {"a/...", "a", true}, {"a/...", "a/b/c", true}, {"a/...", "ab", false},
		{"a/*", "a/b", true}, {"a/*", "a", false}, {"a/*", "a/b/c", false},
	} {
		if matches(c.pattern, c.dir) != c.want {
			t.Errorf("matches(%q, %q) is not %t", c.pattern, c.dir, c.want)
		}
	}
	if strings.Join(chain(map[string][]string{"a": {"b", "c"}, "b": {"d"}, "c": {"d"}}, "a", "d"), " ") != "a b d" {
		t.Error("chain is not a path")
	}
}
