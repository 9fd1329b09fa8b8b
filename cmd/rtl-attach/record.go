package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

const kernelsInSummary = 10

type recordFlags struct {
	selectionFlags
	duration  durationFlag
	schedule  scheduleFlags
	output    string
	append    bool
	force     bool
	json      bool
	quiet     bool
	verbose   bool
	buffer    string
	watermark string
	policy    string
	maxSize   string
	kernels   bool
	kinds     kindFlags
	payload   string
	settings  []string
	strict    bool
	known     *pflag.FlagSet // all flags of the command
}

func newRecord(code *failure.ExitCode) *cobra.Command {
	var f recordFlags
	c := &cobra.Command{
		Use:     "record --pid N [--duration 5s]",
		Short:   "attach, record, detach, summarise (what rtl-attach does without a command)",
		Example: examples,
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			f.known = c.Flags()
			*code, err = record(f)
			return err
		},
	}
	flags := c.Flags()
	flags.VarP(&f.pids, "pid", "p", "process to record, or several: `N[,N...]`; may be given again")
	f.addTo(flags)
	f.addRecordingTo(flags)
	return c
}

// addRecordingTo adds the flags that do not select processes.
func (f *recordFlags) addRecordingTo(flags *pflag.FlagSet) {
	flags.VarP(&f.duration, "duration", "d", "record for `DURATION`: 5s, 1m30s, or a number of seconds (default: until Ctrl-C, or rtl-attach detach)")
	f.schedule.addTo(flags)
	flags.StringVarP(&f.output, "output", "o", preflight.DefaultOutput, "trace `FILE`; %p pid, %h host, %t time; no file is replaced without --force")
	flags.BoolVar(&f.append, "append", false, "extend the trace that --output names, if it exists")
	flags.BoolVar(&f.force, "force", false, "replace the file that --output names, once the trace is complete")
	flags.BoolVar(&f.json, "json", false, "summary as JSON")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print no progress and no summary")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print each step in the target, with each pause")
	flags.StringVar(&f.buffer, "buffer-size", "64MiB", "shared memory for records, of `SIZE`, rounded up to a power of two")
	flags.StringVar(&f.watermark, "buffer-watermark", "75%", "wake the recorder when `PERCENT` of the buffer is full")
	flags.StringVar(&f.policy, "buffer-policy", "discard", "`POLICY` when the buffer is full: discard (counted), or lossless (takes more memory)")
	flags.StringVar(&f.maxSize, "max-size", "2GiB", "stop when the trace has this `SIZE`; 0: no limit")
	flags.BoolVar(&f.kernels, "kernel-trace", true, "always recorded; accepted for compatibility")
	f.kinds.addTo(flags)
	flags.BoolVar(&f.strict, "strict", false, "exit code 9 if records are missing, 10 if the recording ended early")
	flags.StringVar(&f.payload, "payload", "", "load this shared library instead of the built-in one")
	_ = flags.MarkHidden("payload")
	flags.StringArrayVar(&f.settings, "set", nil, "give the payload a setting, `NAME=VALUE`: RTL_HSA_LIBRARY=FILE (which runtime, of several), RTL_RECORDER_TIMEOUT_MS=20000; may be given again")
	flags.VisitAll(giveVariable)
}

func (f recordFlags) options() (session.Options, error) {
	o := session.Options{
		Request:  preflight.Request{Output: f.output, Append: f.append, Force: f.force, Version: version},
		Duration: time.Duration(f.duration), BufferPolicy: f.policy,
	}
	var err error
	if o.Kinds, o.Operations, err = f.kinds.chosen(); err != nil {
		return o, err
	}
	if o.Schedule, err = f.schedule.chosen(); err != nil {
		return o, err
	}
	if f.duration < 0 {
		return o, errors.New("--duration is negative")
	}
	if f.append && f.output == preflight.DefaultOutput {
		return o, errors.New("--append needs --output: the default is a new file each time")
	}
	if f.append && f.force {
		return o, errors.New("--append or --force, not both")
	}
	if err := checkTraceName(f.output); err != nil {
		return o, err
	}
	if !f.kernels {
		return o, errors.New("--kernel-trace=false: kernels are always recorded")
	}
	if f.policy != "discard" && f.policy != "lossless" {
		return o, fmt.Errorf("--buffer-policy %q: discard or lossless", f.policy)
	}
	if o.BufferSizeBytes, err = parseSize(f.buffer); err != nil {
		return o, fmt.Errorf("--buffer-size: %w", err)
	}
	if n := o.BufferSizeBytes; n < 64<<10 || n > 16<<30 {
		return o, fmt.Errorf("--buffer-size %s: from 64KiB to 16GiB", f.buffer)
	}
	o.BufferSizeBytes = roundUp(o.BufferSizeBytes)
	if o.MaxSizeBytes, err = parseSize(f.maxSize); err != nil {
		return o, fmt.Errorf("--max-size: %w", err)
	}
	if o.WatermarkPercent, err = parsePercent(f.watermark); err != nil {
		return o, fmt.Errorf("--buffer-watermark: %w", err)
	}
	o.Extra, err = parseSettings(f.settings)
	return o, err
}

func record(f recordFlags) (failure.ExitCode, error) {
	selection, err := f.selection()
	if err != nil {
		return failure.Usage, usageError{err}
	}
	o, err := f.options()
	if err != nil {
		return failure.Usage, usageError{err}
	}
	if f.payload != "" {
		if o.Library, err = os.ReadFile(f.payload); err != nil {
			return failure.Failed, failure.NoPayload(f.pids.first(), err)
		}
	}
	ui := newUI(f.quiet, f.verbose)
	ui.limited = f.duration > 0
	f.remark(ui, o)
	stop, skip, release := interrupts(ui)
	outcome, err := session.RecordAll(stop, o, selection, skip, ui)
	ended, _ := untilEnded(context.Background()) // after the detach: a signal ends the summary
	release()
	ui.finish()
	if outcome.Path != "" && (err == nil || outcome.Code == failure.Remains) {
		outcome.Code = f.conclude(ended, os.Stdout, ui, outcome)
	}
	if f.strict && err == nil {
		outcome.Code = outcome.Strict()
	}
	ui.explainCode(outcome)
	return outcome.Code, err
}

// remark reports what the tool rounds or ignores in the command line and environment.
func (f recordFlags) remark(ui *ui, o session.Options) {
	if asked, _ := parseSize(f.buffer); asked != o.BufferSizeBytes {
		ui.talk("·", "buffer", "--buffer-size %s is rounded up to %s", f.buffer, powerText(o.BufferSizeBytes))
	}
	warnOfVariables(ui, f.known, os.Environ())
	warnOfSettings(ui, o.Extra)
}

// conclude prints the summary, and returns the exit code. The trace is already saved.
func (f recordFlags) conclude(ended context.Context, w io.Writer, ui *ui, outcome session.Outcome) failure.ExitCode {
	err := unlessEnded(ended, func() error { return summarise(w, outcome.Path, f) })
	switch {
	case err == nil:
		return outcome.Code
	case errors.Is(err, context.Canceled):
		ui.say("rtl-attach: the summary was interrupted; the trace is saved: rtl-attach report %s", outcome.Path)
		return outcome.Code
	}
	ui.Failed(&failure.Error{
		What: "cannot show the summary", Cause: err.Error(), Fix: "rtl-attach report " + outcome.Path,
		Target: leftAs(outcome.Code) + "; the trace is saved", Code: failure.Failed, Err: err,
	})
	return cmp.Or(outcome.Code, failure.Failed) // other codes are more specific
}

// leftAs returns the state of the target after a recording that left a trace.
func leftAs(code failure.ExitCode) string {
	switch code {
	case failure.Remains:
		return "as the error below says"
	case failure.TargetExited:
		return "gone"
	case failure.SomeFailed:
		return "each as its message says"
	}
	return "detached"
}

func summarise(w io.Writer, path string, f recordFlags) error {
	if f.quiet && !f.json {
		return nil
	}
	s, err := report.Summarize(path, kernelsInSummary)
	if err != nil {
		return fmt.Errorf("read the trace back: %w", err)
	}
	if f.json {
		return s.WriteJSON(w)
	}
	s.Command = ownCommand()
	return s.WriteText(w)
}
