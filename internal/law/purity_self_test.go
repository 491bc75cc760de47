package law

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

const mapCases = `package p

import (
	"maps"
	"slices"
)

func f(m map[string]int, s []int) (n int) {
	for k := range m { // bad
		n += len(k)
	}
	// any order: a sum does not see it
	for k := range m {
		n += len(k)
	}
	for range m {
		n++
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		n += len(k)
	}
	for k := range maps.Keys(m) { // bad
		n += len(k)
	}
	for _, k := range slices.Collect(maps.Values(m)) { // bad
		n += k
	}
	for k := range m { // any order:
		n += len(k)
	}
	for range s {
		n++
	}
	return n
}
`

// TestMapOrderIsFound holds the law about map order to what it promises.
func TestMapOrderIsFound(t *testing.T) {
	tr := &tree{fset: token.NewFileSet()}
	parsed, err := parser.ParseFile(tr.fset, "p.go", mapCases, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(tr.fset, "source", nil)}
	if _, err := config.Check("p", tr.fset, []*ast.File{parsed}, info); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(mapCases, "\n")
	want := map[int]bool{}
	for i, line := range lines {
		// An excuse without a reason is none.
		if strings.Contains(line, "// bad") || strings.HasSuffix(line, anyOrder) {
			want[i+1] = true
		}
	}
	for _, at := range mapOrder(parsed, info) {
		line := tr.fset.Position(at).Line
		if excused(tr, &file{ast: parsed}, at) {
			continue
		}
		if !want[line] {
			t.Errorf("line %d was found: %s", line, lines[line-1])
		}
		delete(want, line)
	}
	for line := range want {
		t.Errorf("line %d was not found: %s", line, lines[line-1])
	}
}
