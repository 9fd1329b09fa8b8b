package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
)

// A variant is a way to run a workload.
type variant int

const (
	untraced     variant = iota
	attached             // while rtl-attach records
	detached             // in the same process, after it has detached
	peerStandard         // another tracer, loaded from the start
	peerLite
	variants
)

func (v variant) String() string {
	return [variants]string{"untraced", "rtl-attach", "detached", "peer standard", "peer lite"}[v]
}

// has says whether a cell is measured in this variant.
func (l *lab) has(c cell, v variant) bool {
	switch v {
	case detached:
		return c.detached
	case peerStandard, peerLite:
		return l.peer != ""
	}
	return true
}

// home names the process that a variant is measured in: what was once attached
// to is never "untraced" again.
func (v variant) home() string {
	return [variants]string{"untraced", "ours", "ours", "standard", "lite"}[v]
}

func (l *lab) environment(v variant) []string {
	env := []string{"LD_PRELOAD=" + filepath.Join(l.build, "libsoftgpu.so")}
	if v == peerStandard || v == peerLite {
		env = append(env, "HSA_TOOLS_LIB="+l.peer, "RTL_MODE="+v.home(),
			"RTL_OUTPUT="+filepath.Join(l.scratch, "peer-%p.db"))
	}
	return env
}

// A sample is one measurement.
type sample struct {
	answer   map[string]float64
	cpuNS    float64 // of the process and the tool
	recorded float64 // share of the dispatches that have times in the trace; NaN: not ours
}

// measure runs one cell in one variant.
func (l *lab) measure(c cell, v variant, seconds float64) (sample, error) {
	if c.longer != 0 {
		seconds *= c.longer
	}
	p, err := l.process(c, v)
	if err != nil {
		return sample{}, err
	}
	s, err := l.sample(p, c, v, seconds)
	switch {
	case err != nil:
		return s, fmt.Errorf("%w (%s)", err, l.discard(c, v))
	case c.alone:
		l.discard(c, v)
	default:
		p.awaitQuiet()
	}
	return s, nil
}

func (l *lab) sample(p *process, c cell, v variant, seconds float64) (s sample, err error) {
	s.recorded = math.NaN()
	if v != attached {
		before := p.cpuNS()
		s.answer, err = p.run(c, seconds)
		if !c.alone {
			p.awaitQuiet() // what a tracer does later is its cost, too
		}
		s.cpuNS = p.cpuNS() - before
		return s, err
	}
	rec, err := l.record(p)
	if err != nil {
		return s, err
	}
	before, toolBefore := p.cpuNS(), rec.cpuNS()
	s.answer, err = p.run(c, seconds)
	s.cpuNS = p.cpuNS() - before
	toolNS, stopErr := rec.stop()
	if err = errors.Join(err, stopErr); err != nil {
		return s, err
	}
	s.cpuNS += toolNS - toolBefore
	s.recorded = recordedShare(p, rec.trace)
	return s, errors.Join(err, os.Remove(rec.trace))
}
