package session

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/rtl-attach/rtl-attach/internal/cpusample"
	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/python"
)

// observers observes the threads of all recordings' processes (--sample, --sched). It is opened while the tool has its
// privileges. A recording goes on without it. A nil observers observes nothing.
type observers struct {
	options cpusample.Options

	mu     sync.Mutex
	opened bool
	open   *cpusample.Recorder
	err    error // why it observes nothing
}

func newObservers(o cpusample.Options) *observers {
	if !o.Any() {
		return nil
	}
	return &observers{options: o}
}

// recorder returns the recorder, which it opens at the first call. That takes a second of a busy machine: the caller makes it
// before it attaches.
func (o *observers) recorder() (*cpusample.Recorder, error) {
	if o == nil {
		return nil, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.opened {
		o.opened = true
		o.open, o.err = cpusample.Open(o.options)
	}
	return o.open, o.err
}

func (o *observers) close() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open != nil {
		o.open.Close()
		o.open = nil
	}
}

// observed is a process whose threads are observed: *cpusample.Process, *cpusample.Memory, or *cpusample.Perf.
type observed interface {
	Window() cputrace.Window
	Take() cputrace.Batch
	End()   // the observation, at once
	Stop()  // take what there is of it, in a limited time
	Close() // instead of Finish
	Finish(*cputrace.Writer) ([]cputrace.Loss, error)
	Now() (cpusample.Now, error)
	Lost() []cputrace.Loss
	Names(ids map[uint32]bool) []cputrace.Frame
}

// observation is the observation of a process during one session. The recording's goroutine owns it; while the session is
// drained, the drain's goroutine writes.
type observation struct {
	process observed         // nil: it could not begin
	writer  *cputrace.Writer // nil: a flight recorder keeps the rows
	kept    *cputrace.Keeper // nil: they are written at once
	window  cputrace.Window
	begun   bool // the window is in the trace
	err     error
}

// observe begins the observation for a session that is about to be drained, while there are privileges.
func (r *recording) observe(d *drain) {
	if r.observers == nil || d.session == nil && d.flight == nil {
		return
	}
	o := &observation{window: cputrace.Window{BegunNS: boottimeNS(), Method: "none"}}
	if o.err = r.beginObserving(o); o.err == nil {
		o.window = o.process.Window()
	}
	r.observed = append(r.observed, o)
	if d.flight == nil {
		o.writer = cputrace.NewWriter(d.session)
		d.collector.Beside(o.write)
		return
	}
	o.kept = r.flight.KeepBeside(o.window)
	d.collector.Beside(o.keep)
	d.flight.Beside(o.beside)
}

// beginObserving observes by BPF, or, where the kernel has none for this tool, as far as the process's memory or perf events tell. It warns
// if something or all of it is missing.
func (r *recording) beginObserving(o *observation) error {
	recorder, err := r.observers.recorder()
	if err == nil {
		var p *cpusample.Process
		if p, err = recorder.Add(r.Target); err == nil {
			o.process = p
			return nil
		}
	} else if cpusample.HasNoBPF(err) {
		m, memoryErr := cpusample.ObserveMemory(r.Target, r.observers.options)
		if memoryErr == nil {
			o.process = m
			r.ui.Warn("only the Python functions of threads are recorded, and no waits: " + failure.FirstLine(err) + cpuAdvice(err))
			return nil
		}
		p, perfErr := cpusample.ObservePerf(r.Target, r.observers.options)
		if perfErr == nil {
			o.process = p
			r.ui.Warn("only the native stacks of running threads are recorded, by perf events, and no waits: " + failure.FirstLine(err) + cpuAdvice(err))
			return nil
		}
		err = errors.Join(err, perfErr)
		if !errors.Is(memoryErr, python.ErrNone) {
			err = errors.Join(err, memoryErr)
		}
	}
	r.ui.Warn("the threads are not observed: " + failure.FirstLine(err) + cpuAdvice(err))
	return err
}

// write writes what there is since the last call.
func (o *observation) write() error {
	if !o.begun {
		o.begun = true
		if err := o.writer.Begin(o.window); err != nil {
			return err
		}
	}
	if o.process == nil {
		return nil
	}
	rows := o.process.Take()
	return o.writer.Write(&rows)
}

// endObserving ends the observation at the window's end. It takes no time: the detach comes next.
func (r *recording) endObserving() {
	if n := len(r.observed); n > 0 && r.observed[n-1].process != nil {
		r.observed[n-1].process.End()
	}
}

// stopObserving takes what there is of the observation. The detach is done.
func (r *recording) stopObserving() {
	if n := len(r.observed); n > 0 && r.observed[n-1].process != nil {
		r.observed[n-1].process.Stop()
	}
}

// finishObserving completes the rows of all sessions, while there are privileges. The drains are done.
func (r *recording) finishObserving() error {
	if len(r.observed) > 0 {
		r.restorePrivileges()
	}
	var errs []error
	missing, causes := uint64(0), []string(nil)
	for _, o := range r.observed {
		losses, err := o.finish()
		errs = append(errs, err)
		for _, l := range losses {
			missing += l.Events
			causes = append(causes, l.Cause)
		}
	}
	r.observed = nil
	if missing > 0 {
		r.tally.missing += missing
		r.ui.Warn(fmt.Sprintf("what the threads did is not complete: %s lost (%s)", humanize.Things(int64(missing), "event"), strings.Join(causes, "; ")))
	}
	return errors.Join(errs...)
}

func (o *observation) finish() ([]cputrace.Loss, error) {
	if o.kept != nil {
		o.finishKept()
		return nil, nil // each trace says what is missing in it
	}
	if err := o.write(); err != nil {
		if o.process != nil {
			o.process.Stop()
			o.process.Close()
		}
		return nil, err
	}
	if o.process == nil {
		return nil, o.writer.End(o.window.BegunNS, nil, failure.FirstLine(o.err))
	}
	return o.process.Finish(o.writer)
}

// cpuAdvice says what a user can do if threads cannot be observed.
func cpuAdvice(err error) string {
	switch {
	case errors.Is(err, cpusample.ErrNamespace):
		return "; run rtl-attach on the host"
	case errors.Is(err, cpusample.ErrDenied):
		return "; run rtl-attach as root"
	}
	return ""
}
