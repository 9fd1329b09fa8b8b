// Package rocprof knows the command line of AMD's rocprofv3: its options that rtl-attach has under the same
// name but for another purpose, or not at all, and the variables by which they reach rocprofiler-sdk's tool.
package rocprof

import (
	"slices"
	"strings"
)

// Takes says what follows an option of rocprofv3's.
type Takes int

const (
	Truth  Takes = iota // nothing, or a word for true or false
	Value               // one word
	Values              // several words
)

// Option is an option of rocprofv3's that rtl-attach does not carry out by itself.
type Option struct {
	Name, Short string
	Takes       Takes
	Why         string // it does not; "": it does always what the option asks for
	Fix         string // what to do instead; "": leave the option out
	Variable    string // of rocprofiler-sdk's tool, for the attach by rocprofiler-register; "": see Variables
}

// ForTool is the fix for options that need rocprofiler-sdk in the process.
const ForTool = "leave it out, or attach AMD's own tool: --via rocprofiler-register (the process must have been started for that)"

const (
	counters = "hardware counters are not read, only times are taken"
	samples  = "the GPU's programs are not sampled"
	threads  = "the GPU's instructions are not traced"
	driver   = "events of the kernel driver are not recorded"
	library  = "calls of this library are not recorded"
	harm     = "these functions are not intercepted: their table lies in memory that hsa_shut_down frees"
	names    = "a trace has each kernel's symbol and its readable name"
	ranks    = "ranks are those of the variables that launchers set"
	markers  = "roctxProfilerPause and roctxProfilerResume are not followed"
	perfetto = "an export writes to its file directly: it has no such buffer"
	install  = "no installation of rocprofiler-sdk is used"
	runs     = "the process runs already"

	fixRanks  = "give the pids of the ranks: -p PID,PID --no-tree; rtl-attach ps shows ranks"
	fixNames  = "choose in a query: rtl-attach report FILE --sql"
	fixAtOnce = "start the program under rocprofv3"
)

// Options are all of them, in rocprofv3's order.
var Options = slices.Concat([]Option{
	{"input", "i", Value, "no input file of rocprofv3's is read", "give its options as flags", ""},
	{"output-config", "", Truth, "no file with the configuration is written", "", "ROCPROF_OUTPUT_CONFIG_FILE"},
	{"log-level", "", Value, "there are no levels", "-v prints each step, -q nothing", "ROCPROF_LOG_LEVEL"},
	{"extra-counters", "E", Value, counters, ForTool, ""},

	{"hip-graph-trace", "", Truth, "launches of graphs are recorded as calls", "--hip-runtime-trace; rtl-attach report finds the replays", "ROCPROF_HIP_GRAPH_TRACE"},
	{"hip-event-trace", "", Truth, "barriers are counted, not recorded", "--hip-runtime-trace records the calls", "ROCPROF_HIP_EVENT_TRACE"},
	{"kfd-trace", "", Truth, driver, ForTool, ""},
	{"ompt-trace", "", Values, "OpenMP loads its tools when a program starts", fixAtOnce, "ROCPROF_OMPT_TRACE"},
	{"kokkos-trace", "", Truth, "Kokkos loads its tools when a program starts", fixAtOnce, ""},
	{"rocdecode-trace", "", Truth, library, ForTool, "ROCPROF_ROCDECODE_API_TRACE"},
	{"rocjpeg-trace", "", Truth, library, ForTool, "ROCPROF_ROCJPEG_API_TRACE"},
	{"rocshmem-trace", "", Truth, library, ForTool, "ROCPROF_ROCSHMEM_API_TRACE"},
	{"hipfile-trace", "", Truth, library, ForTool, "ROCPROF_HIPFILE_API_TRACE"},
	{"hsa-image-trace", "", Truth, harm, ForTool, "ROCPROF_HSA_IMAGE_EXT_API_TRACE"},
	{"hsa-finalizer-trace", "", Truth, harm, ForTool, "ROCPROF_HSA_FINALIZER_EXT_API_TRACE"},
	{"kfd-page-migration-trace", "", Truth, driver, ForTool, "ROCPROF_KFD_PAGE_MIGRATION_TRACE"},
	{"kfd-page-mapping-trace", "", Truth, driver, ForTool, "ROCPROF_KFD_PAGE_MAPPING_TRACE"},
	{"kfd-queue-trace", "", Truth, driver, ForTool, "ROCPROF_KFD_QUEUE_TRACE"},
	{"kfd-dropped-events-trace", "", Truth, driver, ForTool, "ROCPROF_KFD_DROPPED_EVENTS_TRACE"},

	{"pmc", "", Values, counters, ForTool, ""},
	{"replay-mode", "", Value, counters, ForTool, ""},
	{"kernel-replay-beta-enabled", "", Truth, counters, ForTool, ""},
	{"spm-beta-enabled", "", Truth, counters, ForTool, "ROCPROFILER_SPM_BETA_ENABLED"},
	{"spm", "", Values, counters, ForTool, ""},
	{"spm-sample-interval", "", Value, counters, ForTool, "ROCPROF_SPM_SAMPLE_INTERVAL"},
	{"spm-sample-interval-unit", "", Value, counters, ForTool, "ROCPROF_SPM_SAMPLE_INTERVAL_UNIT"},
	{"pc-sampling-beta-enabled", "", Truth, samples, ForTool, "ROCPROFILER_PC_SAMPLING_BETA_ENABLED"},
	{"pc-sampling-unit", "", Value, samples, ForTool, "ROCPROF_PC_SAMPLING_UNIT"},
	{"pc-sampling-method", "", Value, samples, ForTool, "ROCPROF_PC_SAMPLING_METHOD"},
	{"pc-sampling-interval", "", Value, samples, ForTool, "ROCPROF_PC_SAMPLING_INTERVAL"},

	{"stats", "", Truth, "", "", "ROCPROF_STATS"},
	{"summary", "S", Truth, "", "", "ROCPROF_STATS_SUMMARY"},
	{"summary-per-domain", "D", Truth, "", "", "ROCPROF_STATS_SUMMARY_PER_DOMAIN"},
	{"summary-groups", "", Values, "the summary has a part for each kind of record", "rtl-attach report FILE", ""},
	{"summary-output-file", "", Value, "the summary goes to standard output", "redirect it, or rtl-attach report FILE", "ROCPROF_STATS_SUMMARY_OUTPUT"},
	{"summary-units", "u", Value, "each time is printed with its unit", "rtl-attach report FILE --json has nanoseconds", "ROCPROF_STATS_SUMMARY_UNITS"},

	{"mangled-kernels", "M", Truth, names, fixNames, ""},
	{"truncate-kernels", "T", Truth, names, fixNames, "ROCPROF_TRUNCATE_KERNELS"},
	{"kernel-rename", "", Truth, names, "--marker-trace records the ranges", "ROCPROF_KERNEL_RENAME"},

	{"mpi-world-rank-variable", "", Value, ranks, fixRanks, ""},
	{"mpi-world-size-variable", "", Value, ranks, fixRanks, ""},
	{"selected-regions", "", Truth, markers, "--marker-trace records the ranges", "ROCPROF_SELECTED_REGIONS"},
	{"selected-regions-ref-count", "", Truth, markers, "--marker-trace records the ranges", "ROCPROF_SELECTED_REGIONS_REF_COUNT"},

	{"perfetto-backend", "", Value, perfetto, "", "ROCPROF_PERFETTO_BACKEND"},
	{"perfetto-buffer-size", "", Value, perfetto, "", "ROCPROF_PERFETTO_BUFFER_SIZE_KB"},
	{"perfetto-buffer-fill-policy", "", Value, perfetto, "", "ROCPROF_PERFETTO_BUFFER_FILL_POLICY"},
	{"perfetto-shmem-size-hint", "", Value, perfetto, "", "ROCPROF_PERFETTO_SHMEM_SIZE_HINT_KB"},

	{"list-avail", "L", Truth, counters, "rtl-attach avail lists what can be recorded", ""},
	{"group-by-queue", "", Truth, "", "", "ROCPROF_GROUP_BY_QUEUE"},
	{"preload", "", Values, runs, "", ""},
	{"rocm-root", "", Value, install, "", ""},
	{"sdk-soversion", "", Value, install, "", ""},
	{"sdk-version", "", Value, install, "", ""},
	{"readlink", "", Truth, install, "", ""},
	{"realpath", "", Truth, install, "", ""},
	{"suppress-marker-preload", "", Truth, "", "", ""},
	{"echo", "", Truth, "it starts no other command that it could print", "-v prints each step", ""},
	{"benchmark-mode", "", Value, install, "", "ROCPROF_BENCHMARK_MODE"},
	{"agent-index", "A", Value, "GPUs have the numbers of the kernel driver", "", "ROCPROF_AGENT_INDEX"},
	{"disable-signal-handlers", "", Truth, "", "", ""},
	{"process-sync", "", Truth, "no process waits for another one", "", "ROCPROF_PROCESS_SYNC"},
	{"minimum-output-data", "", Value, "a trace is written however small it is", "exit code 7 says that it has nothing", ""},
	{"attach-sync-output", "", Truth, "", "", "ROCPROF_ATTACH_OUTPUT_GENERATION_SYNC"},
	{"attach-library", "", Value, "it attaches with no library of rocprofiler-sdk's", "", ""},
}, threadTrace())

// threadTrace are the options of the thread trace.
func threadTrace() (options []Option) {
	for _, o := range []struct {
		name  string
		takes Takes
		name2 string // of the variable
	}{
		{"advanced-thread-trace", Truth, "ADVANCED_THREAD_TRACE"},
		{"att", Truth, "ADVANCED_THREAD_TRACE"},
		{"att-no-intercept", Truth, "ATT_NO_INTERCEPT"},
		{"att-library-path", Values, "ATT_LIBRARY_PATH"},
		{"att-target-cu", Value, "ATT_PARAM_TARGET_CU"},
		{"att-simd-select", Value, "ATT_PARAM_SIMD_SELECT"},
		{"att-consecutive-kernels", Value, "ATT_CONSECUTIVE_KERNELS"},
		{"att-buffer-size", Value, "ATT_PARAM_BUFFER_SIZE"},
		{"att-resource-mode", Value, "ATT_PARAM_RESOURCE_MODE"},
		{"att-shader-engine-mask", Value, "ATT_PARAM_SHADER_ENGINE_MASK"},
		{"att-gpu-index", Value, "ATT_PARAM_GPU_INDEX"},
		{"att-perfcounters", Value, "ATT_PARAM_PERFCOUNTERS"},
		{"att-perfcounter-ctrl", Value, "ATT_PARAM_PERFCOUNTER_CTRL"},
		{"att-perfcounter-target-only", Truth, "ATT_PARAM_TARGET_ONLY"},
		{"att-activity", Value, ""},
		{"att-serialize-all", Truth, "ATT_PARAM_SERIALIZE_ALL"},
		{"att-no-detail", Truth, "ATT_PARAM_NO_DETAIL"},
	} {
		variable := ""
		if o.name2 != "" {
			variable = "ROCPROF_" + o.name2
		}
		options = append(options, Option{o.name, "", o.takes, threads, ForTool, variable})
	}
	return options
}

// Truths are rocprofv3's words for true and false.
var Truths = map[string]bool{
	"y": true, "yes": true, "t": true, "true": true, "on": true, "1": true,
	"n": false, "no": false, "f": false, "false": false, "off": false, "0": false,
}

// ParseTruth reads one of them, in any case.
func ParseTruth(word string) (is, ok bool) {
	is, ok = Truths[strings.ToLower(word)]
	return is, ok
}
