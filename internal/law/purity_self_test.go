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

func f(m map[string]int, s []int, tell func(string)) (n int, keys []string, x float64) {
	for k := range m { // bad
		tell(k)
	}
	// any order: everybody is told in the end
	for k := range m {
		tell(k)
	}
	for k := range m { // any order:
		tell(k)
	}
	for range m {
		tell("")
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		tell(k)
	}
	for k := range maps.Keys(m) { // bad
		tell(k)
	}
	for _, v := range slices.Collect(maps.Values(m)) { // bad
		n += v
	}
	other := map[string]int{}
	for k, v := range m {
		if v > 3 {
			n += v
			delete(other, k)
			continue
		}
		other[k] = v
		n = max(n, v)
	}
	for _, v := range m { // bad
		x += float64(v)
	}
	for k, v := range m { // bad
		other["last"] = v
		other[k] = v
	}
	var loose []string
	for k := range m { // bad
		loose = append(loose, k)
	}
	tell(loose[0])
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, v := range m { // bad
		n = v
	}
	for k := range m { // bad
		if k != "" {
			return n, keys, x
		}
	}
	for range s {
		tell("")
	}
	return n, keys, x
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
