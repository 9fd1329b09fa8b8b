package attach

import (
	"regexp"

	"github.com/rtl-attach/rtl-attach/internal/filter"
)

// Filter leaves kernels and processes out of a recording. The zero value leaves out nothing. The time of a kernel
// that is left out still counts as busy, and the trace has their number (Result.Left).
type Filter struct {
	Include *regexp.Regexp // only kernels whose demangled or mangled name matches; nil: all
	Exclude *regexp.Regexp // no kernels whose demangled or mangled name matches; nil: none

	// Iterations are the dispatches of each kernel name to keep, counted from the window's begin, such as "[1-100],[500]"; "": all.
	Iterations string
	// GPUs are the GPUs whose kernels to keep: numbers of the process, or PCI addresses, such as "0,2-3,83:00.0"; "": all.
	GPUs string
	// Ranks are the processes to record, by the ranks that their launcher gave them, such as "0,2-3"; "": all.
	Ranks string
}

// compile returns the filter as the engine has it; nil: it leaves out nothing.
func (f Filter) compile() (*filter.Filter, error) {
	var settings []filter.Setting
	add := func(name, value string) {
		if value != "" {
			settings = append(settings, filter.Setting{Name: name, Value: value})
		}
	}
	pattern := func(re *regexp.Regexp) string {
		if re == nil {
			return ""
		}
		return re.String()
	}
	add(filter.IncludeRegex, pattern(f.Include))
	add(filter.ExcludeRegex, pattern(f.Exclude))
	add(filter.IterationRange, f.Iterations)
	add(filter.GPU, f.GPUs)
	add(filter.Rank, f.Ranks)
	return filter.New(settings)
}
