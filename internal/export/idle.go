package export

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
)

// The formats of idle time: each cause of it is a stack whose weight is the time for which GPUs were idle.
// The leaf is the state of the thread.

// idleStacks returns the causes in the exported sessions.
func (e *export) idleStacks() ([]report.IdleStack, error) {
	idle, err := report.IdleStacks(e.trace.Trace, e.trace.window)
	if err != nil {
		return nil, err
	}
	e.result.Unanswered, e.result.Causes, e.trace.leftOut = !idle.Observed, int64(len(idle.Stacks)), idle.LeftOut
	return idle.Stacks, nil
}

// idleFrame is a frame of a stack in these formats.
type idleFrame struct {
	name, file string
	line       int64
}

func frameOf(f whyidle.Frame) idleFrame {
	return idleFrame{sanitize.Text(f.Text()), sanitize.Text(f.File), f.Line}
}

// leafOf returns the frame for the state of a cause.
func leafOf(s *report.IdleStack) idleFrame {
	return idleFrame{name: "[" + sanitize.Text(s.Label()) + "]"}
}

// unknownRoot is the root of stacks that are cut: what has called their outermost frame is not known.
var unknownRoot = idleFrame{name: "[not known]"}

func gpuName(gpu int64) string { return fmt.Sprintf("GPU %d", gpu) }

func threadTitle(t *report.IdleThread) string {
	if t == nil {
		return ""
	}
	if t.Name == "" {
		return fmt.Sprintf("thread %d", t.TID)
	}
	return fmt.Sprintf("%s %d", sanitize.Text(t.Name), t.TID)
}

// text returns the frame for people.
func (f idleFrame) text() string {
	if f.line > 0 {
		return fmt.Sprintf("%s (%s:%d)", f.name, path.Base(f.file), f.line)
	}
	return f.name
}

// writeFolded writes a line for each cause: frames from the outermost on, and ns.
func writeFolded(e *export) error {
	all, err := e.idleStacks()
	if err != nil {
		return err
	}
	for i := range all {
		s := &all[i]
		parts := []string{gpuName(s.GPU)}
		if title := threadTitle(s.Thread); title != "" {
			parts = append(parts, title)
		}
		if s.Cut {
			parts = append(parts, unknownRoot.name)
		}
		for j := len(s.Frames) - 1; j >= 0; j-- {
			parts = append(parts, frameOf(s.Frames[j]).text())
		}
		parts = append(parts, leafOf(s).name)
		for j := range parts {
			parts[j] = strings.ReplaceAll(parts[j], ";", ":")
		}
		if _, err := e.w.WriteString(strings.Join(parts, ";") + " " + strconv.FormatInt(s.NS, 10) + "\n"); err != nil {
			return err
		}
	}
	return nil
}

// writePprof writes a profile of pprof. GPU, process, thread, state and waker are labels: pprof's -tagroot
// and -tagfocus take them.
func writePprof(e *export) error {
	all, err := e.idleStacks()
	if err != nil {
		return err
	}
	p := newPprof(e.trace.Trace)
	for i := range all {
		p.add(&all[i])
	}
	if err := p.out.CheckValid(); err != nil {
		return fmt.Errorf("%w: %w", traceread.ErrImpossible, err)
	}
	return p.out.WriteUncompressed(e.w)
}

// pprof is a profile in the making.
type pprof struct {
	out       *profile.Profile
	locations map[idleFrame]*profile.Location
	mappings  map[string]*profile.Mapping
}

func newPprof(tr *traceread.Trace) *pprof {
	p := &pprof{
		out: &profile.Profile{
			SampleType:        []*profile.ValueType{{Type: "gpu_idle", Unit: "nanoseconds"}, {Type: "causes", Unit: "count"}},
			DefaultSampleType: "gpu_idle",
		},
		locations: map[idleFrame]*profile.Location{}, mappings: map[string]*profile.Mapping{},
	}
	if len(tr.Sessions) > 0 {
		s := tr.Sessions[0]
		if at := s.FromNS(); at > 0 && s.RealtimeOffset > 0 && s.RealtimeOffset < traceread.LatestNS-at {
			p.out.TimeNanos = at + s.RealtimeOffset
		}
		if until := s.UntilNS(); until > s.FromNS() {
			p.out.DurationNanos = until - s.FromNS()
		}
	}
	return p
}

func (p *pprof) add(s *report.IdleStack) {
	one := &profile.Sample{
		Value: []int64{s.NS, max(1, s.Times, s.Samples)},
		Label: map[string][]string{"gpu": {strconv.FormatInt(s.GPU, 10)}, "state": {sanitize.Text(s.Label())}},
	}
	if t := s.Thread; t != nil {
		one.Label["thread"] = []string{threadTitle(t)}
		one.Label["pid"] = []string{strconv.FormatInt(t.PID, 10)}
	}
	if w := s.Waker; w != nil {
		one.Label["waker"] = []string{threadTitle(&w.IdleThread)}
	}
	one.Location = append(one.Location, p.location(leafOf(s), ""))
	for _, f := range s.Frames {
		one.Location = append(one.Location, p.location(frameOf(f), sanitize.Text(f.Library())))
	}
	if s.Cut {
		one.Location = append(one.Location, p.location(unknownRoot, ""))
	}
	p.out.Sample = append(p.out.Sample, one)
}

// location returns the location of a frame in an ELF file; "": in none.
func (p *pprof) location(f idleFrame, library string) *profile.Location {
	if l, known := p.locations[f]; known {
		return l
	}
	fn := &profile.Function{ID: uint64(len(p.out.Function) + 1), Name: f.name, SystemName: f.name, Filename: f.file}
	l := &profile.Location{ID: uint64(len(p.out.Location) + 1), Mapping: p.mapping(library), Line: []profile.Line{{Function: fn, Line: f.line}}}
	p.out.Function, p.out.Location = append(p.out.Function, fn), append(p.out.Location, l)
	p.locations[f] = l
	return l
}

func (p *pprof) mapping(library string) *profile.Mapping {
	m := p.mappings[library]
	if m == nil {
		m = &profile.Mapping{ID: uint64(len(p.out.Mapping) + 1), File: library, HasFunctions: true, HasFilenames: true, HasLineNumbers: true}
		p.mappings[library] = m
		p.out.Mapping = append(p.out.Mapping, m)
	}
	return m
}
