// Package guide reads the pages of docs/guide for tests: their commands, headings and links, and
// the messages that the page on troubleshooting explains. Its own tests compare these with the
// code; test/cli runs the commands.
package guide

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Page is one Markdown file.
type Page struct {
	Name     string // of the file: quick-start.md
	Headings []string
	Prose    map[string]string // below each heading
	Blocks   []Block
	Links    []string
}

// Block is fenced text, or a comment <!-- test … --> with lines for testscript, in the order of the
// page.
type Block struct {
	Line     int
	Language string // the first word after the fence; Test for a comment
	ExitCode int    // from exit=3 after the language
	NotRun   string // the reason, from a comment <!-- not run: … --> before it
	Heading  string // the heading above it
	Text     string
}

// Test is the language of comments with lines for testscript.
const Test = "test"

// Runs reports whether the block has commands for a shell.
func (b Block) Runs() bool { return b.Language == "console" || b.Language == "sh" }

const (
	fence      = "```"
	testBegin  = "<!-- test"
	notRunMark = "<!-- not run: "
	markEnd    = "-->"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// ReadAll reads the pages of a folder.
func ReadAll(dir string) ([]*Page, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return nil, err
	}
	var pages []*Page
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		p, err := Parse(filepath.Base(file), string(text))
		if err != nil {
			return nil, err
		}
		pages = append(pages, p)
	}
	return pages, nil
}

// Parse reads one page.
func Parse(name, text string) (*Page, error) {
	r := reader{page: &Page{Name: name, Prose: map[string]string{}}}
	for i, line := range strings.Split(text, "\n") {
		if err := r.read(i+1, line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
	}
	if r.end != "" {
		return nil, fmt.Errorf("%s:%d: no %s behind it", name, r.block.Line, r.end)
	}
	return r.page, nil
}

// reader reads a page line by line.
type reader struct {
	page  *Page
	end   string // end of the open block; "": no block is open
	block Block
	mark  string // the reason why the next block is not run
	head  string
}

func (r *reader) read(number int, line string) error {
	switch {
	case r.end != "" && strings.TrimSpace(line) == r.end:
		r.end = ""
		r.page.Blocks = append(r.page.Blocks, r.block)
	case r.end != "":
		r.block.Text += line + "\n"
	case line == testBegin:
		r.end = markEnd
		r.block = Block{Line: number, Language: Test, Heading: r.head}
	case strings.HasPrefix(line, notRunMark) && strings.HasSuffix(line, markEnd):
		r.mark = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(line, notRunMark), markEnd))
	case strings.HasPrefix(line, fence):
		return r.open(number, strings.TrimPrefix(line, fence))
	default:
		r.prose(line)
	}
	return nil
}

func (r *reader) open(number int, info string) error {
	r.end = fence
	r.block = Block{Line: number, NotRun: r.mark, Heading: r.head}
	r.mark = ""
	words := strings.Fields(info)
	if len(words) == 0 {
		return nil
	}
	r.block.Language = words[0]
	for _, word := range words[1:] {
		code, ok := strings.CutPrefix(word, "exit=")
		n, err := strconv.Atoi(code)
		if !ok || err != nil {
			return fmt.Errorf("%q means nothing behind a fence", word)
		}
		r.block.ExitCode = n
	}
	return nil
}

func (r *reader) prose(line string) {
	if text := strings.TrimLeft(line, "#"); text != line && strings.HasPrefix(text, " ") {
		r.head = strings.TrimSpace(text)
		r.page.Headings = append(r.page.Headings, r.head)
	}
	r.page.Prose[r.head] += line + "\n"
	for _, m := range link.FindAllStringSubmatch(line, -1) {
		r.page.Links = append(r.page.Links, m[1])
	}
}

// Anchors returns the link names of a page's headings, as GitHub makes them.
func (p *Page) Anchors() map[string]bool {
	anchors := map[string]bool{}
	for _, h := range p.Headings {
		anchors[anchor(h)] = true
	}
	return anchors
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// Command is one line after a prompt, with its expected output.
type Command struct {
	Line  string
	Words []string
}

// Commands splits a console block: `$ ` begins a command, `\` at its end continues it in the next
// line, all else is output.
func (b Block) Commands() ([]Command, error) {
	if b.Language == "sh" {
		return []Command{{Line: "set -e\n" + b.Text}}, nil
	}
	var commands []Command
	goesOn := false
	for line := range strings.Lines(b.Text) {
		line = strings.TrimSuffix(line, "\n")
		last := len(commands) - 1
		switch command, ok := strings.CutPrefix(line, "$ "); {
		case goesOn:
			commands[last].Line += "\n" + line
		case ok:
			commands = append(commands, Command{Line: command})
		case last < 0:
			return nil, fmt.Errorf("line %d: output before the first command", b.Line)
		default:
			commands[last].Words = append(commands[last].Words, line)
			continue
		}
		goesOn = strings.HasSuffix(line, `\`)
	}
	return commands, nil
}

var (
	units  = `(?: ?(?:ns|µs|ms|s|B|kB|MB|GB|MiB|%|k)\b)?`
	figure = regexp.MustCompile(`[0-9][0-9.,]*` + units)
	blank  = regexp.MustCompile(`\s+`)
)

// Matches reports whether a printed line matches a line of a page: numbers and their units may
// differ, `…` matches anything, blanks match blanks, and a number may have ≥ or ≤ before it.
func Matches(shown, printed string) bool {
	var b strings.Builder
	b.WriteString("^")
	for i, part := range strings.Split(strings.TrimSpace(blank.ReplaceAllString(shown, " ")), "…") {
		if i > 0 {
			b.WriteString(".*")
		}
		rest := part
		for _, at := range figure.FindAllStringIndex(part, -1) {
			b.WriteString(regexp.QuoteMeta(part[len(part)-len(rest) : at[0]]))
			b.WriteString(`[≥≤]?[0-9][0-9.,]*` + units) // at least, at most: records are missing
			rest = part[at[1]:]
		}
		b.WriteString(regexp.QuoteMeta(rest))
	}
	b.WriteString(`(?: \(at least: .*\))?$`) // the note of a recording with missing records
	re, err := regexp.Compile(b.String())
	return err == nil && re.MatchString(strings.TrimSpace(blank.ReplaceAllString(printed, " ")))
}
