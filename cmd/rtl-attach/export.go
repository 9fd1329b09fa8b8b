package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/export"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

type exportFlags struct {
	format string
	output string
	pid    string
	quiet  bool
}

func newExport(code *session.ExitCode) *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use:   "export FILE… [--format pftrace]",
		Short: "a trace in the format of another tool; needs no privileges",
		Long: "A trace in the format of another tool; needs no privileges. Formats:\n\n" + formatTable() +
			"\nrocprofv3's readers take one process: of a trace of several, each gets a file, FILE_PID_results.json.",
		RunE: func(c *cobra.Command, args []string) error {
			format, err := f.check(args)
			if err != nil {
				return usageError{err}
			}
			ctx, release := untilEnded(c.Context())
			defer release()
			if f.output == export.Stdout { // a write to a pipe may wait for ever: the second Ctrl-C ends it
				defer context.AfterFunc(ctx, release)()
			}
			for _, trace := range args {
				if err := f.exportTrace(ctx, format, trace, code); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.format, "format", "f", export.Formats[0].Name, "one of "+formatNames())
	flags.StringVarP(&f.output, "output", "o", "", "`FILE`, or - for standard output (default: beside the trace); never overwrites")
	flags.StringVarP(&f.pid, "pid", "p", "", "only the process `N` (rocprofv3)")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "only warnings and errors")
	return c
}

func formatNames() string {
	var names []string
	for _, f := range export.Formats {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

func formatTable() string {
	var b strings.Builder
	for _, f := range export.Formats {
		fmt.Fprintf(&b, "    %-10s FILE%-20s %s\n", f.Name, f.Suffix, f.For)
	}
	return b.String()
}

func (f exportFlags) check(traces []string) (export.Format, error) {
	format, ok := export.FormatNamed(f.format)
	switch {
	case !ok:
		return format, fmt.Errorf("--format %q: one of %s", f.format, formatNames())
	case len(traces) == 0:
		return format, errors.New("a trace file is needed")
	case f.pid != "" && !format.OnePerProcess():
		return format, fmt.Errorf("--pid is not for --format %s, which has all processes", f.format)
	case len(traces) > 1 && f.output != "":
		return format, errors.New("--output is for one trace; without it each export goes beside its trace")
	case f.output == export.Stdout && !format.Streams():
		return format, fmt.Errorf("--format %s needs a file: -o FILE", f.format)
	}
	return format, nil
}

// exportTrace writes one file, or one for each process.
func (f exportFlags) exportTrace(ctx context.Context, format export.Format, trace string, code *session.ExitCode) error {
	pids, err := f.processes(ctx, format, trace)
	if err != nil {
		return err
	}
	written := int64(0)
	for _, pid := range pids {
		n, err := f.export(ctx, format, trace, pid)
		if err != nil {
			return err
		}
		written += n
	}
	if written == 0 {
		*code = session.NothingSeen
	}
	return nil
}

// processes are those that get a file each; 0: all together.
func (f exportFlags) processes(ctx context.Context, format export.Format, trace string) ([]int64, error) {
	switch {
	case f.pid != "":
		pid, err := parsePID(f.pid)
		return []int64{int64(pid)}, err
	case !format.OnePerProcess() || f.output != "":
		return []int64{0}, nil
	}
	pids, err := export.PIDs(ctx, trace)
	if err != nil {
		return nil, session.ExportFailed(trace, format.DefaultOutput(trace, 0), err)
	}
	if len(pids) < 2 {
		return []int64{0}, nil
	}
	return pids, nil
}

func (f exportFlags) export(ctx context.Context, format export.Format, trace string, pid int64) (written int64, err error) {
	output := f.output
	if output == "" {
		output = format.DefaultOutput(trace, pid)
	}
	result, err := format.Write(ctx, trace, output, pid)
	if err != nil {
		return 0, session.ExportFailed(trace, output, err)
	}
	ui := newUI(f.quiet, false)
	for _, text := range result.Warnings(format) {
		ui.Warn(text)
	}
	if output != export.Stdout && !f.quiet {
		copies := ""
		if result.Copies > 0 {
			copies = fmt.Sprintf("%d copies, ", result.Copies)
		}
		_, err = fmt.Fprintf(os.Stdout, "%s  %d dispatches, %s%d bytes\n", line(output), result.Dispatches, copies, result.Bytes)
	}
	return result.Dispatches + result.Copies, err
}
