package all

import (
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/allocations"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/kind/copies"
	"github.com/rtl-attach/rtl-attach/internal/kind/markers"
	"github.com/rtl-attach/rtl-attach/internal/kind/scratch"
)

// Set is several kinds that one flag turns on. The flags are rocprofv3's.
type Set struct {
	Flag, Shorthand, Usage string
	Kinds                  []*kind.Kind
}

// Sets are all sets.
var Sets = []Set{
	{"hip-trace", "", "record calls of HIP, too: --hip-runtime-trace and --hip-compiler-trace", hip},
	{"hsa-trace", "", "record calls of HSA, too: --hsa-core-trace and --hsa-amd-trace", hsa},
	{
		"runtime-trace", "r", "record calls of HIP's runtime API and of RCCL, markers, memory copies, allocations and scratch memory, too",
		[]*kind.Kind{calls.HIPRuntime, calls.RCCL, markers.Kind, copies.Kind, allocations.Kind, scratch.Kind},
	},
	{"sys-trace", "s", "record everything that a flag turns on, except --hsa-signal-trace", productKinds},
}

var (
	hip = []*kind.Kind{calls.HIPRuntime, calls.HIPCompiler}
	hsa = []*kind.Kind{calls.HSACore, calls.HSAAMD}
)

// Mode is a set with rocm-trace-lite's name for it.
type Mode struct {
	Name, About string
	Kinds       []*kind.Kind
}

// Modes are all modes.
var Modes = []Mode{
	{"lite", "kernels", nil},
	{"standard", "and memory copies", []*kind.Kind{copies.Kind}},
	{"hip", "and calls of HIP", append([]*kind.Kind{copies.Kind}, hip...)},
	{"full", "everything", productKinds},
}

// ModeNamed returns the mode with a name.
func ModeNamed(name string) (Mode, bool) {
	i := slices.IndexFunc(Modes, func(m Mode) bool { return m.Name == name })
	if i < 0 {
		return Mode{}, false
	}
	return Modes[i], true
}
