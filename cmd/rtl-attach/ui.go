package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

// ui prints everything that goes to stderr: lower case, with the program's name first
// for errors and warnings. It draws progress only on a terminal.
type ui struct {
	mu       sync.Mutex
	quiet    bool
	verbose  bool
	terminal bool
	beside   bool // a program of the user's writes to the same terminal: only results are printed
	drawn    bool // a progress line is on the screen
	drawnAt  time.Time
	began    time.Time     // start of the recording; zero: not yet
	stopped  time.Duration // into the recording when it was interrupted
	limited  bool          // the recording has a duration
}

func newUI(quiet, verbose bool) *ui {
	_, err := unix.IoctlGetTermios(int(os.Stderr.Fd()), unix.TCGETS)
	return &ui{quiet: quiet, verbose: verbose, terminal: err == nil && os.Getenv("TERM") != "dumb"}
}

const drawPeriod = 200 * time.Millisecond

// say prints one line in place of the progress line.
func (u *ui) say(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
	fmt.Fprintln(os.Stderr, line(fmt.Sprintf(format, args...)))
}

// line makes text that the target may have chosen safe for a terminal, and one line.
func line(text string) string {
	const longest = 2000 // a path can have 16,000 characters
	runes := []rune(sanitize.Text(text))
	if len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return string(runes)
}

func (u *ui) erase() {
	if u.drawn {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
		u.drawn = false
	}
}

func (u *ui) talk(mark, verb, format string, args ...any) {
	if !u.quiet && (!u.beside || u.verbose) {
		u.sayStep(mark, verb, fmt.Sprintf(format, args...))
	}
}

func (u *ui) sayStep(mark, verb, text string) { u.say("%s %-11s %s", mark, verb, text) }

func (u *ui) Preflight(facts string) { u.talk("✓", "preflight", "%s", facts) }

func (u *ui) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.began = time.Now()
}

func (u *ui) Attached(how string, threads int, paused time.Duration) {
	u.begin()
	switch threads {
	case 0:
		u.talk("✓", "attached", "%s, nothing paused", how)
	case 1:
		u.talk("✓", "attached", "%s, one thread paused for %s in all", how, humanize.Duration(paused))
	default:
		u.talk("✓", "attached", "%s, %s paused singly, for %s together", how, humanize.Things(threads, "thread"), humanize.Duration(paused))
	}
}

func (u *ui) PassedOver(processes string) { u.talk("·", "passed over", "%s: no GPU", processes) }

func (u *ui) AllAttached(facts string) {
	u.begin()
	u.talk("✓", "attached", "%s", facts)
}

func (u *ui) Joined(facts string) { u.talk("✓", "attached", "%s", facts) }

func (u *ui) Failed(f *failure.Error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
	describe(f)
}

func (u *ui) Triggered(what string) {
	if !u.quiet {
		u.sayStep("✓", "triggered", what)
	}
}

func (u *ui) Detaching(why string, expected bool) {
	if u.verbose || !expected {
		u.talk("·", "detaching", "%s", why)
	}
}

func (u *ui) Detached(how string) { u.talk("✓", "detached", "%s", how) }

func (u *ui) Warn(text string) { u.say("rtl-attach: warning: %s", text) }

func (u *ui) Debug(text string) {
	if u.verbose {
		u.talk("·", "", "%s", text)
	}
}

func (u *ui) Recording(elapsed, total time.Duration, p collector.Progress, traceBytes uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.quiet || !u.terminal || time.Since(u.drawnAt) < drawPeriod || !takesMore(os.Stderr) {
		return
	}
	u.drawnAt, u.drawn = time.Now(), true
	window := humanize.Duration(elapsed)
	if total > 0 {
		window = fmt.Sprintf("%s %s of %s", bar(elapsed, total), window, humanize.Duration(total))
	}
	fmt.Fprintf(os.Stderr, "\r\x1b[K● recording   %s  %s  %s  %s lost",
		window, humanize.Things(p.Dispatches, "dispatch"), humanize.Bytes(traceBytes), humanize.Count(p.LostRecords))
}

// takesMore reports whether a write to f would not block: a terminal that is stopped
// (Ctrl-S) must not delay the recording.
func takesMore(f *os.File) bool {
	ready := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLOUT}}
	n, err := unix.Poll(ready, 0)
	return err == nil && n == 1
}

func bar(elapsed, total time.Duration) string {
	const width = 16
	n := min(width, int(elapsed*width/total))
	return strings.Repeat("█", n) + strings.Repeat("░", width-n)
}

func (u *ui) interrupted() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.began.IsZero() {
		u.stopped = time.Since(u.began)
	}
}

func (u *ui) sayInterrupted(by os.Signal) {
	switch {
	case u.quiet:
	case by == unix.SIGINT && u.terminal:
		u.say("^C detaching (press again to skip the drain)…")
	default:
		u.say("· detaching   %s (once more skips the drain)…", unix.SignalName(by.(unix.Signal)))
	}
}

// finish erases the progress line and says if the recording ended before its duration.
func (u *ui) finish() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
	if u.stopped > 0 && u.limited && !u.quiet {
		fmt.Fprintf(os.Stderr, "stopped early at %s\n", humanize.Duration(u.stopped))
	}
}

// explainCode prints the meaning of an exit code that has no error message.
func (u *ui) explainCode(o session.Outcome) {
	switch {
	case o.Flight != nil && o.Flight.Files() == 0 && o.Code != failure.NothingSeen:
		u.say("rtl-attach: no trigger fired, and no trace was written")
		return
	case o.Flight != nil && o.Code == failure.TargetExited:
		u.say("rtl-attach: the target exited while attached; %s", humanize.Things(int64(o.Flight.Files()), "trace")+" of triggers were saved before")
		return
	}
	switch o.Code {
	case failure.TargetExited:
		u.say("rtl-attach: the target exited while attached; the trace is saved to that moment")
	case failure.NothingSeen:
		if o.Left > 0 {
			u.say("rtl-attach: detached, but no kernel is in the trace: the filters left out %s", humanize.Things(o.Left, "dispatch"))
			return
		}
		if o.NoTimes > 0 {
			u.say("rtl-attach: detached, but nothing was recorded: %s seen, and none could be timed (see Coverage)", humanize.Things(o.NoTimes, "dispatch"))
			return
		}
		u.say("rtl-attach: detached, but nothing was recorded: no kernel was dispatched through a queue that could be seen")
	case failure.RecordsMissing:
		var what []string
		if o.Missing > 0 {
			what = append(what, humanize.Things(int64(o.Missing), "record")+" missing in the trace")
		}
		if o.Without > 0 {
			what = append(what, "not every kind could be recorded")
		}
		u.say("rtl-attach: --strict: %s", strings.Join(what, "; "))
	case failure.EndedEarly:
		u.say("rtl-attach: --strict: the recording ended early: %s", o.Early)
	case failure.SomeFailed:
		u.say("rtl-attach: some of the processes were not recorded to the end; the trace holds the others whole")
	}
}

// describe prints a failure.
func describe(f *failure.Error) {
	fmt.Fprintf(os.Stderr, "rtl-attach: error: %s\n", line(f.What))
	for _, l := range [][2]string{{"cause", f.Cause}, {"fix", f.Fix}, {"target", f.Target}} {
		if l[1] != "" {
			fmt.Fprintf(os.Stderr, "  %-7s %s\n", l[0], line(l[1]))
		}
	}
}

// fail prints a command's error and returns its exit code.
func fail(command *cobra.Command, err error) failure.ExitCode {
	var (
		explained *failure.Error
		usage     usageError
	)
	if errors.As(err, &explained) {
		describe(explained)
		return explained.Code
	}
	fmt.Fprintf(os.Stderr, "rtl-attach: error: %s\n", line(err.Error()))
	if errors.As(err, &usage) || isCobraUsage(err) {
		fmt.Fprintf(os.Stderr, "  fix     %s\n  target  not touched\n", line(fixOf(command, err)))
		return failure.Usage
	}
	return failure.Failed
}

// isCobraUsage reports whether cobra returned err itself, before any command ran.
func isCobraUsage(err error) bool {
	return strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "required flag")
}
