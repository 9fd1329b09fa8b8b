package report

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
)

// brief removes the result type, which is always void, and the parameters from a demangled
// kernel name.
func brief(name string) string {
	name = strings.TrimPrefix(name, "void ")
	if !strings.HasSuffix(name, ")") {
		return name
	}
	depth := 0
	for i := len(name) - 1; i > 0; i-- {
		switch name[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth == 0 {
				return name[:i]
			}
		}
	}
	return name
}

// shorten keeps both ends of a long name: template instances differ at their ends.
func shorten(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	head := (width - 1) * 2 / 3
	return string(runes[:head]) + "…" + string(runes[len(runes)-(width-1-head):])
}

// duration writes nanoseconds with three digits and a unit: 31.1 µs.
func duration(ns int64) string { return humanize.Duration(time.Duration(ns)) }
