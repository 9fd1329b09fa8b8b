package rocprof

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/kind"
)

// Given is an option with the texts of its uses, in their order. A Truth has the text "true" or "false".
type Given struct {
	Option
	Uses []string
}

// last returns the text of the last use, which wins.
func (g Given) last() string { return g.Uses[len(g.Uses)-1] }

// IsOff reports whether the option is turned off, or names nothing.
func (g Given) IsOff() bool {
	return g.Takes == Truth && g.last() == "false" || g.Takes == Values && strings.Join(g.Uses, "") == "" && g.Name != "ompt-trace"
}

// Variables returns the variables by which rocprofv3 passes the option to rocprofiler-sdk's tool. ok is false for
// options that only rocprofv3 itself understands.
func (g Given) Variables() (vars []envbuf.Var, ok bool) {
	one := func(name, value string) ([]envbuf.Var, bool) { return []envbuf.Var{{Name: name, Value: value}}, true }
	switch {
	case g.Takes == Values && g.IsOff():
		return nil, true
	case g.Name == "pmc":
		return counterVariables(g.Uses), true
	case g.Name == "spm":
		return []envbuf.Var{
			{Name: "ROCPROFILER_SPM_BETA_ENABLED", Value: "1"},
			{Name: "ROCPROF_SPM_COUNTER_COLLECTION", Value: "1"},
			{Name: "ROCPROF_SPM_COUNTERS", Value: "spm: " + strings.Join(strings.FieldsFunc(g.last(), isSeparator), " ")},
		}, true
	case g.Name == "kfd-trace":
		for _, name := range []string{"PAGE_MIGRATION", "PAGE_MAPPING", "QUEUE", "DROPPED_EVENTS"} {
			vars = append(vars, envbuf.Var{Name: "ROCPROF_KFD_" + name + "_TRACE", Value: truthDigit(g.last())})
		}
		return vars, true
	case g.Name == "mangled-kernels":
		return one("ROCPROF_DEMANGLE_KERNELS", truthDigit(strconv.FormatBool(g.last() != "true")))
	case g.Name == "disable-signal-handlers":
		return one("ROCPROF_SIGNAL_HANDLERS", truthDigit(strconv.FormatBool(g.last() != "true")))
	case g.Name == "minimum-output-data":
		kilobytes, err := strconv.ParseUint(g.last(), 10, 32)
		if err != nil {
			return nil, false
		}
		return one("ROCPROF_MINIMUM_OUTPUT_BYTES", fmt.Sprint(kilobytes<<10))
	case g.Name == "ompt-trace":
		return omptVariables(g.last()), true
	case g.Variable == "":
		return nil, false
	case g.Takes == Truth:
		return one(g.Variable, truthDigit(g.last()))
	}
	return one(g.Variable, g.last())
}

func isSeparator(r rune) bool { return r == ',' || r == ' ' }

func truthDigit(text string) string {
	if text == "true" {
		return "1"
	}
	return "0"
}

// counterVariables selects counters: one group for the whole time, or one group after the other.
func counterVariables(groups []string) []envbuf.Var {
	vars := []envbuf.Var{{Name: "ROCPROF_COUNTER_COLLECTION", Value: "1"}}
	if len(groups) == 1 {
		return append(vars, envbuf.Var{Name: "ROCPROF_COUNTERS", Value: "pmc: " + groups[0]})
	}
	return append(vars, envbuf.Var{Name: "ROCPROF_COUNTER_GROUPS", Value: "pmc: " + strings.Join(groups, "\npmc: ")})
}

func omptVariables(categories string) []envbuf.Var {
	is, ok := ParseTruth(categories)
	switch {
	case ok && !is:
		return nil
	case ok, categories == "", categories == "all":
		return []envbuf.Var{{Name: "ROCPROF_OMPT_TRACE", Value: "1"}}
	}
	return []envbuf.Var{
		{Name: "ROCPROF_OMPT_TRACE", Value: "1"},
		{Name: "ROCPROF_OMPT_TRACE_OPERATIONS", Value: strings.Join(strings.Fields(categories), ",")},
	}
}

// kindVariables are the variables that turn a kind of record on in rocprofiler-sdk's tool, by the kind's name.
var kindVariables = map[string]string{
	"memory-copy":       "MEMORY_COPY",
	"hip-runtime-api":   "HIP_RUNTIME_API",
	"hip-compiler-api":  "HIP_COMPILER_API",
	"hsa-core-api":      "HSA_CORE_API",
	"hsa-amd-ext-api":   "HSA_AMD_EXT_API",
	"rccl-api":          "RCCL_API",
	"memory-allocation": "MEMORY_ALLOCATION",
	"scratch-memory":    "SCRATCH_MEMORY",
	"marker":            "MARKER_API",
}

// KernelTrace is the variable that turns kernels on.
const KernelTrace = "ROCPROF_KERNEL_TRACE"

// ForKinds returns the variables that turn kernels and these kinds of record on.
func ForKinds(kinds []*kind.Kind) []envbuf.Var {
	vars := []envbuf.Var{{Name: KernelTrace, Value: "1"}}
	for _, k := range kinds {
		if name := kindVariables[k.ID.String()]; name != "" {
			vars = append(vars, envbuf.Var{Name: "ROCPROF_" + name + "_TRACE", Value: "1"})
		}
	}
	return vars
}
