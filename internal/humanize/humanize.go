// Package humanize formats numbers, times and sizes for users. All texts use it, so that a value
// looks the same everywhere.
package humanize

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Integer is a type of counts.
type Integer interface {
	~int | ~int32 | ~int64 | ~uint32 | ~uint64
}

// Count formats 548112 as 548,112.
func Count[N Integer](n N) string {
	text := fmt.Sprintf("%d", n)
	first := 0 // digit
	if n < 0 {
		first = 1
	}
	for at := len(text) - 3; at > first; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// Things formats a count with a noun: 1 queue, 4,000 dispatches.
func Things[N Integer](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Count(n) + " " + plural(what)
}

func plural(what string) string {
	switch {
	case strings.HasSuffix(what, "py"), strings.HasSuffix(what, "ry"): // copy, entry
		return strings.TrimSuffix(what, "y") + "ies"
	case strings.HasSuffix(what, "ch"), strings.HasSuffix(what, "s"): // dispatch, process
		return what + "es"
	}
	return what + "s"
}

// Duration formats a duration with three digits and a unit: 31.1 µs, 1.91 s.
func Duration(d time.Duration) string {
	v := float64(d)
	for _, unit := range []string{"ns", "µs", "ms"} {
		if v < 999.5 && v > -999.5 {
			return digits(v) + " " + unit
		}
		v /= 1000
	}
	return digits(v) + " s"
}

// Percent formats a percentage with one decimal: 9.1%.
func Percent(percent float64) string { return strconv.FormatFloat(percent, 'f', 1, 64) + "%" }

// Bytes formats a size in decimal units: 131 MB.
func Bytes[N Integer](n N) string {
	v := float64(n)
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if v < 999.5 {
			return digits(v) + " " + unit
		}
		v /= 1000
	}
	return digits(v) + " TB"
}

// digits formats three significant digits, without a fraction of zero.
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
