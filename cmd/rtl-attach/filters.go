package main

import (
	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/filter"
)

// filterFlags are the flags that leave kernels out of a recording, a report or an export.
type filterFlags struct {
	flags *pflag.FlagSet
	names []string
}

// filterUsage has the flags in the order of the help.
var filterUsage = []struct{ name, usage string }{
	{filter.IncludeRegex, "keep only kernels whose demangled or mangled name matches `REGEX` (RE2); the time of others still counts as busy"},
	{filter.ExcludeRegex, "leave out kernels whose demangled or mangled name matches `REGEX`; their time still counts as busy"},
	{filter.IterationRange, "of each kernel name, keep the N-th to M-th dispatches since the window's begin: `[N-M],...`"},
	{filter.GPU, "keep only the kernels of these GPUs: `LIST` of the process's numbers or of PCI addresses, such as 0,2-3,83:00.0"},
}

const rankUsage = "%s the processes with these ranks: `LIST` such as 0,2-3; a launcher gives ranks in RANK, OMPI_COMM_WORLD_RANK, LOCAL_RANK or the like"

// addTo adds the filters of kernels.
func (f *filterFlags) addTo(flags *pflag.FlagSet) {
	f.flags = flags
	for _, one := range filterUsage {
		flags.String(one.name, "", one.usage)
		f.names = append(f.names, one.name)
	}
	takesSeveralWords(flags.Lookup(filter.IterationRange))
}

// addRank adds the filter of processes.
func (f *filterFlags) addRank(flags *pflag.FlagSet, usage string) {
	f.flags = flags
	flags.String(filter.Rank, "", usage)
	f.names = append(f.names, filter.Rank)
}

// filter returns the filter that the flags describe; nil: none.
func (f *filterFlags) filter() (*filter.Filter, error) {
	var settings []filter.Setting
	for _, name := range f.names {
		if one := f.flags.Lookup(name); one.Changed {
			settings = append(settings, filter.Setting{Name: name, Value: one.Value.String()})
		}
	}
	return filter.New(settings)
}
