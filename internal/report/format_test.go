package report

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		brief("void f<int (*)(float)>(char*, int (*)(long))"): "f<int (*)(float)>",
		brief("(anonymous)"):     "(anonymous)",
		brief("broken)"):         "broken)",
		brief("Cijk_MT128"):      "Cijk_MT128",
		shorten("abcdefghij", 7): "abcd…ij",
		shorten("short", 7):      "short",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What is suggested to be typed means the file, to a shell.
func TestShellWord(t *testing.T) {
	for name, want := range map[string]string{
		"trace-41220-1203.db": "trace-41220-1203.db",
		"/tmp/größe=1.db":     "/tmp/größe=1.db",
		"two words.db":        "'two words.db'",
		"it's $HOME;`id`.db":  `'it'\''s $HOME;` + "`id`.db'",
		"~/*.db":              "'~/*.db'",
		`a\b"`:                `'a\b"'`,
		"":                    "''",
	} {
		word := shellWord(name)
		if word != want {
			t.Errorf("%q: %s, want %s", name, word, want)
		}
		if got, err := exec.Command("sh", "-c", "printf %s "+word).Output(); err != nil || string(got) != name {
			t.Errorf("%s means %q to a shell, want %q: %v", word, got, name, err)
		}
	}
}

func TestNextWithBlanks(t *testing.T) {
	s, err := Summarize(traceOf(t, whole), 1)
	must(t, err)
	s.File = "my trace.db"
	var text bytes.Buffer
	must(t, s.WriteText(&text))
	for _, want := range []string{"rtl-attach report 'my trace.db'\n", "sqlite3 'my trace.db' 'SELECT"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}
