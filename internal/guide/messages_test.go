package guide

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root            = "../.."
	troubleshooting = "troubleshooting.md"
)

// An entry is a line of a `text` block of the page: a message as it is printed.
type entry struct {
	text, heading string
	line          int
}

func entries(p *Page) (all []entry) {
	for _, b := range p.Blocks {
		if b.Language != "text" {
			continue
		}
		for i, line := range strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n") {
			all = append(all, entry{strings.TrimSpace(line), b.Heading, b.Line + 1 + i})
		}
	}
	return all
}

func pageNamed(t *testing.T, name string) *Page {
	t.Helper()
	all := pages(t)
	i := slices.IndexFunc(all, func(p *Page) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("there is no %s", name)
	}
	return all[i]
}

// TestMessages: every message of the code has its entry on the page, and every
// entry its message in the code.
func TestMessages(t *testing.T) {
	messages, err := Messages(root)
	if err != nil {
		t.Fatal(err)
	}
	page := pageNamed(t, troubleshooting)
	all := entries(page)
	for _, m := range messages {
		if !slices.ContainsFunc(all, func(e entry) bool { return m.IsIn(e.text) }) {
			t.Errorf("%s: %q has no entry in docs/guide/%s", m.Where, m.Text, troubleshooting)
		}
	}
	for _, e := range all {
		if !slices.ContainsFunc(messages, func(m Message) bool { return m.IsIn(e.text) }) {
			t.Errorf("docs/guide/%s:%d: %q is said nowhere in the code", troubleshooting, e.line, e.text)
		}
	}
	fixed := map[string]bool{}
	for _, e := range all {
		fixed[e.heading] = strings.Contains(page.Prose[e.heading], "**Fix**")
	}
	for heading, ok := range fixed {
		if !ok {
			t.Errorf("docs/guide/%s: %q says no fix", troubleshooting, heading)
		}
	}
	t.Logf("%d messages of the code, %d lines in %d entries", len(messages), len(all), len(fixed))
}

// TestMessagesAreFound: each way in which the code tells a cause is known here.
func TestMessagesAreFound(t *testing.T) {
	messages, err := Messages(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"it is a kernel thread",       // set
		"it is traced by gdb (pid 7)", // set, Sprintf
		"kernel.yama.ptrace_scope = 1 and this user lacks CAP_SYS_PTRACE", // a function's return
		"pid 7: musl libc",                                 // a sentinel's text
		"no payload of rtl-attach is resident there",       // Failure
		"somewhere/t.db was written by a newer rtl-attach", // a table
		"nobody reads the output any more",                 // likewise
		"the AMD GPU driver is not loaded, or its device is not passed into this container", // Check
		"all its threads are in uninterruptible sleep (state D)",                            // an assignment
		"a session without a recorder is still active: ending it",                           // Warn
		"clone in the target: resource temporarily unavailable",                             // an error's own text
		"--pid is needed",                    // usage
		"no timed dispatch is in this trace", // an export's warning
		"the HSA runtime knows no GPU agent", // the payload's
	} {
		if !slices.ContainsFunc(messages, func(m Message) bool { return m.IsIn(want) }) {
			t.Errorf("%q is not found in the code", want)
		}
	}
}

// TestExitCodes: README's table has the codes of the tool, and no others.
func TestExitCodes(t *testing.T) {
	code, err := os.ReadFile(root + "/internal/failure/exit.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(root + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "| code |")
	table, _, _ = strings.Cut(table, "\n\n")
	numbers := func(pattern, text string) (found []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
		return found
	}
	want, got := numbers(`ExitCode = (\d+)`, string(code)), numbers(`(?m)^\| (\d+) \|`, table)
	if len(want) == 0 || !slices.Equal(want, got) {
		t.Errorf("the code has %v, README %v", want, got)
	}
}
