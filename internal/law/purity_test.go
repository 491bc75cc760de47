package law

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// impureImports bring clocks, chance, the outside world or other goroutines into a package. time itself is allowed:
// durations and instants are values.
var impureImports = []string{
	"os", "io/fs", "io/ioutil", "net", "syscall", "log", "math/rand", "crypto/rand", "runtime", "unsafe", "plugin", "database", "testing",
	"hash/maphash", "embed", "path/filepath",
	"github.com/hashicorp/raft", grpc, "github.com/dgraph-io/badger", hclog,
}

// clocks are the functions of package time that ask what time it is, or wait.
var clocks = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true, "Tick": true, "NewTicker": true, "NewTimer": true,
}

func TestPurePackagesArePure(t *testing.T) {
	tr := house(t)
	for _, dir := range pure {
		p := tr.find(dir)
		if p == nil {
			t.Logf("%s does not exist yet", dir)
			continue
		}
		for _, f := range p.sources() {
			for imported, pos := range f.imports() {
				if prefixed(impureImports, imported) {
					t.Errorf("%s: a pure package must not import %s", tr.at(pos), imported)
				}
			}
			f.uses("time", func(name string, at token.Pos) {
				if clocks[name] {
					t.Errorf("%s: time.%s in a pure package; the time is an argument", tr.at(at), name)
				}
			})
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch n.(type) {
				case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
					t.Errorf("%s: goroutines and channels have no place in a pure package", tr.at(n.Pos()))
				}
				return true
			})
		}
	}
}

func (t *tree) find(dir string) *pkg {
	for _, p := range t.packages {
		if p.dir == dir {
			return p
		}
	}
	return nil
}

// anyOrder is the comment by which the author of a range over a map says why its order cannot be seen in the result,
// where that is not plain from its statements (see unordered).
// It stands on the line of the range or on the one before.
const anyOrder = "any order:"

// TestPurePackagesDoNotDependOnMapOrder finds ranges over maps, and the iterators of package maps that are not sorted
// at once. Replicas that apply the same entries must reach the same state, byte by byte.
func TestPurePackagesDoNotDependOnMapOrder(t *testing.T) {
	tr := house(t)
	var dirs []string
	for _, dir := range pure {
		if tr.find(dir) != nil {
			dirs = append(dirs, dir)
		}
	}
	exports := exportData(t, tr.root, dirs)
	for _, dir := range dirs {
		p := tr.find(dir)
		info := typeCheck(t, tr, p, exports)
		for _, f := range p.sources() {
			for _, at := range mapOrder(f.ast, info) {
				if !excused(tr, f, at) {
					t.Errorf("%s: the order of a map in a pure package: sort the keys, or say on this line or the one before why it cannot matter: // %s …", tr.at(at), anyOrder)
				}
			}
		}
	}
}

// mapOrder returns where a file lets the order of a map through.
func mapOrder(f *ast.File, info *types.Info) (found []token.Pos) {
	sorted := map[ast.Node]bool{} // arguments of slices.Sorted…
	fine := map[ast.Node]bool{}   // ranges whose result shows no order
	ast.Inspect(f, func(n ast.Node) bool {
		for _, s := range statements(n) {
			if r, ok := s.(*ast.RangeStmt); ok && unordered(r, statements(n), info) {
				fine[r] = true
			}
		}
		switch n := n.(type) {
		case *ast.RangeStmt:
			if _, isMap := info.TypeOf(n.X).Underlying().(*types.Map); isMap && (n.Key != nil || n.Value != nil) && !fine[n] {
				found = append(found, n.Pos())
			}
		case *ast.CallExpr:
			pkgName, name := callee(n, info)
			if pkgName == "slices" && strings.HasPrefix(name, "Sorted") {
				sorted[n.Args[0]] = true
			}
			if pkgName == "maps" && (name == "Keys" || name == "Values" || name == "All") && !sorted[n] {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

// statements are those of a block or of a case.
func statements(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	}
	return nil
}

// callee names a called function of an imported package.
func callee(call *ast.CallExpr, info *types.Info) (pkgPath, name string) {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	pkgName, ok := info.Uses[x].(*types.PkgName)
	if !ok {
		return "", ""
	}
	return pkgName.Imported().Path(), sel.Sel.Name
}

func excused(tr *tree, f *file, at token.Pos) bool {
	line := tr.fset.Position(at).Line
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			on := tr.fset.Position(c.Pos()).Line
			if reason, ok := cutAfter(c.Text, anyOrder); ok && strings.TrimSpace(reason) != "" && (on == line || on == line-1) {
				return true
			}
		}
	}
	return false
}

func cutAfter(s, sep string) (string, bool) {
	_, after, ok := strings.Cut(s, sep)
	return after, ok
}

// exportData compiles what the packages import and returns the files with the types of each.
func exportData(t *testing.T, root string, dirs []string) map[string]string {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	for _, dir := range dirs {
		args = append(args, "./"+dir)
	}
	files := map[string]string{}
	decode(t, goCommand(t, root, args...), func(p listed) { files[p.ImportPath] = p.Export })
	return files
}

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Export     string
	Standard   bool
}

func goCommand(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

func decode(t *testing.T, data []byte, each func(listed)) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		each(p)
	}
}

func typeCheck(t *testing.T, tr *tree, p *pkg, exports map[string]string) *types.Info {
	t.Helper()
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(filepath.Clean(exports[path]))
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(tr.fset, "gc", lookup)}
	var files []*ast.File
	for _, f := range p.files {
		if !f.test {
			files = append(files, f.ast)
		}
	}
	if _, err := config.Check(p.path, tr.fset, files, info); err != nil {
		t.Fatalf("%s: %v", p.dir, err)
	}
	return info
}
