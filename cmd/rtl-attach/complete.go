package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/export"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/ps"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
)

// complete registers the shell completions of commands and flags.
func complete(root *cobra.Command) {
	for _, c := range append(root.Commands(), root) {
		switch c.Name() {
		case "detach", "trigger", "flush", "status", "stuck", "doctor":
			c.ValidArgsFunction = completeOnePID
		case "report", "export":
			c.ValidArgsFunction = completeTraces
		case "run":
			c.ValidArgsFunction = completeProgram
		default:
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
		if c.Name() == "avail" {
			c.ValidArgsFunction = completeAvail
		}
		pids := completePIDs
		if c.Name() == "export" {
			pids = completeRecordedPIDs
		}
		for flag, values := range map[string]cobra.CompletionFunc{
			"pid":           pids,
			"format":        completeFormats,
			"csv":           completeTables,
			"operations":    completeOperations,
			"kind":          completeKinds,
			"mode":          cobra.FixedCompletions(modeNames(), cobra.ShellCompDirectiveNoFileComp),
			"buffer-policy": cobra.FixedCompletions([]string{"discard", "lossless"}, cobra.ShellCompDirectiveNoFileComp),
		} {
			if c.Flags().Lookup(flag) != nil {
				_ = c.RegisterFlagCompletionFunc(flag, values) // fails for the root's flags: they are record's, registered before
			}
		}
	}
}

// completePIDs offers the ROCm processes that this user may read.
func completePIDs(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	l, err := ps.List(version)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var pids []cobra.Completion
	for _, p := range l.Processes {
		pids = append(pids, cobra.CompletionWithDesc(strconv.Itoa(p.PID), sanitize.Text(command(p))+", "+p.State))
	}
	return pids, cobra.ShellCompDirectiveNoFileComp
}

// completeRecordedPIDs offers the processes in the trace on the command line.
func completeRecordedPIDs(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	recorded, err := export.PIDs(c.Context(), args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var pids []cobra.Completion
	for _, pid := range recorded {
		pids = append(pids, strconv.FormatInt(pid, 10))
	}
	return pids, cobra.ShellCompDirectiveNoFileComp
}

func completeOnePID(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completePIDs(c, args, begun)
}

// completeAvail offers ROCm processes, or the functions that begin so.
func completeAvail(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || begun == "" || begun[0] >= '0' && begun[0] <= '9' {
		return completeOnePID(c, args, begun)
	}
	return completeOperations(c, args, begun)
}

func completeKinds(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var flags []cobra.Completion
	for _, k := range all.Kinds {
		flags = append(flags, cobra.CompletionWithDesc(k.Flag, k.Usage))
	}
	return flags, cobra.ShellCompDirectiveNoFileComp
}

func completeProgram(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func completeFormats(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var formats []cobra.Completion
	for _, f := range export.Formats {
		formats = append(formats, cobra.CompletionWithDesc(f.Name, f.For))
	}
	return formats, cobra.ShellCompDirectiveNoFileComp
}

func completeTables(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return strings.Split(report.TableNames(), ", "), cobra.ShellCompDirectiveNoFileComp
}

func completeTraces(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return []cobra.Completion{"db"}, cobra.ShellCompDirectiveFilterFileExt
}
