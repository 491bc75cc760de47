package law

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// selector is a name of an imported package that only certain packages may use.
type selector struct {
	pkg   string
	names []string // empty: all
	only  []string // patterns of directories that may
	tests judged
	why   string
}

type judged int

const (
	sourcesOnly judged = iota
	testsAsWell
)

var reserved = []selector{
	{"time", []string{"Sleep"}, nil, testsAsWell,
		"a sleep guesses how long something takes: wait for the event, or use testing/synctest and a timer"},
	{"net", []string{"Listen", "ListenTCP", "ListenUDP", "ListenPacket", "ListenConfig", "Dial", "DialTCP", "DialTimeout", "Dialer"}, []string{"internal/wire"}, sourcesOnly,
		"each listener and dial goes through internal/wire: loopback only unless insecure, and one place for TLS"},
	{grpc, []string{"NewServer", "NewClient", "Dial", "DialContext"}, []string{"internal/wire"}, sourcesOnly,
		"each listener and dial goes through internal/wire: loopback only unless insecure, and one place for TLS"},
	{"net/http", []string{"ListenAndServe", "ListenAndServeTLS", "Get", "Post", "DefaultClient", "DefaultTransport", "DefaultServeMux", "Handle", "HandleFunc"}, nil, sourcesOnly,
		"each listener and dial goes through internal/wire, and nothing is registered with the process-wide mux or client"},
	{"os", []string{"Rename"}, []string{"internal/vfs"}, sourcesOnly,
		"files are published by write, sync, rename, sync of the directory: vfs.Publish, or vfs.OS where only the rename is wanted"},
	{"log", nil, nil, sourcesOnly, "one logger in every process: hclog, named, with fixed keys"},
	{"log/slog", nil, []string{"connector", "connector/*", "worker/task", "worker/task/chain", "flow", "flow/launch"}, sourcesOnly, "one logger in every process: hclog; slog is the door for user code only"},
	{"math/rand", nil, nil, testsAsWell, "math/rand/v2, seeded where a run must be repeatable"},
	{"unsafe", nil, []string{"flow/codec", "worker/spill", "worker/state", "worker/state/slab", "worker/state/column", "worker/operator/*", "worker/operator/batch/...", "shuffle", "internal/invariant", "internal/pipe"}, sourcesOnly, "only where a measured hot path needs it"},
	{"encoding/gob", nil, nil, testsAsWell, "formats are written down, versioned and checksummed; gob's is none of these"},
}

func TestReservedNamesAreUsedWhereTheyBelong(t *testing.T) {
	tr := house(t)
	for _, p := range tr.packages {
		for _, f := range p.handwritten() {
			for _, s := range reserved {
				if f.test && s.tests == sourcesOnly || matchesAny(s.only, p.dir) || matches("internal/tools/...", p.dir) {
					continue
				}
				f.uses(s.pkg, func(name string, at token.Pos) {
					if len(s.names) == 0 || slices.Contains(s.names, name) {
						t.Errorf("%s: %s.%s\n\t%s", tr.at(at), s.pkg, name, s.why)
					}
				})
			}
		}
	}
}

func TestGoStatementsStandInRunOnly(t *testing.T) {
	tr := house(t)
	for _, p := range tr.packages {
		if p.dir == "internal/run" {
			continue
		}
		for _, f := range p.handwritten() { // tests, too: a goroutine that outlives its test fails another one
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if _, ok := n.(*ast.GoStmt); ok {
					t.Errorf("%s: a go statement outside internal/run: goroutines are named, cancelled and awaited", tr.at(n.Pos()))
				}
				// sync.WaitGroup.Go and errgroup start goroutines as well.
				if call, ok := n.(*ast.CallExpr); ok && startsGoroutine(call) {
					t.Errorf("%s: a goroutine outside internal/run", tr.at(n.Pos()))
				}
				return true
			})
			for imported, pos := range f.imports() {
				if imported == "golang.org/x/sync/errgroup" {
					t.Errorf("%s: internal/run is the only group of goroutines", tr.at(pos))
				}
			}
		}
	}
}

// startsGoroutine recognises wg.Go(f) by its shape: run.Group's Go has a name and a function.
func startsGoroutine(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Go" && len(call.Args) == 1
}

func TestNoInitFunctions(t *testing.T) {
	tr := house(t)
	for _, p := range tr.packages {
		for _, f := range p.handwritten() {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s: init() acts behind everybody's back, in an order that nobody chose", tr.at(fn.Pos()))
				}
			}
		}
	}
}

// TestFailpointsAreNamedOnce keeps a name from meaning two places: the test that arms it must know what it breaks.
func TestFailpointsAreNamedOnce(t *testing.T) {
	tr := house(t)
	seen := map[string]token.Pos{}
	for _, p := range tr.packages {
		if p.dir == "internal/failpoint" {
			continue
		}
		for _, f := range p.sources() {
			local := f.importName(module + "/internal/failpoint")
			if local == "" {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !isSelector(call.Fun, local, "Hit") {
					return true
				}
				name, ok := literal(call.Args[1])
				if !ok {
					t.Errorf("%s: the name of a failpoint is a string literal, so that it can be searched for", tr.at(call.Pos()))
					return true
				}
				if first, dup := seen[name]; dup {
					t.Errorf("%s: failpoint %q stands at %s already", tr.at(call.Pos()), name, tr.at(first))
				}
				seen[name] = call.Pos()
				if !strings.Contains(name, ".") {
					t.Errorf("%s: failpoint %q is not of the form PACKAGE.STEP", tr.at(call.Pos()), name)
				}
				return true
			})
		}
	}
}

func isSelector(e ast.Expr, x, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == x
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
