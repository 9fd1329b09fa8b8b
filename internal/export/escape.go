package export

import (
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
)

const hexDigits = "0123456789abcdef"

// appendJSON writes s as a JSON string. It escapes all characters that are not graphic, more
// than JSON requires, because users may print the file. Bytes that are not UTF-8 become
// U+FFFD.
func appendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < utf8.RuneSelf && r >= ' ' && r != 0x7f, r >= utf8.RuneSelf && unicode.IsPrint(r):
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			b = appendUnit(appendUnit(b, 0xd800+(r-0x10000)>>10), 0xdc00+(r-0x10000)&0x3ff)
		default:
			b = appendUnit(b, r)
		}
	}
	return append(b, '"')
}

// appendUnit writes a UTF-16 code unit as JSON's escape.
func appendUnit(b []byte, u rune) []byte {
	return append(b, '\\', 'u', hexDigits[u>>12&15], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}

// appendMicros writes nanoseconds as microseconds with three decimals: exact.
func appendMicros(b []byte, ns int64) []byte {
	micros, rest := ns/1000, ns%1000
	if ns < 0 {
		b = append(b, '-')
		micros, rest = -micros, -rest
	}
	b = strconv.AppendInt(b, micros, 10)
	return append(b, '.', '0'+byte(rest/100), '0'+byte(rest/10%10), '0'+byte(rest%10))
}

// appendCSV writes s as a quoted field on one line.
func appendCSV(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range sanitize.Cell(s) {
		if r == '"' {
			b = append(b, '"')
		}
		b = utf8.AppendRune(b, r)
	}
	return append(b, '"')
}
