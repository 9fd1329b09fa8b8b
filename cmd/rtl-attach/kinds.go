package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
)

// kindFlags are the flags that turn kinds of record on.
type kindFlags struct {
	flags      *pflag.FlagSet
	mode       string
	signals    bool     // HSA's frequent signal functions, too
	operations []string // patterns of the functions to record
}

func (k *kindFlags) addTo(flags *pflag.FlagSet) {
	k.flags = flags
	for _, one := range all.Kinds {
		flags.Bool(one.Flag, false, one.Usage)
	}
	for _, s := range all.Sets {
		flags.BoolP(s.Flag, s.Shorthand, false, s.Usage)
	}
	flags.BoolVar(&k.signals, "hsa-signal-trace", false, "record calls of HSA, too, with the frequent ones that load, store and change signals")
	flags.StringSliceVar(&k.operations, "operations", nil, "record calls of these functions only: `NAME[,NAME...]`, also patterns such as 'hipMemcpy*'; without a flag for calls, of any API; may be given again")
	flags.StringVar(&k.mode, "mode", "", "what to record, as rocm-trace-lite's `MODE`: "+modes())
}

// modes describes the modes.
func modes() string {
	var texts []string
	for _, m := range all.Modes {
		texts = append(texts, m.Name+" ("+m.About+")")
	}
	return strings.Join(texts, ", ")
}

func modeNames() (names []string) {
	for _, m := range all.Modes {
		names = append(names, m.Name)
	}
	return names
}

// chosen returns the kinds to record besides kernels, and the payload's RTL_OPERATIONS.
func (k *kindFlags) chosen() (kinds []*kind.Kind, operations string, err error) {
	if kinds, err = k.turnedOn(); err != nil {
		return nil, "", err
	}
	return k.restrict(kinds)
}

// turnedOn returns the kinds that flags turn on. The flag of a kind is stronger than that of a
// set, and a set that is turned off is stronger than one that is turned on.
func (k *kindFlags) turnedOn() (kinds []*kind.Kind, err error) {
	on := map[*kind.Kind]bool{}
	set := func(kinds []*kind.Kind, to bool) {
		for _, one := range kinds {
			on[one] = to
		}
	}
	if k.mode != "" {
		m, known := all.ModeNamed(k.mode)
		if !known {
			return nil, fmt.Errorf("--mode %q: one of %s", k.mode, strings.Join(modeNames(), ", "))
		}
		set(m.Kinds, true)
	}
	for _, to := range []bool{true, false} {
		for _, s := range all.Sets {
			if k.isGiven(s.Flag, to) {
				set(s.Kinds, to)
			}
		}
	}
	if k.signals {
		on[calls.HSACore] = true
	}
	for _, one := range all.Kinds {
		if k.isGiven(one.Flag, false) {
			on[one] = false
		}
		if on[one] || k.isGiven(one.Flag, true) {
			kinds = append(kinds, one)
		}
	}
	return kinds, nil
}

// isGiven reports whether a flag was set to a value.
func (k *kindFlags) isGiven(flag string, to bool) bool {
	f := k.flags.Lookup(flag)
	return f.Changed && f.Value.String() == fmt.Sprint(to)
}
