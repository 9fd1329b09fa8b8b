package guide

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// Functions whose second argument is a cause.
var tellCauses = []string{"set", "fails", "less", "off", "unclear"}

// takeCauses finds the causes and the warnings of a package.
func (s *source) takeCauses(f *ast.File) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			ast.Inspect(d, func(n ast.Node) bool { s.takeCause(n); return true })
			continue
		}
		if fn.Body == nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool { s.takeCause(n); return true })
		if isCause(fn) {
			s.takeReturns(fn)
		}
		if strings.HasPrefix(fn.Name.Name, "explain") || isCause(fn) {
			s.takeCases(fn)
		}
	}
}

// takeCause examines one node, and reports whether it makes a cause.
func (s *source) takeCause(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		called := called(n)
		short := called[strings.LastIndex(called, ".")+1:]
		switch {
		case short == "Warn" && len(n.Args) == 1:
			return s.add(n.Args[0])
		case slices.Contains(tellCauses, short) && len(n.Args) == 3:
			return s.add(n.Args[1])
		}
	case *ast.CompositeLit:
		return s.takeLiteral(n)
	case *ast.AssignStmt:
		return s.takeAssignment(n)
	}
	return false
}

// takeLiteral takes the cause of a Failure or a Check, or of an entry of a table
// of known errors: error, cause, fix.
func (s *source) takeLiteral(lit *ast.CompositeLit) bool {
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok && name(kv.Key) == "Cause" {
			return s.add(kv.Value)
		}
	}
	const columns = 3
	if len(lit.Elts) != columns {
		return false
	}
	if _, ok := lit.Elts[0].(*ast.SelectorExpr); !ok {
		return false
	}
	return s.add(lit.Elts[1])
}

func (s *source) takeAssignment(a *ast.AssignStmt) bool {
	found := false
	for i, to := range a.Lhs {
		if n := name(to); (n == "cause" || strings.HasSuffix(n, ".Cause")) && i < len(a.Rhs) {
			text := s.text(a.Rhs[i])
			if a.Tok == token.ADD_ASSIGN {
				text = gap + text
			}
			found = s.addText(text, s.files.Position(a.Pos()), "^", "$") || found
		}
	}
	return found
}

// isCause reports whether a function's first result is a cause.
func isCause(fn *ast.FuncDecl) bool {
	if strings.HasSuffix(fn.Name.Name, "Cause") {
		return true
	}
	return resultName(fn) == "cause"
}

// resultName returns the name of a function's first result; "": none.
func resultName(fn *ast.FuncDecl) string {
	results := fn.Type.Results
	if results == nil || len(results.List) == 0 || len(results.List[0].Names) == 0 {
		return ""
	}
	return results.List[0].Names[0].Name
}

func (s *source) takeReturns(fn *ast.FuncDecl) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) > 0 {
			s.add(r.Results[0])
		}
		return true
	})
}

// takeCases finds the causes of a switch over errors. The cause of a case without its own text is
// the text of the error.
func (s *source) takeCases(fn *ast.FuncDecl) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		clause, ok := n.(*ast.CaseClause)
		if !ok || s.hasCause(clause) {
			return true
		}
		for _, cond := range clause.List {
			ast.Inspect(cond, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && called(call) == "errors.Is" {
					if text := s.sentinels[name(call.Args[1])]; text != "" {
						s.addText(text, s.files.Position(call.Pos()), "", "")
					}
				}
				return true
			})
		}
		return true
	})
}

// hasCause reports whether there is a cause, without keeping it.
func (s *source) hasCause(clause *ast.CaseClause) bool {
	kept := len(s.found)
	defer func() { s.found = s.found[:kept] }()
	found := false
	for _, stmt := range clause.Body {
		ast.Inspect(stmt, func(n ast.Node) bool {
			found = s.takeCause(n) || found
			if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 2 {
				found = s.add(r.Results[0]) || found
			}
			return true
		})
	}
	return found
}

// Errors of internal/inject whose own text is a cause, or the state of the target.
var errorTypes = []string{"BootError", "RemainsError"}

func (s *source) takeErrorTypes(f *ast.File) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "Error" || fn.Recv == nil {
			continue
		}
		if of, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok && slices.Contains(errorTypes, name(of.X)) {
			s.takeReturns(fn)
		}
	}
}

// takeWarnings finds the warnings of an export: its functions return them.
func (s *source) takeWarnings(f *ast.File) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || resultName(fn) != "warnings" {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && called(call) == "append" {
				for _, e := range call.Args[1:] {
					s.add(e)
				}
			}
			return true
		})
	}
}

// takeUsage finds the errors of a command line, and the tool's own final messages.
func (s *source) takeUsage(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch called := called(call); {
		case called == "errors.New", called == "fmt.Errorf":
			s.add(call)
		case strings.HasSuffix(called, ".Warn"):
			s.add(call.Args[0])
		case strings.HasSuffix(called, ".say"):
			text, ours := strings.CutPrefix(s.text(call), "rtl-attach: ")
			if ours && !strings.HasPrefix(text, "warning: ") { // a message for Warn
				s.addText(text, s.files.Position(call.Pos()), "^", "$")
			}
		}
		return true
	})
}
