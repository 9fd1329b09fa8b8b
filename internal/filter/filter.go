// Package filter decides which kernels a recording, a report or an export has.
//
// A filter never hides that a kernel ran: the time of a kernel that it leaves out still
// counts as busy, and is counted (decision 27).
package filter

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The settings of a filter, by their flags.
const (
	IncludeRegex   = "kernel-include-regex"
	ExcludeRegex   = "kernel-exclude-regex"
	IterationRange = "kernel-iteration-range"
	GPU            = "gpu"
	Rank           = "rank"
)

// Filter selects kernels. A nil Filter selects all.
type Filter struct {
	include, exclude *regexp.Regexp // nil: none
	iterations       Ranges         // empty: all
	gpus             gpus           // empty: all
	ranks            Ranges         // empty: all
	settings         []Setting
}

// Setting is a part of a filter, as the user gave it.
type Setting struct{ Name, Value string }

// Flag returns the setting as a flag.
func (s Setting) Flag() string { return "--" + s.Name + " " + s.Value }

// New makes a filter of settings. It returns nil without settings. An error names the flag.
func New(settings []Setting) (*Filter, error) {
	f := &Filter{}
	for _, s := range settings {
		if err := f.set(s); err != nil {
			return nil, fmt.Errorf("--%s %q: %w", s.Name, s.Value, err)
		}
		f.settings = append(f.settings, s)
	}
	if len(settings) == 0 {
		return nil, nil
	}
	return f, nil
}

func (f *Filter) set(s Setting) (err error) {
	switch s.Name {
	case IncludeRegex:
		f.include, err = regexp.Compile(s.Value)
	case ExcludeRegex:
		f.exclude, err = regexp.Compile(s.Value)
	case IterationRange:
		f.iterations, err = parseIterations(s.Value)
	case GPU:
		f.gpus, err = parseGPUs(s.Value)
	case Rank:
		f.ranks, err = parseList(s.Value, 0)
	default:
		err = fmt.Errorf("no such filter")
	}
	return err
}

// Settings returns what New was given.
func (f *Filter) Settings() []Setting {
	if f == nil {
		return nil
	}
	return f.settings
}

// OfKernels reports whether the filter leaves out kernels of a recorded process.
func (f *Filter) OfKernels() bool {
	return f != nil && (f.include != nil || f.exclude != nil || len(f.iterations) > 0 || f.gpus.restrict())
}

// OfRanks reports whether the filter leaves out processes.
func (f *Filter) OfRanks() bool { return f != nil && len(f.ranks) > 0 }

// OfIterations reports whether the filter counts the dispatches of each kernel.
func (f *Filter) OfIterations() bool { return f != nil && len(f.iterations) > 0 }

// HasName reports whether the filter keeps a kernel, by its demangled name and its symbol in
// the code object: a regex matches if it matches one of the two. A kernel without a symbol is
// kept, as its name is not known.
func (f *Filter) HasName(name, symbol string) bool {
	symbol = strings.TrimSuffix(symbol, ".kd") // the kernel descriptor's suffix
	if f == nil || symbol == "" {
		return true
	}
	matches := func(re *regexp.Regexp) bool { return re.MatchString(name) || re.MatchString(symbol) }
	return (f.include == nil || matches(f.include)) && (f.exclude == nil || !matches(f.exclude))
}

// HasIteration reports whether the filter keeps the n-th dispatch of a kernel, counted from 1.
func (f *Filter) HasIteration(n uint64) bool {
	return f == nil || len(f.iterations) == 0 || f.iterations.Has(n)
}

// Iterations returns the dispatches of each kernel that the filter keeps; empty: all.
func (f *Filter) Iterations() Ranges { return f.iterations }

// HasGPU reports whether the filter keeps the kernels of a GPU, by its number and its PCI
// address (PCIAddress; negative: not known).
func (f *Filter) HasGPU(number, bdf int64) bool {
	return f == nil || !f.gpus.restrict() || f.gpus.numbers.Has(uint64(max(number, 0))) && number >= 0 ||
		bdf >= 0 && slices.Contains(f.gpus.addresses, bdf)
}

// HasRank reports whether the filter keeps a process, by its rank; negative: it has none.
func (f *Filter) HasRank(rank int64) bool {
	return f == nil || len(f.ranks) == 0 || rank >= 0 && f.ranks.Has(uint64(rank))
}
