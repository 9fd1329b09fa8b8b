//go:build rtlman

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// roff builds a page in the language of man(7).
type roff struct{ strings.Builder }

// escape escapes text for groff, which reads ASCII and names for all other characters.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// line writes a line of text; it escapes a leading point or apostrophe, which would
// begin a request.
func (r *roff) line(text string) {
	text = escape(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	r.WriteString(text + "\n")
}

func (r *roff) request(name string, args ...string) {
	r.WriteString("." + name)
	for _, a := range args {
		r.WriteString(` "` + strings.ReplaceAll(escape(a), `"`, `\(dq`) + `"`)
	}
	r.WriteString("\n")
}

func (r *roff) heading(name string) { r.request("SH", name) }

func (r *roff) bold(text string) { r.WriteString(`\fB` + escape(text) + "\\fP\n") }

func (r *roff) section(name, text string) {
	r.heading(name)
	for i, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			r.request("PP")
		}
		r.paragraph(paragraph)
	}
}

// paragraph writes text; indented text is written as it stands.
func (r *roff) paragraph(text string) {
	if strings.HasPrefix(text, "  ") {
		r.verbatim(text)
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		r.line(line)
	}
}

func (r *roff) verbatim(text string) {
	r.request("EX")
	for line := range strings.SplitSeq(text, "\n") {
		r.line(line)
	}
	r.request("EE")
}

// options lists the flags as people write them: --json, -o, --output FILE.
func (r *roff) options(c *cobra.Command) {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		r.request("TP")
		r.WriteString(`\fB` + escape(flagNames(f)) + `\fP` + valueOf(value, f.NoOptDefVal != "") + "\n")
		r.line(usage + defaultOf(f))
	})
}

// valueOf returns what follows the name of a flag that takes a value.
func valueOf(name string, optional bool) string {
	switch {
	case name == "":
		return ""
	case optional:
		return `[=\fI` + escape(name) + `\fP]`
	}
	return ` \fI` + escape(name) + `\fP`
}

func flagNames(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return "--" + f.Name
	}
	return "-" + f.Shorthand + ", --" + f.Name
}

func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "[]":
		return ""
	case "true":
		return " (default)"
	}
	return " (default: " + f.DefValue + ")"
}
