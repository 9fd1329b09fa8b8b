package export

import (
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// rocprof writes the JSON of rocprofv3, with the fields that a trace has: an element of
// rocprofiler-sdk-tool for each session.
type rocprof struct {
	*export
	line  jsonLine
	comma bool // the next element of the current array needs one
}

// Numbers of rocprofiler-sdk.
const (
	agentTypeCPU          = 1  // ROCPROFILER_AGENT_TYPE_CPU
	agentTypeGPU          = 2  // ROCPROFILER_AGENT_TYPE_GPU
	hostAgent             = 0  // a trace has one host for all processors, and no number for it
	kindKernelDispatch    = 11 // ROCPROFILER_BUFFER_TRACING_KERNEL_DISPATCH
	operationDispatchDone = 2  // ROCPROFILER_KERNEL_DISPATCH_COMPLETE
)

// recordArrays are the arrays that readers always expect.
var recordArrays = []string{"memory_copy", "hip_api", "hsa_api", "marker_api", "rccl_api", "memory_allocation", "scratch_memory"}

func writeRocprof(e *export) error {
	r := &rocprof{export: e}
	if err := r.text(`{"rocprofiler-sdk-tool":[`); err != nil {
		return err
	}
	for i, s := range r.trace.sessions {
		if i > 0 {
			if err := r.text(",\n"); err != nil {
				return err
			}
		}
		if err := r.session(s); err != nil {
			return err
		}
	}
	return r.text("]}\n")
}

func (r *rocprof) text(s string) error {
	_, err := r.w.WriteString(s)
	return err
}

// element writes r.line as an element of an array.
func (r *rocprof) element() error {
	separator := "\n"
	if r.comma {
		separator = ",\n"
	}
	r.comma = true
	if err := r.text(separator); err != nil {
		return err
	}
	_, err := r.w.Write(r.line)
	return err
}

func (r *rocprof) session(s *traceread.Session) error {
	for _, step := range []func(*traceread.Session) error{r.metadata, r.strings, r.agents, r.symbols, r.records} {
		if err := step(s); err != nil {
			return err
		}
	}
	return nil
}

func (r *rocprof) metadata(s *traceread.Session) error {
	l := append(jsonLine(nil), '{')
	l = append(l.key("metadata"), '{')
	l = append(append(l.key("node"), '{').int("id", 0).text("hostname", s.Process.ID.Host), '}')
	l = l.int("pid", s.Process.ID.PID).int("init_time", s.FromNS()).int("fini_time", untilNS(s))
	l = append(appendJSON(append(l.key("command"), '['), s.Process.Command), ']')
	l = append(append(l.key("rtl_attach"), '{').text("version", s.ToolVersion).text("clock", "CLOCK_BOOTTIME").
		int("session", s.ID).coverage("coverage", *r.trace.coverage[s]), '}')
	_, err := r.w.Write(append(l, "},\n"...))
	return err
}

func (r *rocprof) agents(s *traceread.Session) error {
	if err := r.text(`"agents":[`); err != nil {
		return err
	}
	r.comma = false
	for _, id := range sortedKeys(r.trace.Agents) {
		a := r.trace.Agents[id]
		if a.Session != s {
			continue
		}
		r.line = append(r.line[:0], '{').handle("id", a.ID).int("type", agentTypeGPU).int("node_id", driverNode(a)).
			int("logical_node_id", a.GPU).int("logical_node_type_id", a.GPU).int("gpu_index", a.GPU).
			int("cu_count", a.ComputeUnits).text("name", a.Name).text("product_name", a.Product).text("vendor_name", "AMD")
		r.line = append(r.line, '}')
		if err := r.element(); err != nil {
			return err
		}
	}
	r.line = append(r.line[:0], '{').handle("id", hostAgent).int("type", agentTypeCPU).int("logical_node_type_id", 0).
		text("name", "host").text("product_name", "host").text("vendor_name", "CPU")
	r.line = append(r.line, '}')
	if err := r.element(); err != nil {
		return err
	}
	return r.text("],\n")
}

// symbols writes each symbol once; its id is the id of the string in the trace.
// truncated_kernel_name, which TraceLens reads first, is the whole demangled name.
func (r *rocprof) symbols(s *traceread.Session) error {
	if err := r.text(`"code_objects":[],"host_functions":[],"kernel_symbols":[`); err != nil {
		return err
	}
	r.comma = false
	err := r.trace.Each(r.ctx, func(rows traceread.Row) error {
		var id, group, private int64
		var symbol, name string
		if err := rows.Scan(&id, &symbol, &name, &group, &private); err != nil {
			return err
		}
		symbol, name = traceread.Cut(symbol, traceread.LongestName), traceread.Cut(name, traceread.LongestName)
		r.line = append(r.line[:0], '{').int("kernel_id", id).int("code_object_id", 0).text("kernel_name", symbol).
			int("group_segment_size", group).int("private_segment_size", private).text("formatted_kernel_name", name).
			text("demangled_kernel_name", name).text("truncated_kernel_name", name)
		r.line = append(r.line, '}')
		return r.element()
	}, `SELECT l.symbol_id, coalesce(s.string, ''), n.string, max(coalesce(l.group_segment_bytes, 0)),
		max(coalesce(l.private_segment_bytes, 0)) FROM rtl_launch l JOIN rocpd_string n ON n.id = l.name_id
		LEFT JOIN rocpd_string s ON s.id = l.symbol_id WHERE l.session_id = ? GROUP BY l.symbol_id ORDER BY l.symbol_id`, s.ID)
	if err != nil {
		return fmt.Errorf("read kernels: %w", err)
	}
	return r.text("],\n")
}

// records writes the dispatches and copies of one session. Each session takes one more scan, in
// which SQLite skips the rows of other sessions.
func (r *rocprof) records(s *traceread.Session) error {
	if err := r.text(`"callback_records":{},"buffer_records":{"kernel_dispatch":[`); err != nil {
		return err
	}
	r.comma = false
	rows, leftOut := rowsOf(s), r.trace.leftOut
	if s == r.trace.sessions[0] {
		rows = rowsNotOfOthers(s) // rows without a session are counted once
	}
	err := r.trace.dispatches(r.ctx, rows, func(d *dispatch) error {
		if d.queue.Agent.Session != s {
			return nil
		}
		r.result.Dispatches++
		r.dispatch(d)
		return r.element()
	})
	if err != nil {
		return err
	}
	r.trace.leftOut += leftOut
	if err := r.text("\n]"); err != nil {
		return err
	}
	if err := r.kinds(s); err != nil {
		return err
	}
	return r.text("}}")
}

// kinds writes the arrays of all kinds of record, empty for kinds that were not recorded.
func (r *rocprof) kinds(s *traceread.Session) error {
	arrays := slices.Clone(recordArrays)
	for _, k := range all.Kinds {
		if name := k.Export.Array; name != "" && !slices.Contains(arrays, name) {
			arrays = append(arrays, name)
		}
	}
	for _, name := range arrays {
		if err := r.array(name, s); err != nil {
			return err
		}
	}
	return nil
}

// array writes the events of one session, of the kinds that have this array.
func (r *rocprof) array(name string, s *traceread.Session) error {
	if err := r.text(`,"` + name + `":[`); err != nil {
		return err
	}
	r.comma = false
	for _, k := range all.Kinds {
		if k.Export.Array != name {
			continue
		}
		err := r.eachOf(k, func(of *traceread.Session) bool { return of == s }, func(e *kind.Event) error {
			r.event(k, e)
			return r.element()
		})
		if err != nil {
			return err
		}
	}
	if r.comma {
		return r.text("\n]")
	}
	return r.text("]")
}

func (r *rocprof) event(k *kind.Kind, e *kind.Event) {
	l := append(r.line[:0], '{').int("kind", k.Export.BufferKind).int("operation", e.Operation).int("thread_id", e.TID)
	l = append(append(l.key("correlation_id"), '{').int("internal", e.CorrelationID()).int("external", 0), '}')
	l = l.int("start_timestamp", e.StartNS).int("end_timestamp", e.EndNS)
	for _, f := range e.Fields {
		if f.Handle {
			l = l.handle(f.Name, f.Value)
		} else {
			l = l.int(f.Name, f.Value)
		}
	}
	r.line = append(l, '}')
}

func (r *rocprof) dispatch(d *dispatch) {
	l := append(r.line[:0], '{').int("kind", kindKernelDispatch).int("operation", operationDispatchDone).int("thread_id", d.tid())
	l = append(append(l.key("correlation_id"), '{').int("internal", d.correlationID()).int("external", 0), '}')
	l = l.int("start_timestamp", d.startNS).int("end_timestamp", d.endNS)
	l = append(l.key("dispatch_info"), '{').handle("agent_id", d.queue.Agent.ID).handle("queue_id", d.queue.ID)
	l = l.int("kernel_id", d.launch.symbolID).int("dispatch_id", d.id).
		int("private_segment_size", d.launch.scratchByte).int("group_segment_size", d.launch.groupBytes).
		xyz("workgroup_size", d.launch.workgroup).xyz("grid_size", d.launch.grid)
	l = append(l, '}').handle("stream_id", d.streamID())
	r.line = append(l, '}')
}

// driverNode returns the driver's number of a GPU; -1: not known.
func driverNode(a *traceread.Agent) int64 {
	if a.DriverNode == nil {
		return -1
	}
	return *a.DriverNode
}
