package avail

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// support returns what can be recorded of a kind.
func (in *inspection) support(id ring.Kind) Support {
	switch id {
	case ring.KindHIPRuntimeAPI, ring.KindHIPCompilerAPI:
		return in.calls(id, libHIP, in.hipWay)
	case ring.KindHSACoreAPI, ring.KindHSAAMDExtAPI:
		return in.calls(id, libHSA, func(*library) string { return WayTable })
	case ring.KindRCCLAPI:
		return in.calls(id, libRCCL, func(*library) string { return WayEither })
	case ring.KindMemoryCopy:
		return in.byExport("hsa_amd_memory_async_copy")
	case ring.KindMemoryAllocation:
		return in.byExport("hsa_amd_memory_pool_allocate")
	case ring.KindScratchMemory:
		return in.scratch()
	case ring.KindMarker:
		return in.markers()
	}
	return Support{Result: Unclear, Why: "only an attach can tell"}
}

// calls returns what can be recorded of an API's calls.
func (in *inspection) calls(id ring.Kind, name string, way func(*library) string) Support {
	l := in.loaded[name]
	s := Support{Result: Yes}
	s.Known, s.Exported = l.count(id)
	switch {
	case l == nil:
		s.Result, s.Why = No, name+" is not loaded; a recording has no calls of a library that is loaded while it runs"
	case l.err != nil:
		s.Result, s.Why = Unclear, cannotRead(l)
	case s.Exported == 0:
		s.Result, s.Why = No, name+" exports no function that this version knows"
	default:
		s.Way = way(l)
	}
	if s.Way == WayGOT {
		s.Why = "HIP before 6.0 has no dispatch table: calls by pointers from dlsym are not seen"
	}
	return s
}

func cannotRead(l *library) string {
	return fmt.Sprintf("cannot read %s in its memory: %v", l.path, l.err)
}

// hipWay returns how calls of HIP are intercepted. The dispatch table came with the version that renamed
// hipGetDeviceProperties.
func (in *inspection) hipWay(l *library) string {
	if l.exports("hipGetDevicePropertiesR0600") {
		return WayTable
	}
	return WayGOT
}

// byExport returns what can be recorded of a kind that needs a function of the HSA runtime.
func (in *inspection) byExport(name string) Support {
	l := in.loaded[libHSA]
	switch {
	case l == nil || l.err != nil:
		return in.unreadableRuntime()
	case !l.exports(name):
		return Support{Result: No, Why: "the runtime does not export " + name}
	}
	return Support{Result: Yes}
}

func (in *inspection) unreadableRuntime() Support {
	if l := in.loaded[libHSA]; l != nil {
		return Support{Result: Unclear, Why: cannotRead(l)}
	}
	return Support{Result: Unclear, Why: libHSA + " is mapped without its beginning"}
}

func (in *inspection) markers() Support {
	if in.loaded[libROCTx] == nil && in.loaded[libSDKROCTx] == nil {
		return Support{Result: No, Why: "neither " + libROCTx + " nor " + libSDKROCTx + " is loaded"}
	}
	return Support{Result: Yes}
}

// scratch looks for the runtime's tools table, as the payload does.
func (in *inspection) scratch() Support {
	l := in.loaded[libHSA]
	if l == nil || l.err != nil {
		return in.unreadableRuntime()
	}
	core, known := in.stub(l, "hsa_system_get_info")
	ext, extKnown := in.stub(l, "hsa_amd_agents_allow_access")
	switch {
	case !known || !extKnown:
		return Support{Result: Unclear, Why: "the runtime's dispatch table cannot be found from here"}
	case !in.hasTools(core.Table, ext.Table):
		return Support{Result: No, Why: "the runtime has no tools table: it came with ROCr 6.0"}
	}
	return Support{Result: Yes}
}
