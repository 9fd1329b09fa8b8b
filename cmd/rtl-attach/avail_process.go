package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/rtl-attach/rtl-attach/internal/avail"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
)

var supportMarks = map[avail.Result]string{avail.Yes: "✓", avail.No: "✗", avail.Unclear: "?"}

var wayTexts = map[string]string{
	avail.WayTable:  "by the library's dispatch table",
	avail.WayGOT:    "by the callers' global offset tables",
	avail.WayEither: "by its dispatch table, if it has one, or else by the callers' global offset tables",
}

func writeProcess(w io.Writer, p *avail.Process) error {
	fmt.Fprintf(w, "pid %d (%s), ROCm %s\n", p.PID, line(p.Command), line(p.ROCm))
	table := columns(w)
	for _, l := range p.Libraries {
		fmt.Fprintf(table, "  %s\t%s\n", l.Name, cmp.Or(line(l.Path), "not loaded"))
	}
	for _, k := range p.Kinds {
		fmt.Fprintf(table, "%s --%s\t%s\n", supportMarks[k.Result], k.Flag, line(supportText(k)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return writeTools(w, p.Tools)
}

// supportText returns what can be recorded of a kind, and why not.
func supportText(s avail.Support) string {
	text := string(s.Result)
	if s.Exported > 0 {
		text = fmt.Sprintf("%s of %s known functions, %s", humanize.Count(s.Exported), humanize.Count(s.Known), wayTexts[s.Way])
	}
	if s.Why != "" {
		text += ": " + s.Why
	}
	return text
}

func writeTools(w io.Writer, tools []avail.HookTool) error {
	if len(tools) == 0 {
		_, err := fmt.Fprintln(w, "no tool has replaced functions of the HSA runtime")
		return err
	}
	for _, t := range tools {
		name := "another tool"
		if t.Own {
			name = "rtl-attach's payload"
		}
		_, err := fmt.Fprintf(w, "%s has replaced %s of the HSA runtime: %s\n", name, humanize.Things(t.Functions, "function"),
			cmp.Or(line(t.Path), "memory without a file"))
		if err != nil {
			return err
		}
	}
	return nil
}
