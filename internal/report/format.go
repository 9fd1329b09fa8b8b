package report

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// brief leaves out of a demangled kernel name what tells little: the result,
// which is always void, and the parameters.
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

// shorten keeps both ends of a long name: templates differ in their tails.
func shorten(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	head := (width - 1) * 2 / 3
	return string(runes[:head]) + "…" + string(runes[len(runes)-(width-1-head):])
}

// duration writes three digits and a unit: 31.1 µs, 1.91 s.
func duration(ns int64) string {
	v := float64(ns)
	for _, unit := range []string{"ns", "µs", "ms"} {
		if v < 999.5 && v > -999.5 {
			if unit == "ns" {
				return strconv.FormatInt(ns, 10) + " ns"
			}
			return digits(v) + " " + unit
		}
		v /= 1000
	}
	return digits(v) + " s"
}

// size writes bytes in decimal units, as disks are sold: 131 MB.
func size(bytes int64) string {
	v := float64(bytes)
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if v < 999.5 {
			if unit == "B" {
				return strconv.FormatInt(bytes, 10) + " B"
			}
			return digits(v) + " " + unit
		}
		v /= 1000
	}
	return digits(v) + " TB"
}

// digits writes three significant ones, without a fraction of zero.
func digits(v float64) string {
	places := 0
	switch {
	case v < 9.995 && v > -9.995:
		places = 2
	case v < 99.95 && v > -99.95:
		places = 1
	}
	text := strconv.FormatFloat(v, 'f', places, 64)
	if places > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
