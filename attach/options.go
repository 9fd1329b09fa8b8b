package attach

import (
	"fmt"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

// Options of a recording. The zero value records kernels until Stop, into trace-PID-TIME.db.
type Options struct {
	Output   string        // path of the trace; %p pid, %h host, %t time; "": trace-%p-%t.db
	Append   bool          // extend the trace at Output, if it exists
	Force    bool          // replace the file at Output, once the trace is complete
	Duration time.Duration // 0: until Stop

	// Kinds are what to record besides kernels, by the names of rtl-attach's flags without "-trace": memory-copy,
	// hip-runtime, marker, … KindNames lists them.
	Kinds []string

	// Sample are clocks of samples of the threads' stacks, and Sched whether to record their waits, as the flags of the same
	// names have them. Both need the privileges for BPF; without them the recording has a warning.
	Sample []string // CLOCK:HZ[,delay=DURATION][,duration=DURATION]
	Sched  bool

	Filter Filter // the kernels and processes to record; the zero value: all

	// Schedule are the windows to record, as the flag --schedule has them: CLOCK:DELAY:ON:REPEAT[,...]; "": from the attach on.
	Schedule   string
	Switchable bool // without a schedule: one window from the attach on, for Session.Disable and Session.Enable
	Keep       Keep // a flight recorder; Output then names its traces, with %n for their number

	BufferBytes uint64 // of shared memory for records, a power of two; 0: 64 MiB
	Watermark   uint64 // wake the recorder when so many percent of the buffer are full, from 1 to 100; 0: 75
	Lossless    bool   // when the buffer is full, take more of the target's memory instead of discarding records
	MaxBytes    uint64 // the recording ends when the trace has so many; 0: there is no limit

	Settings map[string]string // of the payload: RTL_HSA_LIBRARY, …
	Observer Observer          // receives the events; nil: none

	engine *session.Options // all of them, of this module's own command
}

// Engine returns Options for the command rtl-attach, which has flags for more than the fields of Options. Only
// packages of this module can call it.
func Engine(o session.Options, to Observer) Options { return Options{engine: &o, Observer: to} }

// KindNames returns the names for Options.Kinds.
func KindNames() (names []string) {
	for _, k := range all.Kinds {
		names = append(names, kindName(k))
	}
	return names
}

func kindName(k *kind.Kind) string { return strings.TrimSuffix(k.Flag, "-trace") }

// session returns the options as the engine has them.
func (o Options) session() (session.Options, error) {
	if o.engine != nil {
		return *o.engine, nil
	}
	e := session.Options{
		Request:  preflight.Request{Output: o.Output, Append: o.Append, Force: o.Force, Version: "library"},
		Duration: o.Duration, BufferSizeBytes: o.BufferBytes, MaxSizeBytes: o.MaxBytes, KeepPrivileges: true,
	}
	if e.Output == "" {
		e.Output = preflight.DefaultOutput
	}
	if o.Lossless {
		e.BufferPolicy = "lossless"
	}
	output := e.Output
	if o.Keep.Last != 0 {
		output = strings.ReplaceAll(output, "%n", "1")
	}
	switch unknown := preflight.UnknownPlaceholder(output); {
	case unknown != "":
		return e, usage("output %q: %s is no placeholder", e.Output, unknown)
	case o.Append && o.Force:
		return e, usage("append or force, not both")
	case o.Duration < 0:
		return e, usage("the duration %s is negative", o.Duration)
	case o.Watermark > 100:
		return e, usage("a watermark of %d percent", o.Watermark)
	}
	if o.Watermark > 0 {
		e.WatermarkPercent = o.Watermark
	}
	for _, name := range o.Kinds {
		k := kindNamed(name)
		if k == nil {
			return e, usage("no kind of record is named %q: %s", name, strings.Join(KindNames(), ", "))
		}
		e.Kinds = append(e.Kinds, k)
	}
	var err error
	if e.Filter, err = o.Filter.compile(); err != nil {
		return e, usage("filter: %v", err)
	}
	e.Threads.Scheduling = o.Sched
	for _, clock := range o.Sample {
		if err := e.Threads.Sample(clock, time.ParseDuration); err != nil {
			return e, usage("sample %q: %v", clock, err)
		}
	}
	if err := o.control(&e); err != nil {
		return e, err
	}
	for name, value := range o.Settings {
		e.Extra = append(e.Extra, envbuf.Var{Name: name, Value: value})
	}
	if _, err := envbuf.Resolve(e.Extra); err != nil {
		return e, usage("settings: %v", err)
	}
	return e, nil
}

func kindNamed(name string) *kind.Kind {
	for _, k := range all.Kinds {
		if kindName(k) == name {
			return k
		}
	}
	return nil
}

// usage returns the error for options that contradict each other, or mean nothing.
func usage(format string, args ...any) *Error {
	text := fmt.Sprintf(format, args...)
	return &Error{What: text, Cause: text, Fix: "see the documentation of attach.Options", Target: "not touched", Code: Usage}
}
