package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/rocprof"
)

// This file has the flags with which a command line for rocprofv3 works here: other names of this tool's own
// flags, and the options that only rocprofiler-sdk can carry out, which are refused with the reason, or passed on
// (via.go).

// aliasOf has the flag of which another one is rocprofv3's name.
var aliasOf = map[string]string{
	"attach": "pid", "attach-duration-msec": "duration", "attach-children": "tree",
	"output-file": "output", "output-directory": "output", "attach-tool-library": "tool-library",
	ranksAlias: filter.Rank,
}

// addAttachAliases adds rocprofv3's names of the flags that select processes and of --duration.
func (f *recordFlags) addAttachAliases(flags *pflag.FlagSet) {
	flags.Var(&f.pids, "attach", "rocprofv3's name of --pid: `N[,N...]`")
	flags.Var((*milliseconds)(&f.duration), "attach-duration-msec", "record for `N` milliseconds: rocprofv3's name of --duration")
	flags.BoolVar(&f.tree, "attach-children", true, "rocprofv3's name of --tree")
	flags.StringVarP(&f.tool, "attach-tool-library", "t", "", "rocprof-attach's name of --tool-library")
	_ = flags.MarkHidden("attach-tool-library")
	addRanksAlias(flags)
}

// addForeign adds the options of rocprofv3's that this tool does not carry out. Help does not show them.
func (f *recordFlags) addForeign(flags *pflag.FlagSet) {
	for _, o := range rocprof.Options {
		g := &foreign{option: o}
		f.foreign = append(f.foreign, g)
		added := flags.VarPF(g, o.Name, o.Short, "rocprofv3's")
		added.Hidden = true
		switch o.Takes {
		case rocprof.Truth:
			added.NoOptDefVal = "true"
		case rocprof.Values:
			takesSeveralWords(added)
		}
	}
}

// ranksAlias is rocprofv3's name of --rank.
const ranksAlias = "profile-mpi-ranks"

func addRanksAlias(flags *pflag.FlagSet) {
	flags.Var(alias{flags, filter.Rank}, ranksAlias, "rocprofv3's name of --rank, with its `LIST`")
}

// alias is the value of a flag that sets another one.
type alias struct {
	flags *pflag.FlagSet
	of    string
}

// Set implements pflag.Value.
func (a alias) Set(text string) error { return a.flags.Set(a.of, text) }

// String implements pflag.Value.
func (a alias) String() string { return "" }

// Type implements pflag.Value.
func (a alias) Type() string { return "alias" }

func takesSeveralWords(f *pflag.Flag) {
	annotate(f, rocprof.SeveralWords)
}

// foreign is the value of an option of rocprofv3's. It implements pflag.Value.
type foreign struct {
	option rocprof.Option
	uses   []string
}

func (g *foreign) Set(text string) error {
	if g.option.Takes == rocprof.Truth {
		is, ok := rocprof.ParseTruth(text)
		if !ok {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		text = strconv.FormatBool(is)
	}
	g.uses = append(g.uses, text)
	return nil
}

func (g *foreign) String() string { return "" }

func (g *foreign) Type() string { return "rocprofv3" }

// givenForeign returns the options of rocprofv3's on the command line.
func (f *recordFlags) givenForeign() (given []rocprof.Given) {
	for _, g := range f.foreign {
		if len(g.uses) > 0 {
			given = append(given, rocprof.Given{Option: g.option, Uses: g.uses})
		}
	}
	return given
}

// refuseForeign explains the first option of rocprofv3's that a recording does not carry out.
func (f *recordFlags) refuseForeign() error {
	for _, g := range f.givenForeign() {
		switch {
		case g.Name == "group-by-queue" && g.IsOff():
			return instead{fmt.Errorf("--%s=false is rocprofv3's: streams of HIP are not recorded, only the queues that they use", g.Name), "leave it out"}
		case g.Why != "" && !g.IsOff():
			return instead{fmt.Errorf("--%s is rocprofv3's, and rtl-attach does not carry it out: %s", g.Name, g.Why), fixOfOption(g.Fix)}
		}
	}
	return nil
}

func fixOfOption(fix string) string {
	if fix == "" {
		return "leave it out"
	}
	return fix
}

// rewriteArguments returns a command line whose flags have the form that pflag reads, if they are those of a
// recording: rocprofv3's take their values in other forms, too.
func rewriteArguments(args []string, recording *pflag.FlagSet) []string {
	switch {
	case len(args) == 0:
		return args
	case args[0] == "record", args[0] == "run" && slices.Contains(args, "--"): // without it, what a flag takes cannot be told from the program
		return slices.Concat(args[:1], rocprof.Rewrite(args[1:], recording))
	case args[0] != "" && args[0][0] == '-':
		return rocprof.Rewrite(args, recording)
	}
	return args
}

// milliseconds is the value of a flag that takes a whole number of milliseconds.
type milliseconds time.Duration

// Set implements pflag.Value.
func (m *milliseconds) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 40)
	if err != nil {
		return fmt.Errorf("%q is not a number of milliseconds", text)
	}
	*m = milliseconds(time.Duration(n) * time.Millisecond)
	return nil
}

// String implements pflag.Value.
func (m *milliseconds) String() string { return "" }

// Type implements pflag.Value.
func (m *milliseconds) Type() string { return "milliseconds" }
