package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
)

// variant is a way to run a workload.
type variant int

const (
	untraced     variant = iota
	attached             // while rtl-attach records
	withCalls            // while it records calls of HIP and HSA, too
	withThreads          // while it samples threads and records their waits, too
	modeStandard         // while it records a set of kinds
	modeHIP
	runtimeSet
	systemSet
	withFrequent // while it records that set, and HSA's frequent functions
	detached     // in the same process, after it has detached
	windowOff    // in the same process, while a recording by a schedule is between two windows
	peerStandard // another tracer, loaded from the start
	peerLite
	variants
)

// ours is the home of the variants that record.
const ours = "ours"

// settings are what is particular to a variant.
var settings = [variants]struct {
	name  string
	home  string   // name of its process: one with a resident payload is never measured as untraced
	flags []string // of the recording
}{
	untraced:     {"untraced", "untraced", nil},
	attached:     {"rtl-attach", ours, nil},
	withCalls:    {"and calls", ours, []string{"--hip-trace", "--hsa-trace"}},
	withThreads:  {"and threads", ours, []string{"--sample", "cpu:99", "--sched"}},
	modeStandard: {"--mode standard", ours, []string{"--mode", "standard"}},
	modeHIP:      {"--mode hip", ours, []string{"--mode", "hip"}},
	runtimeSet:   {"-r", ours, []string{"-r"}},
	systemSet:    {"-s", ours, []string{"-s"}},
	withFrequent: {"and signals", ours, []string{"-s", "--hsa-signal-trace"}},
	detached:     {"detached", ours, nil},
	windowOff:    {"off, to detached", ours, []string{"--delay", "1h"}},
	peerStandard: {"peer standard", "standard", nil},
	peerLite:     {"peer lite", "lite", nil},
}

func (v variant) String() string { return settings[v].name }

// home returns the name of the process for a variant.
func (v variant) home() string { return settings[v].home }

func (v variant) records() bool { return v.home() == ours && v != detached }

// base returns the variant that a variant is compared with.
func (v variant) base() variant {
	if v == windowOff {
		return detached
	}
	return untraced
}

// measures reports whether a cell is measured in this variant.
func (r *runner) measures(c cell, v variant) bool {
	switch v {
	case detached, windowOff:
		return c.detached
	case withCalls:
		return c.calls
	case withThreads:
		return c.threads
	case modeStandard, modeHIP, runtimeSet, systemSet, withFrequent:
		return c.sets
	case peerStandard, peerLite:
		return r.peer != "" && !c.sets
	}
	return true
}

func (r *runner) environment(v variant) []string {
	env := []string{"LD_PRELOAD=" + filepath.Join(r.build, "libsoftgpu.so")}
	if v == peerStandard || v == peerLite {
		env = append(env, "HSA_TOOLS_LIB="+r.peer, "RTL_MODE="+v.home(),
			"RTL_OUTPUT="+filepath.Join(r.scratch, "peer-%p.db"))
	}
	return env
}

// sample is one measurement.
type sample struct {
	answer   map[string]float64
	cpuNS    float64 // of the process and the tool
	recorded float64 // share of the dispatches that have times in the trace; NaN: not known
	peak     float64 // memory of the tool, in bytes; NaN: it does not run
	lost     float64 // events of threads; NaN: none are recorded
}

// measure runs one cell in one variant.
func (r *runner) measure(c cell, v variant, seconds float64) (sample, error) {
	if c.longer != 0 {
		seconds *= c.longer
	}
	p, err := r.process(c, v)
	if err != nil {
		return sample{}, err
	}
	s, err := r.sample(p, c, v, seconds)
	switch {
	case err != nil:
		return s, fmt.Errorf("%w (%s)", err, r.discard(c, v))
	case c.alone:
		r.discard(c, v)
	default:
		p.awaitQuiet()
	}
	return s, nil
}

func (r *runner) sample(p *process, c cell, v variant, seconds float64) (s sample, err error) {
	s.recorded, s.peak, s.lost = math.NaN(), math.NaN(), math.NaN()
	if !v.records() {
		before := p.cpuNS()
		s.answer, err = p.run(c, seconds)
		if !c.alone {
			p.awaitQuiet() // the cost includes a tracer's later work
		}
		s.cpuNS = p.cpuNS() - before
		return s, err
	}
	awaited := "active"
	if v == windowOff {
		awaited = "off"
	}
	rec, err := r.record(p, awaited, settings[v].flags...)
	if err != nil {
		return s, err
	}
	rec.empty = rec.empty || c.noGPU
	before, toolBefore := p.cpuNS(), rec.cpuNS()
	s.answer, err = p.run(c, seconds)
	s.cpuNS = p.cpuNS() - before
	offNS := rec.cpuNS()
	toolNS, stopErr := rec.stop()
	if err = errors.Join(err, stopErr); err != nil {
		return s, err
	}
	if v == windowOff { // nothing is recorded: its end is no part of the cost, and there is no trace
		s.cpuNS += offNS - toolBefore
		return s, nil
	}
	s.cpuNS += toolNS - toolBefore
	s.recorded, s.peak = recordedShare(p, rec.trace), rec.peakBytes()
	if v == withThreads {
		s.lost = eventsLost(rec.trace)
	}
	if err := os.Remove(rec.trace); !c.noGPU {
		return s, err
	}
	return s, nil
}
