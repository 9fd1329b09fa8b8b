package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/ps"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
)

func newPS() *cobra.Command {
	var asJSON, quiet bool
	c := &cobra.Command{
		Use:     "ps",
		Short:   "list ROCm processes: rank, GPUs, ROCm version, container, whether an attach would work",
		Example: psExamples,
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			l, err := ps.List(version)
			if err != nil {
				return err
			}
			newUI(quiet, false).omissions(l)
			return writeFound("the listing", failure.OK, asJSON, l, writeListing)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "do not mention processes that could not be read")
	return c
}

// omissions prints which processes the listing may lack.
func (u *ui) omissions(l *ps.Listing) {
	if u.quiet {
		return
	}
	if l.Denied > 0 {
		u.say("rtl-attach: %s not listed: permission denied (see rtl-attach doctor): %s",
			humanize.Things(int64(l.Denied), "process"), l.UnreadNames())
	}
	if n := len(l.Silent); n > 0 {
		u.say("rtl-attach: %s could not be read in time, or at all; the first is pid %d", humanize.Things(int64(n), "process"), l.Silent[0])
	}
	switch {
	case len(l.Processes) > 0:
	case l.Complete:
		u.say("rtl-attach: no process here uses ROCm")
	default:
		u.say("rtl-attach: no process that could be read uses ROCm")
	}
}

func writeListing(w io.Writer, l *ps.Listing) error { return writeProcesses(w, l.Processes) }

func writeProcesses(w io.Writer, processes []ps.Process) error {
	if len(processes) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PID\tRANK\tGPU\tROCM\tCONTAINER\tPAYLOAD\tTRACED BY\tCOMMAND\tSTATE")
	t := tree{table: table, shown: map[int]bool{}, byPID: map[int]ps.Process{}}
	for _, p := range processes {
		t.byPID[p.PID] = p
	}
	for _, p := range processes {
		if p.Parent == 0 {
			t.write(p, 0)
		}
	}
	for _, p := range processes { // reused pids can form a cycle, without a root
		t.write(p, 0)
	}
	return table.Flush()
}

// tree writes workers below their parents.
type tree struct {
	table io.Writer
	shown map[int]bool
	byPID map[int]ps.Process
}

func (t tree) write(p ps.Process, depth int) {
	if t.shown[p.PID] {
		return
	}
	t.shown[p.PID] = true
	cells := []string{
		strconv.Itoa(p.PID), rank(p), numbers(p.GPUs), p.ROCm, p.Container, p.Payload, p.Tracer,
		strings.Repeat("  ", depth) + command(p), state(p),
	}
	for i, c := range cells {
		if c = cell(c); c == "" {
			c = "-"
		}
		cells[i] = c
	}
	fmt.Fprintln(t.table, strings.Join(cells, "\t"))
	for _, pid := range p.Workers {
		t.write(t.byPID[pid], depth+1)
	}
}

// cell makes text that a process may have chosen safe for a table.
func cell(text string) string {
	const widest = 120
	runes := []rune(sanitize.Text(text))
	if len(runes) > widest {
		return string(runes[:widest]) + "…"
	}
	return string(runes)
}

// command returns a process's command line, cut to the table's width: it drops first
// the program's folder, then the end of the arguments.
func command(p ps.Process) string {
	const widest = 40
	text := p.CommandLine
	if text == "" {
		text = p.Command
	}
	if utf8.RuneCountInString(text) <= widest {
		return text
	}
	program, _, _ := strings.Cut(text, " ")
	if folder := strings.LastIndexByte(program, '/'); folder > 0 {
		text = "…" + text[folder:]
	}
	if runes := []rune(text); len(runes) > widest {
		return string(runes[:widest]) + "…"
	}
	return text
}

// rank returns the global rank, or else the local one.
func rank(p ps.Process) string {
	switch {
	case p.Rank != nil:
		return strconv.Itoa(*p.Rank)
	case p.LocalRank != nil:
		return "local " + strconv.Itoa(*p.LocalRank)
	}
	return ""
}

func numbers(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

func state(p ps.Process) string {
	if p.Why == "" {
		return p.State
	}
	return p.State + ": " + p.Why
}
