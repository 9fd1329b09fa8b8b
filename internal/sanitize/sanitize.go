// Package sanitize makes untrusted text safe to print: a target chooses the names of its kernels,
// processes and files, and a terminal executes some character sequences.
package sanitize

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Text escapes all characters that are not graphic: they could move the cursor, change colours,
// reverse the text or break the line. Bytes that are not UTF-8 become U+FFFD.
func Text(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// Cell is Text for a spreadsheet, which evaluates fields that look like formulas: Cell puts an
// apostrophe before these.
func Cell(s string) string {
	if strings.IndexAny(s, "=+-@") == 0 {
		s = "'" + s
	}
	return Text(s)
}

// WriteJSON writes v as one indented JSON object. It escapes all characters in strings that are
// not graphic, more than JSON requires, because users may print the output.
func WriteJSON(w io.Writer, v any) error {
	text, err := encode(v, "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// JSON returns the same on one line, without a newline.
func JSON(v any) (string, error) {
	text, err := encode(v, "")
	return strings.TrimSuffix(text, "\n"), err
}

func encode(v any, indent string) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // kernel names contain < and >
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	var out strings.Builder
	for _, r := range b.String() {
		switch {
		case r == '\n', unicode.IsPrint(r):
			out.WriteRune(r)
		default: // only strings hold such
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		}
	}
	return out.String(), nil
}
