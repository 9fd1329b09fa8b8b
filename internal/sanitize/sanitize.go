// Package sanitize makes text that somebody else has chosen harmless: names of
// kernels, processes and files are a target's to choose, and a terminal obeys
// some of them.
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

// Text shows as an escape what would move the cursor, colour the text, turn it
// around or break the line: everything that is not graphic. Bytes that are no
// UTF-8 become U+FFFD.
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

// Cell is Text fit for a spreadsheet: those compute fields that begin as formulas
// do, so those get an apostrophe.
func Cell(s string) string {
	if strings.IndexAny(s, "=+-@") == 0 {
		s = "'" + s
	}
	return Text(s)
}

// WriteJSON writes v as one indented JSON object. What is not graphic in its
// strings is escaped, beyond what JSON asks for: people look at it, too.
func WriteJSON(w io.Writer, v any) error {
	text, err := encode(v, "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// JSON is the same on one line, without its end.
func JSON(v any) (string, error) {
	text, err := encode(v, "")
	return strings.TrimSuffix(text, "\n"), err
}

func encode(v any, indent string) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // kernel names are full of < and >
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
