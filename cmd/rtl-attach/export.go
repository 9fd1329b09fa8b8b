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

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/export"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

type exportFlags struct {
	format string
	output string
	pid    string
	force  bool
	quiet  bool
}

func newExport(code *failure.ExitCode) *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use:   "export FILE… [--format pftrace]",
		Short: "a trace in the format of another tool; needs no privileges",
		Long: "A trace in the format of another tool; needs no privileges. Formats:\n\n" + formatTable() +
			"\nA file whose name ends in .gz is compressed, in any format but rpd; no other is." +
			"\nrocprofv3's readers take one process: of a trace of several, each gets a file, FILE_PID_results.json.",
		Example: exportExamples,
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
			jobs, err := f.jobs(ctx, format, args)
			if err == nil {
				err = writeAll(ctx, format, jobs)
			}
			if err == nil {
				*code, err = f.tell(format, jobs)
			}
			return err
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.format, "format", "f", export.Formats[0].Name, "`FORMAT`, one of "+formatNames())
	flags.StringVarP(&f.output, "output", "o", "", "`FILE`, or - for standard output (default: beside the trace); .gz compresses; no file is replaced without --force")
	flags.BoolVar(&f.force, "force", false, "replace files that are there, once the new ones are complete")
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
	case !format.Streams() && export.IsCompressed(f.output):
		return format, fmt.Errorf("--format %s cannot be compressed: -o with a name that does not end in .gz", f.format)
	case f.output != "" && isFolder(f.output):
		return format, fmt.Errorf("--output %q is a folder: -o FILE", f.output)
	}
	if placeholder := regexp.MustCompile("%[A-Za-z]").FindString(f.output); placeholder != "" {
		return format, fmt.Errorf("--output %q: an export's name has no placeholders such as %s", f.output, placeholder)
	}
	return format, areFiles(traces)
}

// A job is one file to be made, of a trace or of one process in it.
type job struct {
	trace, output string
	made          string // where it is made; it is moved to output when all are complete
	pid           int64  // 0: of all
	result        *export.Result
}

// jobs are the files that the traces come to. Before the first one is made it is known
// that each could be.
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

// madeAt is where an export is made: where it is to be, or beside a file that it replaces.
func (f exportFlags) madeAt(output string) (made string, err error) {
	made = output
	if f.force && output != export.Stdout {
		if made, err = tracedb.Beside(output); err != nil {
			return "", err
		}
	}
	return made, export.CheckOutput(made)
}

// writeAll makes all files or none, so that what failed or was interrupted can be run
// again. Files that are there are replaced once all new ones are complete.
func writeAll(ctx context.Context, format export.Format, jobs []job) (err error) {
	for i := range jobs {
		j := &jobs[i]
		if j.result, err = format.Write(ctx, j.trace, j.made, j.pid); err == nil {
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

// tell says what was made, and whether there was something in each trace.
func (f exportFlags) tell(format export.Format, jobs []job) (code failure.ExitCode, err error) {
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
			written = append(written, humanize.Things(k.Written, k.Kind.Thing))
		}
	}
	if r.Dispatches > 0 || len(written) == 0 {
		written = slices.Insert(written, 0, humanize.Things(r.Dispatches, "dispatch"))
	}
	_, err := fmt.Fprintf(w, "%s  %s, %s\n", line(output), strings.Join(written, ", "), humanize.Bytes(r.Bytes))
	return err
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
		return nil, failure.ExportFailed(trace, format.DefaultOutput(trace, 0), err)
	}
	if len(pids) < 2 {
		return []int64{0}, nil
	}
	return pids, nil
}
