package sanitize

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"gemm<float, 128>": "gemm<float, 128>",
		"größe":            "größe",
		"a\x1b[31mb":       `a\x1b[31mb`,
		"a\nb\tc\x00":      `a\nb\tc\x00`,
		"a\u009b31mb":      `a\u009b31mb`, // CSI in one character
		"a\u202eb":         `a\u202eb`,    // right-to-left override
		"a\u2028b":         `a\u2028b`,
		"a\xffb":           "a\ufffdb",
		"a\U000e0041b":     `a\U000e0041b`, // a tag: not seen, but there
	} {
		if got := Text(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// FuzzSanitize: nothing but graphic characters comes out, and JSON means the same.
func FuzzSanitize(f *testing.F) {
	f.Add("a\x1b]0;title\x07b")
	f.Add("\u009b\u202e\U000e0041\xff\"\\")
	f.Fuzz(func(t *testing.T, s string) {
		harmless(t, Text(s), "")
		var b bytes.Buffer
		if err := WriteJSON(&b, map[string]string{"name": s}); err != nil {
			t.Fatal(err)
		}
		harmless(t, b.String(), "\n")
		var back, want map[string]string
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Fatalf("%q: %v", b.String(), err)
		}
		plain, _ := json.Marshal(map[string]string{"name": s})
		if err := json.Unmarshal(plain, &want); err != nil || back["name"] != want["name"] {
			t.Fatalf("%q came back as %q", s, back["name"])
		}
	})
}

func harmless(t *testing.T, s, allowed string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Fatalf("%q is no UTF-8", s)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) && string(r) != allowed {
			t.Fatalf("%q holds %q", s, r)
		}
	}
}
