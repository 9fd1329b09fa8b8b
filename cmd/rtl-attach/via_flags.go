package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
)

// This file says which flags of a recording go with --via. Each flag is carried out, or refused with the reason.

// withTool are the flags that have a meaning for a tool of AMD's, besides those of kinds and rocprofv3's options.
var withTool = []string{
	"pid", "attach", "name", "tree", "no-tree", "attach-children", "yes", filter.Rank, ranksAlias,
	"duration", "attach-duration-msec", "quiet", "verbose", "notify-fd",
	"via", "tool-library", "attach-tool-library", "set",
	"output-file", "output-directory", "output-format", "kernel-trace", "mode",
	filter.IncludeRegex, filter.ExcludeRegex, filter.IterationRange,
}

const (
	ownFiles     = "AMD's tool records, and writes its own files"
	allGPUs      = "AMD's tool records the kernels of all GPUs of a process"
	allFunctions = "AMD's tool records all functions of an API"
	oneWindow    = "AMD's tool has no windows in a process to which it is attached"
	noRecorder   = "AMD's tool keeps no last records to write at a trigger"
	noCommands   = "AMD's tool takes no commands while it records"
	noThreads    = "AMD's tool does not observe threads"
)

// whyNotWithTool has the reasons for the other flags; without one it is ownFiles.
var whyNotWithTool = map[string]string{
	filter.GPU:   allGPUs,
	"operations": allFunctions, "hsa-signal-trace": allFunctions,
	"delay": oneWindow, "collection-period": oneWindow, "collection-period-unit": oneWindow, "schedule": oneWindow,
	"keep-last": noRecorder, "keep-size": noRecorder, "keep-after": noRecorder, "trigger": noRecorder, "max-triggers": noRecorder,
	"control": noCommands,
	"sample":  noThreads, "sched": noThreads,
}

// refuseWithTool explains the first flag that --via does not carry out.
func (f recordFlags) refuseWithTool() (err error) {
	f.known.Visit(func(flag *pflag.Flag) {
		if err != nil || f.goesWithTool(flag) {
			return
		}
		why, known := whyNotWithTool[flag.Name]
		if !known {
			why = ownFiles
		}
		err = instead{fmt.Errorf("--%s does not apply to --via %s: %s", flag.Name, viaRegister, why), "leave it out, or record without --via"}
	})
	return err
}

func (f recordFlags) goesWithTool(flag *pflag.Flag) bool {
	if _, is := flag.Value.(*foreign); is || slices.Contains(withTool, flag.Name) {
		return true
	}
	if flag.Name == "measure-cost" {
		return f.cost == 0 // there are no rates to compare
	}
	for _, k := range all.Kinds {
		if k.Flag == flag.Name {
			return true
		}
	}
	return slices.ContainsFunc(all.Sets, func(s all.Set) bool { return s.Flag == flag.Name })
}
