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

	"github.com/rtl-attach/rtl-attach/attach"
	"github.com/rtl-attach/rtl-attach/internal/control"
	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/schedule"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

const kernelsInSummary = 10

// measureCost delays an attach, and the summary, by a time that nobody notices.
const measureCost = 200 * time.Millisecond

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
	filters   filterFlags
	threads   threadFlags
	payload   string
	settings  []string
	strict    bool
	outputs   outputFlags
	via       string
	tool      string
	foreign   []*foreign
	notifyFD  int
	notify    *notifier
	flight    flightFlags
	control   []string
	cost      durationFlag
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
			f.notify = newNotifier(f.notifyFD)
			*code, err = record(f)
			f.notify.concluded(*code, err)
			return err
		},
	}
	flags := c.Flags()
	flags.VarP(&f.pids, "pid", "p", "process to record, or several: `N[,N...]`; may be given again")
	f.addTo(flags)
	f.cost = durationFlag(measureCost)
	flags.Var(&f.cost, "measure-cost", "compare the rate of kernels while recording with that of a `DURATION` before and after; longer ones tell more; 0: do not")
	f.addRecordingTo(flags)
	f.addViaTo(flags)
	f.addAttachAliases(flags)
	flags.IntVar(&f.notifyFD, "notify-fd", 0, "tell the program at the other end of this descriptor when the recording begins and ends")
	_ = flags.MarkHidden("notify-fd")
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
	f.filters.addTo(flags)
	f.threads.addTo(flags)
	f.flight.addTo(flags)
	flags.StringArrayVar(&f.control, "control", nil, "take commands from a `CHANNEL` while recording: fd:N[,N], fifo:FILE[,FILE], unix:FILE; may be given again (see the guide: flight-recorder)")
	flags.BoolVar(&f.strict, "strict", false, "exit code 9 if records or kinds are missing, 10 if the recording ended early")
	flags.StringVar(&f.payload, "payload", "", "load this shared library instead of the built-in one")
	_ = flags.MarkHidden("payload")
	flags.StringArrayVar(&f.settings, "set", nil, "give the payload a setting, `NAME=VALUE`: RTL_HSA_LIBRARY=FILE (which runtime, of several), RTL_RECORDER_TIMEOUT_MS=20000; may be given again")
	flags.VisitAll(giveVariable)
	f.outputs.addTo(flags)
	f.addForeign(flags)
}

func (f recordFlags) options() (session.Options, error) {
	o := session.Options{
		Request:  preflight.Request{Output: f.outputs.template(f.output), Append: f.append, Force: f.force, Version: version},
		Duration: time.Duration(f.duration), BufferPolicy: f.policy, MeasureCost: time.Duration(f.cost),
	}
	var err error
	if err = errors.Join(f.refuseForeign(), f.outputs.check(f.known)); err != nil {
		return o, err
	}
	if o.Kinds, o.Operations, err = f.kinds.chosen(); err != nil {
		return o, err
	}
	if o.Filter, err = f.filters.filter(); err != nil {
		return o, err
	}
	if o.Schedule, err = f.schedule.chosen(); err != nil {
		return o, err
	}
	if f.cost < 0 {
		return o, errors.New("--measure-cost is negative")
	}
	if f.duration < 0 {
		return o, errors.New("--duration is negative")
	}
	if f.append && o.Output == preflight.DefaultOutput {
		return o, errors.New("--append needs --output: the default is a new file each time")
	}
	if f.append && f.force {
		return o, errors.New("--append or --force, not both")
	}
	if o.Threads, err = f.threads.chosen(); err != nil {
		return o, err
	}
	if o.Flight, err = f.flight.config(); err != nil {
		return o, err
	}
	if o.Flight != nil && len(o.Schedule) > 0 {
		return o, errors.New("--keep-last keeps all the time: without --delay, --collection-period and --schedule")
	}
	if o.Threads.Any() && len(o.Schedule) > 0 {
		return o, errors.New("--sample and --sched observe threads from the attach to the end: without --delay, --collection-period and --schedule")
	}
	if err := f.nameTraces(&o); err != nil {
		return o, err
	}
	for _, channel := range f.control {
		if err := control.Check(channel); err != nil {
			return o, fmt.Errorf("--control %w", err)
		}
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
	o.Schedule = f.switchable(o)
	o.Extra, err = parseSettings(f.settings)
	return o, err
}

// withRanks adds the filter of processes to that of kernels.
func (f recordFlags) withRanks(o session.Options) (session.Options, error) {
	ranks, err := f.ranks.filter()
	if err != nil {
		return o, err
	}
	o.Filter, err = filter.New(append(o.Filter.Settings(), ranks.Settings()...))
	return o, err
}

// switchable returns the schedule of a recording: with a control channel it has one, for its commands.
func (f recordFlags) switchable(o session.Options) schedule.Schedule {
	if len(f.control) > 0 && len(o.Schedule) == 0 && o.Flight == nil {
		return schedule.Switchable()
	}
	return o.Schedule
}

func record(f recordFlags) (failure.ExitCode, error) {
	selection, err := f.selection()
	if err != nil {
		return failure.Usage, usageError{err}
	}
	if f.via != "" {
		return f.attachTool(selection)
	}
	o, err := f.options()
	if err != nil {
		return failure.Usage, usageError{err}
	}
	if f.tool != "" {
		return failure.Usage, usageError{errors.New("--tool-library needs --via rocprofiler-register: rtl-attach records without a tool of AMD's")}
	}
	if o, err = f.withRanks(o); err != nil {
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
	made, err := f.outputs.makeFolder()
	if err != nil {
		return failure.Failed, failure.Explain("trace", f.pids.first(), err, failure.Untouched)
	}
	stop, skip, release := interrupts(ui)
	commanded, err := takeCommands(&o, f.control, ui)
	if err != nil {
		release()
		made.remove()
		return failure.Failed, err
	}
	outcome, err := recordAll(f.notify.until(stop), skip, selection, attach.Engine(o, ui), f.notify.attached)
	outcome.Flight = o.Flight
	commanded.close(ui)
	if outcome.Path == "" {
		made.remove()
	}
	ended, _ := untilEnded(context.Background()) // after the detach: a signal ends the summary
	release()
	ui.finish()
	if outcome.Path != "" && (err == nil || outcome.Code == failure.Remains) {
		outcome.Code = f.conclude(ended, os.Stdout, ui, outcome)
		outcome.Code = f.export(ended, ui, outcome, o.Kinds)
	}
	if f.strict && err == nil {
		outcome.Code = outcome.Strict()
	}
	ui.explainCode(outcome)
	return outcome.Code, err
}

// recordAll records until the end of the window, or until stop is done; skip closed ends the drain, too. It calls
// attached when the window begins.
func recordAll(stop context.Context, skip <-chan struct{}, which discover.Selection, o attach.Options, attached func()) (session.Outcome, error) {
	s, err := attach.Begin(stop, attach.Selection{PIDs: which.PIDs, Name: which.Name, Descendants: which.Tree, All: which.Yes}, o)
	if err != nil {
		return session.Outcome{}, err
	}
	go func() {
		select {
		case <-skip:
			s.SkipDrain()
		case <-s.Done():
		}
	}()
	select {
	case <-s.Attached():
		attached()
	case <-s.Done():
	}
	result, err := s.Wait()
	return result.Outcome(), err
}

// remark reports what the tool rounds or ignores in the command line and environment.
func (f recordFlags) remark(ui *ui, o session.Options) {
	if asked, _ := parseSize(f.buffer); asked != o.BufferSizeBytes {
		ui.talk("·", "buffer", "--buffer-size %s is rounded up to %s", f.buffer, powerText(o.BufferSizeBytes))
	}
	warnOfVariables(ui, newRecord(new(failure.ExitCode)).Flags(), os.Environ()) // `run` takes some of them
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
