// Package calls has the kinds of record of API calls: HIP's runtime and compiler API, HSA's core
// API and AMD's extension of it, and RCCL's. They differ in their functions only; package function has those.
package calls

import (
	_ "embed"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

//go:generate go run ../../ring/genabi

//go:embed schema.sql
var schema string

//go:embed rocpd_api.sql
var rocpdAPI string

// api is what is particular to one of the kinds.
type api struct {
	id     ring.Kind
	thing  string // what one record is for people
	label  string // of its section in a report
	tables string // the names of its CSV tables begin with it
	flag   string
	usage  string

	domain     string // rocprofiler-sdk's name, with which a CSV's lines begin
	array      string // rocprofv3's JSON
	bufferKind int64  // ROCPROFILER_BUFFER_TRACING_ and the domain
	track      string // name of a track, before its thread
	csv        *kind.CSV
}

// The kinds.
var (
	HIPRuntime = newKind(&api{
		id: ring.KindHIPRuntimeAPI, thing: "HIP call", label: "HIP calls", tables: "hip",
		flag: "hip-runtime-trace", usage: "record calls of HIP's functions, too",
		domain: "HIP_RUNTIME_API", array: "hip_api", bufferKind: 5, track: "HIP calls", csv: hipCSV,
	})
	HIPCompiler = newKind(&api{
		id: ring.KindHIPCompilerAPI, thing: "HIP compiler call", label: "HIP compiler calls", tables: "hip-compiler",
		flag: "hip-compiler-trace", usage: "record calls of HIP's functions that only compilers use (__hip…), too",
		domain: "HIP_COMPILER_API", array: "hip_api", bufferKind: 6, track: "HIP compiler calls", csv: hipCSV,
	})
	HSACore = newKind(&api{
		id: ring.KindHSACoreAPI, thing: "HSA call", label: "HSA calls", tables: "hsa",
		flag: "hsa-core-trace", usage: "record calls of HSA's functions, too, without the frequent ones",
		domain: "HSA_CORE_API", array: "hsa_api", bufferKind: 1, track: "HSA calls", csv: hsaCSV,
	})
	HSAAMD = newKind(&api{
		id: ring.KindHSAAMDExtAPI, thing: "HSA extension call", label: "HSA extension calls", tables: "hsa-amd",
		flag: "hsa-amd-trace", usage: "record calls of AMD's extension of HSA (hsa_amd_…), too",
		domain: "HSA_AMD_EXT_API", array: "hsa_api", bufferKind: 2, track: "HSA extension calls", csv: hsaCSV,
	})
	RCCL = newKind(&api{
		id: ring.KindRCCLAPI, thing: "RCCL call", label: "RCCL calls", tables: "rccl",
		flag: "rccl-trace", usage: "record calls of RCCL's functions (ncclAllReduce, …), too",
		domain: "RCCL_API", array: "rccl_api", bufferKind: 14, track: "RCCL calls", csv: rcclCSV,
	})
)

// newKind returns the kind of an API. The first one has the schema of all.
func newKind(a *api) *kind.Kind {
	k := &kind.Kind{
		ID: a.id, Thing: a.thing, Flag: a.flag, Usage: a.usage,
		Tables:     []string{"rtl_function", "rtl_call", "rtl_call_coverage"},
		Describes:  []ring.Type{a.id.Type(typeCoverage)},
		NewDecoder: a.newDecoder,
		Read:       a.read,
		CSV:        a.csvTables(),
		Export:     a.export(),
	}
	if a.id == ring.KindHIPRuntimeAPI {
		k.Schema = schema
		k.Calls = tracedb.ShownCalls{Table: callTable.Name, SQL: rocpdAPI}
	}
	return k
}
