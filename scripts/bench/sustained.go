package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	traces "github.com/rtl-attach/rtl-attach/internal/report"
)

// The search for the highest rate begins low and goes up in steps until records are lost.
// From half a million dispatches a second on, a measurement fills the ring several times:
// the recorder must write the trace as fast as the records come.
const (
	sustainedFrom     = 100_000 // dispatches a second
	sustainedStep     = 1.5
	sustainedMost     = 20_000_000
	sustainedSeconds  = 10
	unrecordedSeconds = 3
	sustainedTries    = 2 // attempts at a rate before it counts as too high
	sustainedThreads  = 2
)

// pace is the result at one rate.
type pace struct {
	rate       float64 // dispatches a second that the workload reached
	dispatches int64
	untimed    int64
	lost       int64
	cpu, tool  float64 // ns per dispatch
	mbPerS     float64 // of the trace
}

// keptUp reports whether the workload reached at least 0.8 of the requested rate.
func (p *pace) keptUp(asked float64) bool { return p.rate >= 0.8*asked }

// sustained searches for the highest rate and prints each attempt.
func sustained(r *runner, w io.Writer, short bool) error {
	seconds, from := float64(sustainedSeconds), float64(sustainedFrom)
	if short {
		seconds = 0.5
	}
	m := describeMachine()
	fmt.Fprintf(w, "machine    %d × %s, Linux %s, load %s\n", m.CPUs, m.Model, m.Kernel, m.LoadBefore)
	fmt.Fprintf(w, "simulator  %s; its engine, the workload and the recorder share the CPUs\n", m.simulatorText())
	fmt.Fprintf(w, "method     %g s at each rate, %d submitting threads\n", seconds, sustainedThreads)
	most, err := r.unrecorded(min(seconds, unrecordedSeconds))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "unrecorded %.0f dispatches a second are the highest rate of these threads\n\n", most)
	fmt.Fprintf(w, "%12s%12s%12s%10s%10s%16s%14s%10s\n", "asked /s", "done /s", "dispatches", "untimed", "lost", "process, ns CPU", "tool, ns CPU", "MB/s")
	kept, timed := 0.0, 0.0
	for asked := from; asked < sustainedMost; asked *= sustainedStep {
		p, err := r.sustain(w, asked, seconds)
		if err != nil {
			return err
		}
		if p.lost > 0 {
			break
		}
		kept = max(kept, p.rate)
		if p.untimed == 0 {
			timed = max(timed, p.rate)
		}
		if short || !p.keptUp(asked) {
			break
		}
	}
	fmt.Fprintf(w, "\nno record lost: up to %.0f dispatches a second, ×%.2f of the most unrecorded; every one with its times: up to %.0f\n",
		kept, kept/most, timed)
	if kept == 0 {
		return errors.New("records are lost at the lowest rate")
	}
	return nil
}

// sustain tries a rate until no record is lost, at most sustainedTries times.
func (r *runner) sustain(w io.Writer, asked, seconds float64) (p pace, err error) {
	for range sustainedTries {
		if p, err = r.paced(asked, seconds); err != nil {
			return p, err
		}
		fmt.Fprintf(w, "%12.0f%12.0f%12d%10d%10d%16.0f%14.0f%10.1f\n",
			asked, p.rate, p.dispatches, p.untimed, p.lost, p.cpu, p.tool, p.mbPerS)
		if p.lost == 0 {
			break
		}
	}
	return p, nil
}

func atRate(asked float64) cell {
	return cell{workload: "bench", mode: "paced", line: fmt.Sprintf("run paced %d %%g %.0f", sustainedThreads, asked)}
}

// unrecorded returns the highest rate of a process to which no tool has ever attached.
func (r *runner) unrecorded(seconds float64) (float64, error) {
	s, err := r.measure(atRate(sustainedMost), untraced, seconds)
	return s.answer["rate"], err
}

func (r *runner) paced(asked, seconds float64) (pace, error) {
	c := atRate(asked)
	p, err := r.process(c, attached)
	if err != nil {
		return pace{}, err
	}
	rec, err := r.record(p, "active")
	if err != nil {
		return pace{}, err
	}
	defer func() { _ = os.Remove(rec.trace) }()
	cpu, tool := p.cpuNS(), rec.cpuNS()
	answer, err := p.run(c, seconds)
	cpu = p.cpuNS() - cpu
	toolEnd, stopErr := rec.stop()
	if err := errors.Join(err, stopErr); err != nil {
		return pace{}, err
	}
	out := pace{rate: answer["rate"], cpu: cpu / answer["dispatches"], tool: (toolEnd - tool) / answer["dispatches"]}
	return out, out.account(rec.trace, answer["seconds"])
}

// account reads the trace's own account.
func (p *pace) account(trace string, seconds float64) error {
	s, err := traces.Summarize(trace, 1)
	if err != nil {
		return err
	}
	p.dispatches = s.Coverage.Dispatches
	for _, u := range s.Coverage.Untimed {
		p.untimed += u.Packets
	}
	for _, l := range s.Losses {
		p.lost += l.Records
	}
	p.mbPerS = float64(s.SizeBytes) / seconds / 1e6
	return nil
}
