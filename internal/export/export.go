// Package export turns a trace file into the formats of other tools: Perfetto,
// chrome://tracing, TraceLens, spreadsheets, rocmProfileData.
//
// An export streams the trace: its memory does not grow with the dispatches. If a format
// needs an order, SQLite sorts them in temporary files. The trace is untrusted: an export
// leaves out impossible values and counts them, or refuses the trace.
package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/collectives"
	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/steps"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

var (
	// ErrNoSession means that the trace has no session of the requested process.
	ErrNoSession = errors.New("not in this trace")
	// ErrNeedsFile means that the format cannot be written to a pipe.
	ErrNeedsFile = errors.New("needs a file")
)

// Stdout is the output path that means standard output.
const Stdout = "-"

// Format is a kind of output.
type Format struct {
	Name   string
	Suffix string // of the file, instead of the trace's .db
	For    string // the programs that read it

	kinds  []*kind.Kind        // not empty: has only records of these kinds
	write  func(*export) error // nil: SQLite writes the file (rpd.go)
	steps  *steps.Selection    // nil: the whole trace
	filter *filter.Filter      // nil: everything that was recorded

	collectives *collectives.Patterns // nil: collectives.Default
}

// WithCollectives returns the format with other names of collectives' kernels; nil: those of known libraries.
func (f Format) WithCollectives(p *collectives.Patterns) Format {
	f.collectives = p
	return f
}

// Timeline reports whether the format shows steps and collectives.
func (f Format) Timeline() bool { return f.Name == timeline || f.Name == chromeJSON }

// Filtered returns the format with only the kernels and processes that a filter selects.
func (f Format) Filtered(by *filter.Filter) Format {
	f.filter = by
	return f
}

// Formats that do not contain everything.
const (
	rocprofJSON = "rocprofv3" // its readers read one process
	timeline    = "pftrace"
	chromeJSON  = "chrome"
	kernelCSV   = "csv" // without other kinds

	idlePprof, idleFolded, idleSpeedscope = "pprof", "folded", "speedscope" // only idle time, by cause
)

// Formats lists the formats. The first is the default; formats of a single kind are last.
var Formats = append([]Format{
	{timeline, ".pftrace", "ui.perfetto.dev, trace_processor", nil, writePerfetto, nil, nil, nil},
	{chromeJSON, ".json.gz", "chrome://tracing, scripts", nil, writeChrome, nil, nil, nil},
	{rocprofJSON, "_results.json", "TraceLens", nil, writeRocprof, nil, nil, nil},
	{kernelCSV, "_kernel_trace.csv", "spreadsheets, DuckDB; rocprofv3's columns", nil, writeCSV, nil, nil, nil},
	{"rpd", ".rpd", "rocmProfileData's scripts, including the scripts that write", nil, nil, nil, nil, nil},
	{idlePprof, "_idle.pb.gz", "go tool pprof, flame graphs of idle GPU time by cause", nil, writePprof, nil, nil, nil},
	{idleFolded, "_idle.folded", "flamegraph.pl, inferno: the same as text", nil, writeFolded, nil, nil, nil},
	{idleSpeedscope, "_idle.speedscope.json", "speedscope.app: the same", nil, writeSpeedscope, nil, nil, nil},
}, kindFormats()...)

// FormatNamed returns the format with a name.
func FormatNamed(name string) (Format, bool) {
	i := slices.IndexFunc(Formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, false
	}
	return Formats[i], true
}

// OnePerProcess reports whether the format's readers take only the first process of a file.
func (f Format) OnePerProcess() bool { return f.Name == rocprofJSON }

// Streams reports whether the format can be written to standard output.
func (f Format) Streams() bool { return f.write != nil }

// isIdle reports whether the format has only the causes of idle times.
func (f Format) isIdle() bool {
	return f.Name == idlePprof || f.Name == idleFolded || f.Name == idleSpeedscope
}

// hasSubmitted reports whether the format has records that calls submit.
func (f Format) hasSubmitted() bool {
	if f.isIdle() {
		return false
	}
	return len(f.kinds) == 0 || slices.ContainsFunc(f.kinds, func(k *kind.Kind) bool { return k.Export.Submits != "" })
}

// DefaultOutput returns the default path of a trace's export, in the folder of the trace; with
// a pid other than 0, of the export of that process.
func (f Format) DefaultOutput(trace string, pid int64) string {
	base := strings.TrimSuffix(trace, ".db")
	if pid != 0 {
		base += fmt.Sprintf("_%d", pid)
	}
	return base + f.Suffix
}

// Result says what an export contains, and what is missing.
type Result struct {
	Path       string
	Bytes      int64
	Dispatches int64 // written
	LeftOut    int64 // impossible times, or no valid queue, kernel or session
	Causes     int64 // of idle time, written
	Unanswered bool  // threads were not observed: idle time has no stacks
	Kinds      []*KindResult
	Sessions   []Coverage

	made os.FileInfo // of the file at Path
}

// Warnings returns messages about missing data, which must not be mistaken for idle time.
func (r *Result) Warnings(f Format) (warnings []string) {
	switch {
	case r.Written() > 0:
	case len(f.kinds) > 0:
		warnings = append(warnings, fmt.Sprintf("no timed %s is in this trace: record with --%s", f.kinds[0].EventThing(), f.kinds[0].Flag))
	default:
		warnings = append(warnings, "no timed dispatch is in this trace")
	}
	if r.LeftOut > 0 {
		warnings = append(warnings, humanize.Things(r.LeftOut, "dispatch")+" left out: impossible times, or nothing to belong to")
	}
	if n := r.filtered(); n > 0 && !f.showsFiltered() {
		warnings = append(warnings, humanize.Things(n, "kernel")+" filtered out, and not in this format: the time in which they ran is not idle time")
	}
	for _, k := range r.Kinds {
		if k.LeftOut > 0 {
			warnings = append(warnings, humanize.Things(k.LeftOut, k.Kind.EventThing())+" left out: impossible times, or nothing to belong to")
		}
	}
	for _, c := range r.Sessions {
		if !c.Complete() {
			warnings = append(warnings, fmt.Sprintf("session %d (pid %d): %s; what is missing is not idle time", c.Session, c.PID, c))
		}
	}
	if f.OnePerProcess() && len(r.Sessions) > 1 {
		warnings = append(warnings, fmt.Sprintf("%d sessions, an element of rocprofiler-sdk-tool each: TraceLens reads the first only (--pid writes one process)", len(r.Sessions)))
	}
	if r.Unanswered {
		warnings = append(warnings, "what threads did while a GPU was idle is not in this trace: record with --sample cpu:99 --sched")
	}
	if f.Name == kernelCSV || f.write == nil {
		warnings = append(warnings, r.notIn(f)...)
	}
	return warnings
}

// showsFiltered reports whether the format shows when filtered kernels ran.
func (f Format) showsFiltered() bool {
	return len(f.kinds) > 0 || f.Name == timeline || f.Name == chromeJSON || f.isIdle()
}

// filtered returns how many kernels filters left out.
func (r *Result) filtered() (n int64) {
	for _, c := range r.Sessions {
		n = traceread.Sum(n, c.Filtered)
	}
	return n
}

// Written returns the number of exported records of all kinds.
func (r *Result) Written() int64 {
	n := r.Dispatches + r.Causes
	for _, k := range r.Kinds {
		n += k.Written
	}
	return n
}

// notIn names the kinds that a format without all kinds does not contain.
func (r *Result) notIn(f Format) (warnings []string) {
	for _, k := range all.Kinds {
		if f.write == nil && k.Export.RPD != nil {
			continue
		}
		var n int64
		for _, s := range r.Sessions {
			n = traceread.Sum(n, max(0, s.of(k).Timed))
		}
		if n > 0 && k.Export.CSV != nil {
			warnings = append(warnings, humanize.Things(n, k.Thing)+" not in this format: --format "+k.Export.CSV.Format+" writes them")
		}
	}
	return warnings
}

// export is an export in progress.
type export struct {
	ctx    context.Context
	trace  *trace
	w      *bufio.Writer
	result Result

	patterns *collectives.Patterns // of collectives' kernels; nil: collectives.Default
}

// Write exports a trace to a new file or to standard output; with a pid other than 0, only
// that process. It compresses a file whose name ends in .gz. It never overwrites an existing
// file. If it fails, it leaves no file.
func (f Format) Write(ctx context.Context, path, output string, pid int64) (*Result, error) {
	r, err := f.make(ctx, path, output, pid)
	return r, traceread.Explain(err)
}

func (f Format) make(ctx context.Context, path, output string, pid int64) (*Result, error) {
	tr, err := openFiltered(ctx, path, f.filter)
	if err != nil {
		return nil, err
	}
	defer tr.Close()
	if pid != 0 {
		if err := tr.keep(pid); err != nil {
			return nil, err
		}
	}
	if f.steps != nil {
		selected, err := f.steps.Select(ctx, tr.Trace)
		if err != nil {
			return nil, err
		}
		tr.window = selected.Window
	}
	if !f.Streams() {
		return writeRPD(ctx, tr, output)
	}
	if output == Stdout {
		return f.stream(ctx, tr, os.Stdout, false)
	}
	var result *Result
	made, err := makeFile(output, func(file *os.File) (err error) {
		result, err = f.stream(ctx, tr, file, IsCompressed(output))
		return err
	})
	if err != nil {
		return nil, err
	}
	result.Path, result.made = output, made
	return result, nil
}

// stream writes the format to w, compressed or as it is.
func (f Format) stream(ctx context.Context, tr *trace, w io.Writer, compressed bool) (*Result, error) {
	counted := &countingWriter{w: w}
	out := newOutput(counted, compressed)
	e := &export{ctx: ctx, trace: tr, w: out.Writer, patterns: f.collectives}
	var err error
	if f.hasSubmitted() {
		err = tr.linkCalls(ctx)
	}
	if err == nil {
		err = f.write(e)
	}
	if err == nil {
		err = out.finish()
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", f.Name, err)
	}
	e.result.Bytes = counted.bytes
	e.result.LeftOut = tr.leftOut
	e.result.Sessions = tr.coverages()
	return &e.result, nil
}

type countingWriter struct {
	w     io.Writer
	bytes int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.bytes += int64(n)
	return n, err
}
