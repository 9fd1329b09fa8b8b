package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/failure"
)

// TestHelpOfFlags: each command's help writes flags as people write them: a value's name in capitals, and no
// default in the place of a value.
func TestHelpOfFlags(t *testing.T) {
	var code failure.ExitCode
	root := newRoot(&code)
	wrong := regexp.MustCompile(`\[="|\[=[^]A-Z]|=false|=true|\(default "|^ +(-\w, )?--[a-z0-9-]+ [a-z]\S* `)
	for _, c := range append(root.Commands(), root) {
		for at, line := range strings.Split(helpOf(t, c), "\n") {
			if wrong.MatchString(line) {
				t.Errorf("%s --help, line %d: %s", c.CommandPath(), at+1, line)
			}
		}
	}
	report, _, err := root.Find([]string{"report"})
	if err != nil {
		t.Fatal(err)
	}
	help := helpOf(t, report)
	column := strings.Index(lineWith(t, help, "      --json "), "as JSON")
	for flag, usage := range map[string]string{"      --csv[=TABLE] ": "one TABLE", "      --gaps[=N] ": "list the N"} {
		if line := lineWith(t, help, flag); strings.Index(line, usage) != column {
			t.Errorf("not aligned with the others: %s", line)
		}
	}
}

func helpOf(t *testing.T, c *cobra.Command) string {
	t.Helper()
	var out bytes.Buffer
	c.SetOut(&out)
	if err := c.Help(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func lineWith(t *testing.T, text, begin string) string {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, begin) {
			return line
		}
	}
	t.Fatalf("no line begins with %q:\n%s", begin, text)
	return ""
}
