package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/export"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

type exportFlags struct {
	format string
	output string
	pid    string
	steps  string
	names  string // a file of collectives
	force  bool
	quiet  bool

	filters filterFlags
	filter  *filter.Filter
}

func newExport(code *failure.ExitCode) *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use:   "export FILE… [--format pftrace]",
		Short: "a trace in the format of another tool; needs no privileges",
		Long: "A trace in the format of another tool; needs no privileges. Formats:\n\n" + formatTable() +
			"\nA file is compressed if its name ends in .gz, in any format but rpd." +
			"\nrocprofv3's readers take one process: a trace of several becomes one file per process, FILE_PID_results.json.",
		Example: exportExamples,
		RunE: func(c *cobra.Command, args []string) error {
			format, err := f.check(args)
			if err == nil {
				f.filter, err = f.filters.filter()
			}
			if err != nil {
				return usageError{err}
			}
			ctx, release := untilEnded(c.Context())
			defer release()
			if f.output == export.Stdout { // a write to a pipe may block forever: a second Ctrl-C kills the tool
				defer context.AfterFunc(ctx, release)()
			}
			jobs, err := f.jobs(ctx, format, args)
			if err == nil {
				err = f.writeAll(ctx, format, jobs)
			}
			if err == nil {
				*code, err = f.print(format, jobs)
			}
			return err
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.format, "format", "f", export.Formats[0].Name, "`FORMAT`, one of "+formatNames())
	flags.StringVarP(&f.output, "output", "o", "", "`FILE`, or - for standard output (default: beside the trace); .gz compresses; no file is replaced without --force")
	flags.BoolVar(&f.force, "force", false, "replace existing files, once the new ones are complete")
	flags.StringVarP(&f.pid, "pid", "p", "", "export only process `N` (rocprofv3)")
	f.filters.addTo(flags)
	f.filters.addRank(flags, fmt.Sprintf(rankUsage, "export only"))
	flags.StringVar(&f.steps, "steps", "", "export only what starts in the time of steps: `N`, the last N, or A:B, by number (not rpd)")
	addCollectives(flags, &f.names)
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print only warnings and errors")
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
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range export.Formats {
		fmt.Fprintf(w, "    %s\tFILE%s\t%s\n", f.Name, f.Suffix, f.For)
	}
	_ = w.Flush() // a Builder takes everything
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
		return format, fmt.Errorf("--pid does not apply to --format %s, which has all processes", f.format)
	case f.steps != "" && !format.Streams():
		return format, fmt.Errorf("--steps does not apply to --format %s, which has the whole trace", f.format)
	case f.names != "" && !format.Timeline():
		return format, fmt.Errorf("--collectives does not apply to --format %s, which does not show them", f.format)
	case len(traces) > 1 && f.output != "":
		return format, errors.New("--output names the export of one trace; without it each export goes beside its trace")
	case f.output == export.Stdout && !format.Streams():
		return format, fmt.Errorf("--format %s needs a file: -o FILE", f.format)
	case !format.Streams() && export.IsCompressed(f.output):
		return format, fmt.Errorf("--format %s cannot be compressed: -o with a name that does not end in .gz", f.format)
	case f.output != "" && isFolder(f.output):
		return format, fmt.Errorf("--output %q is a folder: -o FILE", f.output)
	}
	if placeholder := regexp.MustCompile("%[A-Za-z]").FindString(f.output); placeholder != "" {
		return format, fmt.Errorf("--output %q: an export's name has no placeholders such as %s", f.output, placeholder)
	}
	selection, err := parseSteps(f.steps)
	if err != nil {
		return format, err
	}
	if selection != nil {
		format = format.OfSteps(*selection)
	}
	patterns, err := parseCollectives(f.names)
	if err != nil {
		return format, err
	}
	format = format.WithCollectives(patterns)
	return format, areFiles(traces)
}

// A job is one file to write, from a trace or from one process in it.
type job struct {
	trace, output string
	made          string // the path to write to; writeAll moves it to output when all files are complete
	pid           int64  // 0: all processes
	result        *export.Result
}

// jobs returns the files to write for the traces. It first checks that each one can
// be created.
func (f exportFlags) jobs(ctx context.Context, format export.Format, traces []string) (all []job, err error) {
	for _, trace := range traces {
		pids, err := f.processes(ctx, format, trace)
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			output := cmp.Or(f.output, format.DefaultOutput(trace, pid))
			if slices.ContainsFunc(all, func(j job) bool { return j.output == output }) {
				return nil, usageError{fmt.Errorf("%s would be written twice", output)}
			}
			if slices.ContainsFunc(traces, func(trace string) bool { return isSameFile(trace, output) }) {
				return nil, usageError{fmt.Errorf("--output %s is a trace that is exported", output)}
			}
			made, err := f.madeAt(output)
			if err != nil {
				return nil, failure.ExportFailed(trace, output, err)
			}
			all = append(all, job{trace: trace, output: output, made: made, pid: pid})
		}
	}
	return all, nil
}

// madeAt returns the path to write an export to: output, or with --force a path
// beside the file that it replaces.
func (f exportFlags) madeAt(output string) (made string, err error) {
	made = output
	if f.force && output != export.Stdout {
		if made, err = tracedb.Beside(output); err != nil {
			return "", err
		}
	}
	return made, export.CheckOutput(made)
}

// writeAll writes all files or none, so that the user can run a failed or interrupted
// export again. It replaces existing files once all new ones are complete.
func (f exportFlags) writeAll(ctx context.Context, format export.Format, jobs []job) (err error) {
	for i := range jobs {
		j := &jobs[i]
		if j.result, err = format.Filtered(f.filter).Write(ctx, j.trace, j.made, j.pid); err == nil {
			continue
		}
		for _, done := range jobs[:i] {
			err = errors.Join(err, done.result.Remove())
		}
		return failure.ExportFailed(j.trace, j.output, err)
	}
	for i, j := range jobs {
		if err = j.result.MoveTo(j.output); err == nil {
			continue
		}
		for _, rest := range jobs[i:] {
			err = errors.Join(err, rest.result.Remove())
		}
		return failure.ExportFailed(j.trace, j.output, err)
	}
	return nil
}

// print lists the files that were written, and returns NothingSeen if a trace had
// nothing to export.
func (f exportFlags) print(format export.Format, jobs []job) (code failure.ExitCode, err error) {
	ui, written := newUI(f.quiet, false), map[string]int64{}
	for _, j := range jobs {
		for _, text := range j.result.Warnings(format) {
			ui.Warn(text)
		}
		if j.output != export.Stdout && !f.quiet {
			err = errors.Join(err, writeResult(os.Stdout, j.output, j.result))
		}
		written[j.trace] += j.result.Written()
	}
	for _, n := range written {
		if n == 0 {
			code = failure.NothingSeen
		}
	}
	if err != nil {
		err = failure.ResultFailed(code, err)
	}
	return code, err
}

func writeResult(w io.Writer, output string, r *export.Result) error {
	var written []string
	for _, k := range r.Kinds {
		if k.Written > 0 {
			written = append(written, humanize.Things(k.Written, k.Kind.EventThing()))
		}
	}
	if r.Causes > 0 {
		written = append(written, humanize.Things(r.Causes, "cause")+" of idle time")
	}
	if r.Dispatches > 0 || len(written) == 0 {
		written = slices.Insert(written, 0, humanize.Things(r.Dispatches, "dispatch"))
	}
	_, err := fmt.Fprintf(w, "%s  %s, %s\n", line(output), strings.Join(written, ", "), humanize.Bytes(r.Bytes))
	return err
}

// processes returns the pids that get a file each; 0: one file for all processes.
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
		return nil, failure.ExportFailed(trace, format.DefaultOutput(trace, 0), err)
	}
	if len(pids) < 2 {
		return []int64{0}, nil
	}
	return pids, nil
}
