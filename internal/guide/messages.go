package guide

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// Message is a message of the tool that a user may look up.
type Message struct {
	Text  string // `…` replaces variable parts
	Where string // file:line
	said  *regexp.Regexp
}

// IsIn reports whether text is this message, with the variable parts filled in.
func (m Message) IsIn(text string) bool { return m.said.MatchString(text) }

// gap replaces a variable part.
const gap = "…"

// leastLetters is the smallest number of letters of a message: a shorter one would match anything.
const leastLetters = 4

// causePackages are the packages that make causes.
var causePackages = []string{
	"internal/failure", "internal/watchdog", "internal/discover", "internal/preflight",
	"internal/ps", "internal/status", "internal/session",
}

// Messages finds the messages about failures in the code below root: causes (causePackages), errors
// of the command line and warnings (cmd/rtl-attach, internal/export), and the payload's refusals.
func Messages(root string) ([]Message, error) {
	s := source{root: root, files: token.NewFileSet(), sentinels: map[string]string{}}
	for _, dir := range append([]string{"internal/target", "internal/ring", "internal/inject", "tracedb", "internal/traceread", "internal/report"}, causePackages...) {
		if err := s.each(dir, s.noteSentinels); err != nil {
			return nil, err
		}
	}
	for _, dir := range causePackages {
		if err := s.each(dir, s.takeCauses); err != nil {
			return nil, err
		}
	}
	for _, part := range []struct {
		dir  string
		take func(*ast.File)
	}{
		{"internal/inject", s.takeErrorTypes},
		{"internal/export", s.takeWarnings},
		{"cmd/rtl-attach", s.takeUsage},
	} {
		if err := s.each(part.dir, part.take); err != nil {
			return nil, err
		}
	}
	return s.found, s.takePayload("payload/src")
}

// source is the code to search.
type source struct {
	root      string
	files     *token.FileSet
	sentinels map[string]string // errors by their names: target.ErrGone
	consts    map[string]string // of the current file's package
	found     []Message
}

// each parses the files of a package, without tests and files with a build tag.
func (s *source) each(dir string, take func(*ast.File)) error {
	files, err := filepath.Glob(filepath.Join(s.root, dir, "*.go"))
	if err != nil {
		return err
	}
	s.consts = map[string]string{}
	var parsed []*ast.File
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(string(text), "//go:build") {
			continue
		}
		f, err := parser.ParseFile(s.files, name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s.noteConsts(f)
		parsed = append(parsed, f)
	}
	for _, f := range parsed {
		take(f)
	}
	return nil
}

func (s *source) noteConsts(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == 1 && len(v.Values) == 1 {
			if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				s.consts[v.Names[0].Name] = unquote(lit)
			}
		}
		return true
	})
}

// noteSentinels collects the errors with names.
func (s *source) noteSentinels(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Names) != 1 || len(v.Values) != 1 {
			return true
		}
		if call, ok := v.Values[0].(*ast.CallExpr); ok && called(call) == "errors.New" {
			s.sentinels[f.Name.Name+"."+v.Names[0].Name] = s.text(call.Args[0])
		}
		return true
	})
}

// add notes the message of an expression, and reports whether the expression is one.
func (s *source) add(e ast.Expr) bool {
	return s.addText(s.text(e), s.files.Position(e.Pos()), "^", "$")
}

func (s *source) addText(text string, at token.Position, begin, end string) bool {
	letters := 0
	for _, r := range text {
		if unicode.IsLetter(r) {
			letters++
		}
	}
	if letters < leastLetters {
		return false
	}
	var parts []string
	for part := range strings.SplitSeq(text, gap) {
		parts = append(parts, regexp.QuoteMeta(part))
	}
	where, err := filepath.Rel(s.root, at.Filename)
	if err != nil {
		where = at.Filename
	}
	s.found = append(s.found, Message{
		Text: text, Where: where + ":" + strconv.Itoa(at.Line),
		said: regexp.MustCompile(begin + strings.Join(parts, ".*") + end),
	})
	return true
}

// text returns the value of a string expression.
func (s *source) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return unquote(e)
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return s.text(e.X) + s.text(e.Y)
		}
	case *ast.ParenExpr:
		return s.text(e.X)
	case *ast.Ident:
		if text, ok := s.consts[e.Name]; ok {
			return text
		}
	case *ast.CallExpr:
		switch name := called(e); {
		case name == "fmt.Sprintf", name == "fmt.Errorf", strings.HasSuffix(name, ".say"):
			return verbs(s.text(e.Args[0]))
		case name == "errors.New":
			return s.text(e.Args[0])
		}
	}
	return gap
}

var verb = regexp.MustCompile(`%[-+# 0-9.*]*(ll)?[a-zA-Z]`)

// verbs replaces the verbs of a format.
func verbs(format string) string {
	const percent = "\x00"
	text := strings.ReplaceAll(format, "%%", percent)
	text = verb.ReplaceAllString(text, gap)
	return strings.ReplaceAll(text, percent, "%")
}

func unquote(lit *ast.BasicLit) string {
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}

// called returns the name of the called function: fmt.Sprintf, f.set, fails.
func called(call *ast.CallExpr) string { return name(call.Fun) }

func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return name(e.X) + "." + e.Sel.Name
	}
	return ""
}

// errnoBehind is a payload message to which the tool appends the error number's meaning.
const errnoBehind = `( \(.*\))?$`

// Messages of the payload, and parts of them that a function returns.
var (
	refusal = regexp.MustCompile(`(?:control_fail\(|\bfail\(-E|snprintf\(err, errlen)[^;"]*("[^;]*?")[,)]`)
	part    = regexp.MustCompile(`return ("[^"]* [^"]*");`)
)

// takePayload finds the payload's messages for refused commands.
func (s *source) takePayload(dir string) error {
	return filepath.WalkDir(filepath.Join(s.root, dir), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".c" {
			return err
		}
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s.takeC(path, code, refusal, "^", errnoBehind)
		s.takeC(path, code, part, "", "")
		return nil
	})
}

func (s *source) takeC(path string, code []byte, pattern *regexp.Regexp, begin, end string) {
	for _, at := range pattern.FindAllSubmatchIndex(code, -1) {
		text, err := strconv.Unquote(string(code[at[2]:at[3]]))
		if err != nil || strings.HasPrefix(text, "made to fail") {
			continue // of the tests' build
		}
		line := 1 + strings.Count(string(code[:at[0]]), "\n")
		s.addText(verbs(text), token.Position{Filename: path, Line: line}, begin, end)
	}
}
