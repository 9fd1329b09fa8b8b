package guide

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sample = `# A page

See [that](other.md#exit-code-3) and [this](#a-page).

<!-- test
target PID serve
-->
` + "```console exit=3" + `
$ first \
    goes on
said 12.5 ms of 3
$ second
` + "```" + `
## What it needs: ` + "`CAP_SYS_PTRACE`, 3 a.m." + `
<!-- not run: needs a cluster -->
` + "```console" + `
$ # no heading
` + "```\n"

func TestParse(t *testing.T) {
	p, err := Parse("a.md", sample)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"other.md#exit-code-3", "#a-page"}; !slices.Equal(p.Links, want) {
		t.Errorf("links %q", p.Links)
	}
	if a := p.Anchors(); len(a) != 2 || !a["a-page"] || !a["what-it-needs-cap_sys_ptrace-3-am"] {
		t.Errorf("anchors %v", a)
	}
	if len(p.Blocks) != 3 {
		t.Fatalf("%+v", p.Blocks)
	}
	script, run, not := p.Blocks[0], p.Blocks[1], p.Blocks[2]
	if script.Language != Test || script.Text != "target PID serve\n" || script.Runs() {
		t.Errorf("%+v", script)
	}
	if !run.Runs() || run.ExitCode != 3 || run.NotRun != "" || run.Heading != "A page" {
		t.Errorf("%+v", run)
	}
	if !not.Runs() || not.NotRun != "needs a cluster" {
		t.Errorf("%+v", not)
	}
	commands, err := run.Commands()
	if err != nil || len(commands) != 2 || commands[0].Line != "first \\\n    goes on" || commands[1].Line != "second" ||
		!slices.Equal(commands[0].Words, []string{"said 12.5 ms of 3"}) {
		t.Errorf("%q, %v", commands, err)
	}
	for _, bad := range []string{"```console\nopen", "```console exit=x\n```", "<!-- test\nno end"} {
		if _, err := Parse("b.md", bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		want           bool
	}{
		{"✓ attached    payload loaded, one thread paused for 101µs in all", "✓ attached    payload loaded, one thread paused for 1.2ms in all", true},
		{"Coverage   4 of 4 queues, 156,416 of 156,416 dispatches timed", "Coverage   2 of 2 queues, 9 of 9 dispatches timed", true},
		{"Coverage   4 of 4 queues", "Coverage   4 of 4 queues, 9 of 9 dispatches timed", false},
		{"Launch → start  p50 169 µs …", "Launch → start  p50 1.3 ms  p99 5.98 ms", true},
		{" …  18,048  54.1 ms", "a kernel(int, x) 7 3 µs", true},
		{"GPU busy   0: 8%", "GPU busy   0: ≥1%   (at least: see Coverage for what was not timed)", true},
		{"GPU busy   0: 8%", "GPU busy   0: 1%   (a guess)", false},
		{"nothing", "something", false},
		{"a (b)", "a b", false},
	} {
		if got := Matches(c.shown, c.printed); got != c.want {
			t.Errorf("Matches(%q, %q) = %v", c.shown, c.printed, got)
		}
	}
}

const pagesDir = "../../docs/guide"

func pages(t *testing.T) []*Page {
	t.Helper()
	all, err := ReadAll(pagesDir)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d pages, %v", len(all), err)
	}
	return all
}

// TestLinks: the targets of all links in the documents exist, headings included.
func TestLinks(t *testing.T) {
	for _, dir := range []string{pagesDir, "../../docs", "../../docs/decisions", "../.."} {
		all, err := ReadAll(dir)
		if err != nil || len(all) == 0 {
			t.Fatalf("%s: %d pages, %v", dir, len(all), err)
		}
		for _, p := range all {
			checkLinks(t, dir, p)
		}
	}
}

func checkLinks(t *testing.T, dir string, p *Page) {
	t.Helper()
	for _, to := range p.Links {
		if strings.Contains(to, "://") {
			continue
		}
		name, heading, _ := strings.Cut(to, "#")
		target := filepath.Join(dir, name)
		if name == "" {
			target = filepath.Join(dir, p.Name)
		}
		text, err := os.ReadFile(target)
		if err != nil {
			if info, e := os.Stat(target); e != nil || !info.IsDir() {
				t.Errorf("%s: %s: %v", p.Name, to, err)
			}
			continue
		}
		there, err := Parse(filepath.Base(target), string(text))
		if err != nil {
			t.Error(err)
		} else if heading != "" && !there.Anchors()[heading] {
			t.Errorf("%s: %s: there is no such heading", p.Name, to)
		}
	}
}

// TestNamed: README of the guide names every page.
func TestNamed(t *testing.T) {
	index := pageNamed(t, "README.md")
	for _, p := range pages(t) {
		if p.Name != index.Name && !slices.Contains(index.Links, p.Name) {
			t.Errorf("the guide's README.md does not name %s", p.Name)
		}
	}
}

// TestAnchors: no two headings of a page are linked to by the same name.
func TestAnchors(t *testing.T) {
	for _, p := range pages(t) {
		if len(p.Anchors()) != len(p.Headings) {
			t.Errorf("%s: two headings have one anchor", p.Name)
		}
	}
}
