package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/launch"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

func newRun(code *failure.ExitCode) *cobra.Command {
	var f recordFlags
	c := &cobra.Command{
		Use:     "run [flags] -- COMMAND [ARGUMENT...]",
		Short:   "start a program and record it from its first kernel on",
		Long:    runHelp,
		Example: runExamples,
		Args:    oneCommand,
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			f.known = c.Flags()
			*code, err = runProgram(f, args)
			return err
		},
	}
	c.Flags().SetInterspersed(false) // the program's own flags are not ours
	f.ranks.addRank(c.Flags(), fmt.Sprintf(rankUsage, "record only"))
	addRanksAlias(c.Flags())
	f.addRecordingTo(c.Flags())
	return c
}

func oneCommand(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usageError{errors.New("a command is needed: rtl-attach run -- COMMAND")}
	case os.Args[1] != "run": // privileges.c has dropped rights that the program would miss
		return usageError{errors.New("run comes before its flags")}
	}
	return nil
}

// runProgram starts a program, records it, and returns the program's exit code.
func runProgram(f recordFlags, argv []string) (failure.ExitCode, error) {
	o, err := f.options()
	if err != nil {
		return failure.Usage, usageError{err}
	}
	if o, err = f.withRanks(o); err != nil {
		return failure.Usage, usageError{err}
	}
	if f.payload != "" {
		if o.Library, err = os.ReadFile(f.payload); err != nil {
			return failure.Failed, failure.NoPayload(0, err)
		}
	}
	check := preflight.New(o.Request)
	if err := check.CheckMachine(); err != nil {
		return failure.Failed, failure.Explain("trace", 0, err, "not started")
	}
	ui := newUI(f.quiet, f.verbose)
	ui.terminal, ui.beside = false, true
	f.remark(ui, o)
	signals := receiveSignals()
	made, err := f.outputs.makeFolder()
	if err != nil {
		return failure.Failed, failure.Explain("trace", 0, err, "not started")
	}
	commanded, err := takeCommands(&o, f.control, ui)
	if err != nil {
		made.remove()
		return failure.Failed, err
	}
	defer commanded.close(ui)
	child, err := launch.Start(argv, check.Library)
	if err != nil {
		made.remove()
		return failure.Failed, failure.NotStarted(argv[0], err)
	}
	signal.Ignore(unix.SIGPIPE) // the tool finishes its trace even if its terminal is closed
	go passOn(signals, child, ui)
	all := session.RecordLaunched(o, child, ui)
	ended, _ := untilEnded(context.Background()) // a signal ends the summary
	signal.Stop(signals)
	if all.Path != "" {
		all.Code = f.conclude(ended, os.Stderr, ui, all.Outcome)
		all.Code = f.export(ended, ui, all.Outcome, o.Kinds)
	} else {
		made.remove()
	}
	sayUnrecorded(ui, argv[0], all)
	if own := codeOfRun(all); f.strict && own != failure.OK && child.ExitCode() == 0 {
		ui.explainCode(session.Outcome{Code: own, Missing: all.Missing, NoTimes: all.NoTimes, Early: all.Early})
		return own, nil
	}
	return failure.ExitCode(child.ExitCode()), nil
}

// sayUnrecorded reports what of the program was not recorded.
func sayUnrecorded(ui *ui, program string, all session.Launched) {
	if n := len(all.Unrecorded); n > 0 {
		pids := strings.Trim(fmt.Sprint(all.Unrecorded), "[]")
		ui.Warn(fmt.Sprintf("not recorded, because too many others were being recorded: %s (pid %s)", humanize.Things(int64(n), "process"), pids))
	}
	switch {
	case all.Flight != nil && all.Flight.Files() == 0 && len(all.Recorded) > 0 && all.Code != failure.NothingSeen:
		ui.explainCode(all.Outcome)
	case len(all.LeftOut) > 0 && len(all.Recorded)+len(all.Failures) == 0:
		ui.Warn(fmt.Sprintf("nothing was recorded, and there is no trace: %s with a GPU, whose rank is not selected", humanize.Things(int64(len(all.LeftOut)), "process")))
	case len(all.Recorded)+len(all.Failures) == 0:
		ui.Warn("nothing was recorded, and there is no trace: no process of " + program + " has asked ROCm's HSA runtime for its GPUs with the payload loaded")
		warnOfIgnored(ui, launch.WhyIgnored(os.Environ()))
	case len(all.Failures) == 0 && all.Code == failure.NothingSeen:
		ui.Warn("nothing was recorded: " + program + " has not dispatched any kernel")
	}
}

// warnOfIgnored says why the runtime may not have loaded the payload: because of a setting in the user's environment.
func warnOfIgnored(ui *ui, setting string) {
	switch setting {
	case "":
	case "HSA_TOOLS_LIB":
		ui.Warn("HSA_TOOLS_LIB was set already, so HSA_TOOLS_ROCPROFILER_V1_TOOLS=1 was not added: ROCm's runtimes from 6.2 on then load nothing of HSA_TOOLS_LIB into a process with a tool of rocprofiler-sdk; set that variable, too, or attach to the process: rtl-attach -p PID")
	default:
		ui.Warn(setting + " is set: ROCm's runtimes from 6.2 on then load nothing of HSA_TOOLS_LIB into a process with a tool of rocprofiler-sdk; start it without that variable, or attach to the process: rtl-attach -p PID")
	}
}

// codeOfRun returns the exit code for --strict.
func codeOfRun(all session.Launched) failure.ExitCode {
	switch {
	case len(all.Recorded) == 0 && len(all.Failures) > 0:
		return all.Failures[0].Code
	case len(all.Recorded) == 0 && len(all.LeftOut) > 0: // as it was asked to
		return failure.OK
	case len(all.Recorded) == 0:
		return failure.NothingSeen
	case len(all.Failures)+len(all.Unrecorded) > 0:
		return failure.SomeFailed
	}
	return all.Strict()
}

// receiveSignals receives the signals that would end the tool before the program. The program does not
// inherit that.
func receiveSignals() chan os.Signal {
	signals := make(chan os.Signal, 16)
	all := slices.DeleteFunc([]os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}, signal.Ignored)
	if len(all) > 0 { // with no signals, Notify takes all
		signal.Notify(signals, all...)
	}
	return signals
}

// passOn passes signals on to the program. The terminal's own go to the whole foreground process group,
// to which the program belongs.
func passOn(signals <-chan os.Signal, child *launch.Child, ui *ui) {
	for s := range signals {
		if (s == unix.SIGINT || s == unix.SIGQUIT) && isInForeground() {
			continue
		}
		if err := child.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			ui.Warn(fmt.Sprintf("cannot pass %s on to pid %d: %v", unix.SignalName(s.(unix.Signal)), child.PID, err))
		}
	}
}

// isInForeground reports whether this process is in its terminal's foreground process group.
func isInForeground() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
