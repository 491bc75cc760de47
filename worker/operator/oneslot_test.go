package operator_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/worker/operator/operatortest"
)

func TestEveryOperatorWorksInFrontOfOneSlotAndOutlivesRestores(t *testing.T) {
	for name, s := range subjects() {
		t.Run(name, func(t *testing.T) { operatortest.OneSlot(t, s) })
	}
}

// An operator that nobody plays through the suite is one of which nobody knows what it does in front of a slow consumer.
func TestEveryMakerOfStagesIsPlayedThroughTheSuite(t *testing.T) {
	var played []string
	for _, s := range subjects() {
		played = append(played, s.Covers...)
	}
	found := makers(t)
	for _, m := range found {
		if !slices.Contains(played, m) {
			t.Errorf("%s makes a stage, and no row of subjects covers it: add one", m)
		}
	}
	for _, p := range played {
		if !slices.Contains(found, p) {
			t.Errorf("a row covers %s, which does not exist", p)
		}
	}
}

// makers are the exported functions and methods below this directory that return a stage.
func makers(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "operatortest") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Name.IsExported() && returnsStage(fn.Type) {
				all = append(all, strings.Join(append([]string{path.Base(filepath.ToSlash(filepath.Dir(file)))}, names(fn)...), "."))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d makers of stages found: %v", len(all), all)
	}
	return all
}

// names are those of the receiver's type, if there is one, and of the function.
func names(fn *ast.FuncDecl) (all []string) {
	if fn.Recv != nil {
		ast.Inspect(fn.Recv.List[0].Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && len(all) == 0 {
				all = append(all, id.Name)
			}
			return len(all) == 0
		})
	}
	return append(all, fn.Name.Name)
}

func returnsStage(fn *ast.FuncType) (does bool) {
	if fn.Results == nil {
		return false
	}
	ast.Inspect(fn.Results, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if ok && (sel.Sel.Name == "StageOf" || sel.Sel.Name == "Stage") {
			x, ok := sel.X.(*ast.Ident)
			does = does || ok && x.Name == "task"
		}
		return !does
	})
	return does
}
