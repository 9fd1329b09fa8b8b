package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// apiKinds returns the kinds of API calls among kinds.
func apiKinds(kinds []*kind.Kind) []*kind.Kind {
	with := function.NewSet(func(*function.Function) bool { return true }).Kinds()
	return slices.DeleteFunc(slices.Clone(kinds), func(k *kind.Kind) bool { return !with[k.ID] })
}

// restrict applies --operations and --hsa-signal-trace to the kinds that the other flags turn on. It returns
// the kinds to record, and the payload's RTL_OPERATIONS. If no flag turns a kind of calls on, the patterns turn
// on those of their functions. A kind of calls without a function that a pattern names is not recorded.
func (k *kindFlags) restrict(kinds []*kind.Kind) ([]*kind.Kind, string, error) {
	if !k.flags.Changed("operations") {
		if !k.signals || !slices.Contains(kinds, calls.HSACore) {
			return kinds, "", nil
		}
		return kinds, function.NewSet(func(f *function.Function) bool { return f.When != function.Never }).Digits(), nil
	}
	apis := apiKinds(kinds)
	if len(apis) == 0 {
		apis = slices.DeleteFunc(apiKinds(all.Kinds), func(a *kind.Kind) bool { return k.isGiven(a.Flag, false) })
	}
	named, err := namedFunctions(k.operations, apis)
	if err != nil {
		return nil, "", err
	}
	wanted := named.Kinds()
	restricted := slices.DeleteFunc(slices.Clone(all.Kinds), func(one *kind.Kind) bool {
		isAPI := slices.Contains(apis, one)
		return isAPI && !wanted[one.ID] || !isAPI && !slices.Contains(kinds, one)
	})
	return restricted, named.Digits(), nil
}

// namedFunctions returns the functions of the APIs that the patterns name. Each pattern must name at least one.
func namedFunctions(patterns []string, apis []*kind.Kind) (function.Set, error) {
	if len(patterns) == 0 {
		return nil, errors.New("--operations: a function's name is needed")
	}
	recorded := map[ring.Kind]bool{}
	for _, a := range apis {
		recorded[a.ID] = true
	}
	named := make(function.Set, len(function.Table()))
	for _, pattern := range patterns {
		matching, err := function.Matching(strings.TrimSpace(pattern))
		if err != nil {
			return nil, fmt.Errorf("--operations %q: not a pattern such as hipMemcpy*", pattern)
		}
		found := false
		for i, in := range matching {
			if f := &function.Table()[i]; in && recorded[f.Kind] && f.When != function.Never {
				named[i], found = true, true
			}
		}
		if !found {
			return nil, noFunction(pattern, matching, apis)
		}
	}
	return named, nil
}

// noFunction explains why a pattern names no function that can be recorded.
func noFunction(pattern string, matching function.Set, apis []*kind.Kind) error {
	for i, in := range matching {
		f := &function.Table()[i]
		if !in || f.When == function.Never {
			continue
		}
		flag := "--" + all.Named(f.Kind.String()).Flag
		return mistyped{fmt.Errorf("--operations %q: %s is not recorded: the flags turn on only %s", pattern, f.Name, flagsOf(apis)), flag}
	}
	if i := slices.Index(matching, true); i >= 0 {
		return fmt.Errorf("--operations %q: %s cannot be intercepted without harm to the process", pattern, function.Table()[i].Name)
	}
	return mistyped{fmt.Errorf("--operations %q: no function of %s has such a name", pattern, flagsOf(apis)), functionMeant(pattern)}
}

func flagsOf(kinds []*kind.Kind) string {
	var flags []string
	for _, k := range kinds {
		flags = append(flags, "--"+k.Flag)
	}
	return strings.Join(flags, ", ")
}

// functionMeant returns what the user can type instead of a name that no function has; "": nothing similar.
func functionMeant(name string) string {
	if newer, deprecated := function.NewerName(name); deprecated {
		return newer
	}
	names := functionNames()
	if name != "" && slices.ContainsFunc(names, func(known string) bool { return strings.HasPrefix(known, name) }) {
		return "'" + name + "*'"
	}
	return nearest(name, names)
}

func functionNames() (names []string) {
	for i := range function.Table() {
		if f := &function.Table()[i]; f.When != function.Never {
			names = append(names, f.Name)
		}
	}
	return names
}

// completeOperations offers the functions for the last name of a list.
func completeOperations(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := begun[:strings.LastIndexByte(begun, ',')+1]
	var lists []cobra.Completion
	for _, name := range functionNames() {
		if strings.HasPrefix(before+name, begun) {
			lists = append(lists, before+name)
		}
	}
	return lists, cobra.ShellCompDirectiveNoFileComp
}
