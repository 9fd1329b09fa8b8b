package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/register"
	"github.com/rtl-attach/rtl-attach/internal/rocprof"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
)

// viaRegister is the value of --via for rocprofiler-register's protocol.
const viaRegister = "rocprofiler-register"

func (f *recordFlags) addViaTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.via, "via", "", "attach AMD's own tool by the `PROTOCOL` rocprofiler-register, to a process that was started for it (ROCP_TOOL_ATTACH=1); the tool writes its own files")
	flags.StringVar(&f.tool, "tool-library", "", "with --via: the tool to attach, instead of rocprofiler-sdk's: `PATH` in the process's root, or several with colons between them")
}

// variables returns what rocprofiler-sdk's tool reads, as rocprofv3 sets it.
func (f recordFlags) variables() ([]envbuf.Var, error) {
	if err := f.refuseWithTool(); err != nil {
		return nil, err
	}
	filtered, err := f.filters.filter()
	if err != nil {
		return nil, err
	}
	filters, err := rocprof.ForFilter(filtered)
	if err != nil {
		return nil, instead{err, "write it without RE2's own syntax, in fewer numbers, or record without --via"}
	}
	kinds, _, err := f.kinds.chosen()
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(f.outputs.directory)
	if err != nil {
		return nil, err
	}
	vars := []envbuf.Var{
		{Name: "ROCPROFILER_LIBRARY_CTOR", Value: "1"},
		{Name: "ROCPROF_OUTPUT_PATH", Value: folder},
		{Name: "ROCPROF_OUTPUT_FORMAT", Value: strings.Join(strings.FieldsFunc(f.outputs.format+" ", isSeparator), ",")},
		{Name: "ROCPROF_ATTACH_OUTPUT_GENERATION_SYNC", Value: "1"},
	}
	if vars[2].Value == "" {
		vars[2].Value = "rocpd"
	}
	if f.outputs.file != "" {
		vars = append(vars, envbuf.Var{Name: "ROCPROF_OUTPUT_FILE_NAME", Value: f.outputs.file})
	}
	if vars = append(vars, rocprof.ForKinds(kinds)...); !f.kernels {
		vars = slices.DeleteFunc(vars, func(v envbuf.Var) bool { return v.Name == rocprof.KernelTrace })
	}
	vars = append(vars, filters...)
	for _, g := range f.givenForeign() {
		more, ok := g.Variables()
		if !ok && !g.IsOff() {
			return nil, instead{fmt.Errorf("--%s is rocprofv3's, and cannot be passed on to AMD's tool", g.Name), "leave it out, or set the tool's variable: --set NAME=VALUE"}
		}
		vars = append(vars, more...)
	}
	own, err := toolSettings(f.settings)
	return append(vars, own...), err
}

func isSeparator(r rune) bool { return r == ',' || r == ' ' }

// toolSettings reads --set for AMD's tool, whose variables all begin alike.
func toolSettings(settings []string) (vars []envbuf.Var, err error) {
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		if !ok || !strings.HasPrefix(name, "ROCP") {
			return nil, fmt.Errorf("--set %q: with --via %s, NAME=VALUE with a name that begins with ROCP is needed", s, viaRegister)
		}
		vars = append(vars, envbuf.Var{Name: name, Value: value})
	}
	return vars, nil
}

// attachTool attaches AMD's tool to the selected processes, and detaches it at the end of the window.
func (f recordFlags) attachTool(selection discover.Selection) (failure.ExitCode, error) {
	if f.via != viaRegister {
		return failure.Usage, usageError{fmt.Errorf("--via %q: %s is the only protocol", f.via, viaRegister)}
	}
	if f.duration < 0 {
		return failure.Usage, usageError{errors.New("--duration is negative")}
	}
	vars, err := f.variables()
	if err != nil {
		return failure.Usage, usageError{err}
	}
	choice, err := watchdog.Do(f.pids.first(), selection.Resolve)
	if err != nil {
		return failure.Failed, failure.Explain("look for", f.pids.first(), err, failure.Untouched)
	}
	ui := newUI(f.quiet, f.verbose)
	ui.limited = f.duration > 0
	stop, _, release := interrupts(ui)
	defer release()
	a := attachedTools{ui: ui, options: register.Options{Tool: f.tool, Environment: vars}}
	for _, c := range choice.Targets {
		a.attach(stop, c.PID)
	}
	if len(a.active) > 0 {
		f.notify.attached()
	}
	a.wait(f.notify.until(stop), time.Duration(f.duration))
	return a.detach()
}

// attachedTools are the processes to which a tool is attached.
type attachedTools struct {
	ui      *ui
	options register.Options
	active  []attachedTool
	codes   []failure.ExitCode
	last    *failure.Error // of a process to which it could not attach
}

type attachedTool struct {
	pid     int
	session *register.Session
}

// attach attaches to one process. An error ends the attach to this one only.
func (a *attachedTools) attach(ctx context.Context, pid int) {
	a.options.Environment = withVariable(a.options.Environment, "ROCPROF_ATTACH_PID", fmt.Sprint(pid))
	s, err := watchdog.Do(pid, func() (*register.Session, error) { return register.Attach(ctx, pid, a.options) })
	if err != nil {
		a.failed(failure.Explain("attach AMD's tool to", pid, err, failure.Restored))
		return
	}
	a.active = append(a.active, attachedTool{pid, s})
	a.ui.begin()
	var paused time.Duration
	threads := map[int]bool{}
	for _, p := range s.Report.Pauses {
		paused += p.Time
		threads[p.TID] = true
	}
	a.ui.talk("✓", "attached", "pid %d, %s, %s paused for %s in all", pid, s.Tool, humanize.Things(len(threads), "thread"), humanize.Duration(paused))
}

func (a *attachedTools) failed(f *failure.Error) {
	if a.last != nil {
		a.ui.Failed(a.last)
	}
	a.last = f
	a.codes = append(a.codes, f.Code)
}

// withVariable returns vars with this one at their end.
func withVariable(vars []envbuf.Var, name, value string) []envbuf.Var {
	var others []envbuf.Var
	for _, v := range vars {
		if v.Name != name {
			others = append(others, v)
		}
	}
	return append(others, envbuf.Var{Name: name, Value: value})
}

// wait returns when the window is over: at its end, by a signal, or once all processes have ended.
func (a *attachedTools) wait(stop context.Context, duration time.Duration) {
	if len(a.active) == 0 {
		return
	}
	if duration > 0 {
		var cancel context.CancelFunc
		stop, cancel = context.WithTimeout(stop, duration)
		defer cancel()
	}
	for _, one := range a.active {
		select {
		case <-stop.Done():
			return
		case <-one.session.Lost():
		}
	}
}

// leftWithTool returns the state of a process after a failed detach.
func leftWithTool(err error) string {
	if errors.Is(err, target.ErrGone) {
		return failure.Gone
	}
	return "AMD's tool may still be active in it"
}

// detach detaches from all processes at a time, and returns the exit code, with the last error.
func (a *attachedTools) detach() (failure.ExitCode, error) {
	errs := make([]error, len(a.active))
	var done sync.WaitGroup
	if len(a.active) > 0 {
		a.ui.talk("·", "detaching", "AMD's tool writes its files now")
	}
	for i, one := range a.active {
		done.Go(func() { errs[i] = one.session.Detach() })
	}
	_, stalled := watchdog.Do(0, func() (struct{}, error) { done.Wait(); return struct{}{}, nil })
	if stalled != nil {
		return failure.Failed, stalled
	}
	a.ui.finish()
	for i, one := range a.active {
		if errs[i] != nil {
			a.failed(failure.Explain("detach AMD's tool from", one.pid, errs[i], leftWithTool(errs[i])))
			continue
		}
		a.codes = append(a.codes, failure.OK)
		a.ui.talk("✓", "detached", "pid %d: ROCP_REG_SUCCESS", one.pid)
	}
	code := failure.CombineExitCodes(a.codes)
	if a.last == nil {
		return code, nil
	}
	a.last.Code = code
	return code, a.last
}

// detachTool detaches AMD's tool from a process, whoever has attached it.
func detachTool(pid int, via string, ui *ui) error {
	if via != viaRegister {
		return usageError{fmt.Errorf("--via %q: %s is the only protocol", via, viaRegister)}
	}
	_, err := watchdog.Do(pid, func() (struct{}, error) {
		return struct{}{}, register.DetachFrom(context.Background(), pid, register.Options{})
	})
	if err != nil {
		return failure.Explain("detach AMD's tool from", pid, err, leftWithTool(err))
	}
	ui.talk("✓", "detached", "pid %d: ROCP_REG_SUCCESS", pid)
	return nil
}
