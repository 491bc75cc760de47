package law

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// unordered reports whether a range over a map visibly gives the same result in any order: its body only deletes, counts,
// sums integers, or stores under the key; or it collects into a slice that a later statement of the same block sorts.
// block is the list of statements that the range stands in.
func unordered(r *ast.RangeStmt, block []ast.Stmt, info *types.Info) bool {
	c := commuting{info: info, key: object(r.Key, info)}
	if !c.all(r.Body.List) {
		return false
	}
	for _, slice := range c.collected {
		if !sortedAfter(slice, r, block, info) {
			return false
		}
	}
	return true
}

type commuting struct {
	info      *types.Info
	key       types.Object
	collected []types.Object // slices that are appended to
}

func (c *commuting) all(list []ast.Stmt) bool {
	for _, s := range list {
		if !c.one(s) {
			return false
		}
	}
	return true
}

func (c *commuting) one(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.IncDecStmt:
		return c.integer(s.X)
	case *ast.BranchStmt:
		return s.Tok == token.CONTINUE
	case *ast.BlockStmt:
		return c.all(s.List)
	case *ast.IfStmt:
		return (s.Init == nil || c.one(s.Init)) && c.all(s.Body.List) && (s.Else == nil || c.one(s.Else))
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && c.builtin(call, "delete")
	case *ast.AssignStmt:
		return len(s.Lhs) == 1 && len(s.Rhs) == 1 && c.assignment(s)
	}
	return false
}

func (c *commuting) assignment(s *ast.AssignStmt) bool {
	left, right := s.Lhs[0], s.Rhs[0]
	switch s.Tok {
	case token.ADD_ASSIGN, token.SUB_ASSIGN, token.OR_ASSIGN, token.AND_ASSIGN, token.XOR_ASSIGN:
		return c.integer(left)
	case token.DEFINE:
		return true // seen by this round alone
	case token.ASSIGN:
		if at, ok := left.(*ast.IndexExpr); ok { // m[key] = …: each round has its own place
			return c.key != nil && object(at.Index, c.info) == c.key
		}
		call, ok := right.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return false
		}
		slice := object(left, c.info)
		if slice == nil || object(call.Args[0], c.info) != slice {
			return false
		}
		if c.builtin(call, "append") {
			c.collected = append(c.collected, slice)
			return true
		}
		return c.builtin(call, "min") || c.builtin(call, "max")
	}
	return false
}

func (c *commuting) integer(e ast.Expr) bool {
	basic, ok := c.info.TypeOf(e).Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsInteger != 0
}

func (c *commuting) builtin(call *ast.CallExpr, name string) bool {
	id, ok := call.Fun.(*ast.Ident)
	if !ok || id.Name != name {
		return false
	}
	_, ok = c.info.Uses[id].(*types.Builtin)
	return ok
}

// object is the variable that an expression names; nil if it is anything else.
func object(e ast.Expr, info *types.Info) types.Object {
	id, ok := e.(*ast.Ident)
	if !ok || id.Name == "_" {
		return nil
	}
	if o := info.Defs[id]; o != nil {
		return o
	}
	return info.Uses[id]
}

// sortedAfter looks for slices.Sort…(slice) behind r in its block.
func sortedAfter(slice types.Object, r *ast.RangeStmt, block []ast.Stmt, info *types.Info) bool {
	for _, s := range block {
		e, ok := s.(*ast.ExprStmt)
		if !ok || s.Pos() < r.End() {
			continue
		}
		call, ok := e.X.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			continue
		}
		pkgPath, name := callee(call, info)
		if pkgPath == "slices" && strings.HasPrefix(name, "Sort") && object(call.Args[0], info) == slice {
			return true
		}
	}
	return false
}
