package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// cell is one measurement: the command to a workload, and the metrics from its answer.
type cell struct {
	workload string
	flags    []string
	env      []string
	mode     string  // of the workload, for -only
	line     string  // the command, with %g for the seconds; a server gets none
	alone    bool    // the workload is never idle: start it for each measurement
	longer   float64 // factor for the length of the measurement; 0: 1
	metrics  []metric
	detached bool // measured after a detach, too
	calls    bool // measured while calls are recorded, too
	sets     bool // measured with each set of kinds, too
	threads  bool // measured while threads are observed, too
	noGPU    bool // it dispatches nothing
}

// metric is one figure of a cell: a row of the report.
type metric struct {
	group, name string
	get         func(sample) float64
	scale       float64   // 0: 1
	in          []variant // that must have a value; nil: untraced and attached
}

func value(key string) func(sample) float64 {
	return func(s sample) float64 { return s.answer[key] }
}

// cpuPer returns the CPU time of the process and the tool for each unit of work.
func cpuPer(work string) func(sample) float64 {
	return func(s sample) float64 { return s.cpuNS / s.answer[work] }
}

const micro = 1e-3

// plan lists all measurements.
func plan() []cell {
	var cells []cell
	for _, threads := range []int{1, 4, 16} {
		cells = append(cells,
			perDispatch("idle-burst", threads, "ns per dispatch, engine idle"),
			perDispatch("idle-signal", threads, "ns per dispatch, engine idle, own signal re-armed"),
			perDispatch("burst", threads, "ns per dispatch, engine busy"),
			perDispatch("signal", threads, "ns per dispatch, engine busy, own signal re-armed"),
			throughput("loop", threads, "without signals"),
			throughput("loop-signal", threads, "own signals re-armed"))
	}
	cells = append(cells, latency("latency", "completion seen by the application, µs"),
		latency("slow", "the same with a 300 ms kernel on another queue, µs"))
	for _, streams := range []int{1, 4, 16} {
		cells = append(cells, launches(streams))
	}
	for _, threads := range []int{1, 4} {
		cells = append(cells, calling(hipCall, threads))
	}
	return append(cells, server("100", "at 600 requests/s"), server("100000", "as fast as it can"), engine(), switches())
}

// setsPlan lists what is measured with each set of kinds. build may have no ROCTx.
func setsPlan(build string) []cell {
	functions := []function{hipCall, hsaCall, hotCall, rcclCall, allocation}
	if _, err := os.Stat(filepath.Join(build, "roctx", "libroctx64.so.4")); err == nil {
		functions = append(functions, marker)
	}
	var cells []cell
	for _, what := range functions {
		for _, threads := range []int{1, 4} {
			cells = append(cells, calling(what, threads))
		}
	}
	for _, streams := range []int{1, 4} {
		cells = append(cells, launches(streams))
	}
	cells = append(cells, server("100", "at 600 requests/s"), server("100000", "as fast as it can"))
	for i := range cells {
		cells[i].calls, cells[i].threads, cells[i].sets, cells[i].detached = false, false, true, !cells[i].alone
	}
	return cells
}

func threadsText(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}

func perDispatch(mode string, threads int, group string) cell {
	return cell{
		workload: "bench", mode: mode, line: fmt.Sprintf("run %s %d %%g", mode, threads),
		metrics:  []metric{{group: group, name: threadsText(threads), get: value("p50_ns")}},
		detached: mode == "idle-burst" || mode == "idle-signal",
	}
}

// throughput measures for longer than the ring takes to fill.
func throughput(mode string, threads int, name string) cell {
	name = threadsText(threads) + ", " + name
	return cell{
		workload: "bench", mode: mode, line: fmt.Sprintf("run %s %d %%g", mode, threads), longer: 3, detached: true,
		metrics: []metric{
			{group: "whole loop, thousand dispatches/s", name: name, get: value("rate"), scale: 1e-3},
			{group: "CPU ns per dispatch, process and tool", name: name, get: cpuPer("dispatches")},
		},
	}
}

func latency(mode, group string) cell {
	return cell{workload: "bench", mode: mode, line: "run " + mode + " 1 %g", longer: 2, metrics: []metric{
		{group: group, name: "p50", get: value("p50_ns"), scale: micro},
		{group: group, name: "p99", get: value("p99_ns"), scale: micro},
		{group: group, name: "p99.9", get: value("p999_ns"), scale: micro},
	}}
}

func launches(streams int) cell {
	name := fmt.Sprintf("%d streams", streams)
	return cell{
		workload: "hiprate", mode: "hiprate", line: fmt.Sprintf("run %d %%g", streams), detached: streams == 4, calls: true,
		metrics: []metric{
			{group: "HIP, thousand launches/s", name: name, get: value("rate"), scale: 1e-3},
			{group: "HIP, CPU ns per launch, process and tool", name: name, get: cpuPer("launches")},
		},
	}
}

// function is one that the workload hiprate calls.
type function struct{ word, name string }

var (
	hipCall    = function{"hip", "hipGetDevice"}
	hsaCall    = function{"hsa", "hsa_system_get_info"}
	hotCall    = function{"signal", "hsa_signal_load_relaxed"}
	rcclCall   = function{"rccl", "ncclGetVersion (of a library with RCCL's exports)"}
	marker     = function{"mark", "roctxMarkA"}
	allocation = function{"memory", "hipMalloc and hipFree"}
)

// calling measures a function that does little.
func calling(what function, threads int) cell {
	return cell{
		workload: "hiprate", mode: what.word + "call", line: fmt.Sprintf("call %s %d %%g", what.word, threads), detached: true, calls: true,
		metrics: []metric{{group: "ns per " + what.name, name: threadsText(threads), get: value("p50_ns")}},
	}
}

func server(rate, name string) cell {
	group := "HIP server " + name
	return cell{
		workload: "serve", mode: "serve", line: "for %gs", flags: []string{"--rate", rate}, alone: true, longer: 3, calls: true, threads: true,
		metrics: []metric{
			{group: group, name: "requests/s", get: value("rate")},
			{group: group, name: "p50, µs", get: value("p50_ns"), scale: micro},
			{group: group, name: "p99, µs", get: value("p99_ns"), scale: micro},
			{group: group, name: "CPU µs per request", get: cpuPer("requests"), scale: micro},
		},
	}
}

// engine is a small inference engine in Python, whose steps are its requests.
func engine() cell {
	c := server("", "")
	c.workload, c.mode, c.flags, c.env, c.calls = "engine.py", "engine", nil, []string{"SOFTGPU_KERNEL_NS=150000"}, false
	for i := range c.metrics {
		m := &c.metrics[i]
		m.group, m.name = "Python engine over HIP", strings.Replace(m.name, "request", "step", 1)
	}
	return c
}

// switches measures two threads that do nothing but wake each other, on one processor: a switch each time.
func switches() cell {
	const group = "threads that wake each other"
	return cell{
		workload: "threads", mode: "switches", flags: []string{"--balls", "1"}, alone: true, longer: 3, threads: true, noGPU: true,
		metrics: []metric{
			{group: group, name: "thousand switches/s", get: value("rate"), scale: 1e-3},
			{group: group, name: "CPU ns per switch, with the tool", get: cpuPer("requests")},
			{group: group, name: "peak memory of the tool, MiB", get: func(s sample) float64 { return s.peak }, scale: 1.0 / (1 << 20), in: []variant{attached, withThreads}},
			{group: group, name: "events lost", get: func(s sample) float64 { return s.lost }, in: []variant{withThreads}},
		},
	}
}
