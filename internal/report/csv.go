package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
)

// Table is a part of a report that can be written as CSV. Times are ns.
type Table struct {
	Name    string
	columns []string
	rows    func(*Report) [][]any
}

var (
	kernelColumns = []string{"calls", "total_ns", "avg_ns", "min_ns", "max_ns", "percent"}
	busyColumns   = []string{
		"kernels", "busy_ns", "idle_ns", "recorded_ns", "percent", "dispatches_published", "dispatches_timed", "complete",
	}
)

// Tables are all tables. The first is the default; the tables of kinds of record are last.
var Tables = append([]Table{
	{"kernels", append([]string{"kernel"}, kernelColumns...), kernelRows},
	{"groups", append([]string{"kernel", "variants"}, kernelColumns...), groupRows},
	{"gpus", slices.Concat([]string{"gpu", "name"}, busyColumns, []string{"pci", "driver_node"}), gpuRows},
	{"queues", append([]string{"queue", "hsa_id", "gpu", "pid", "session"}, busyColumns...), queueRows},
	{"processes", slices.Concat([]string{"pid", "command", "host", "gpus"}, busyColumns, []string{"rank", "kernels_in_window"}), processRows},
	{"gaps", []string{"gpu", "cause", "gaps", "total_ns", "longest_ns"}, causeRows},
	{"longest-gaps", []string{"gpu", "begin_ns", "length_ns", "cause", "host_ns", "next", "queue", "tid"}, gapRows},
	{"why-idle", whyColumns, whyRows},
	{"gap-causes", slices.Concat([]string{"begin_ns", "length_ns"}, whyColumns, []string{"stack"}), gapCauseRows},
	{"steps", []string{
		"pid", "thread", "marker", "first", "kernels", "part_kernels", "part_times", "steps", "total_ns", "p50_ns", "p99_ns", "max_ns",
		"idle_ns", "idle_p50_ns", "gap_p50_ns", "different", "slow",
	}, stepRows},
	{"slow-steps", []string{
		"pid", "thread", "first", "number", "begin_ns", "length_ns", "idle_ns", "what", "kernel", "kernels", "ns", "usual_ns",
	}, outlierRows},
	{"ranks", []string{
		"gpu", "pid", "rank", "command", "host", "collectives", "last", "late_mean_ns", "late_p50_ns", "late_p99_ns", "wait_ns", "others_wait_percent",
		"instead", "instead_name", "instead_ns",
	}, rankRows},
	{"rank-uses", []string{"gpu", "recorded_ns", "compute_ns", "transfer_ns", "wait_ns", "unmatched_ns", "copy_ns", "idle_ns"}, rankUseRows},
	{"collectives", []string{
		"group", "gpus", "matched_by", "kernel", "collectives", "skew_p50_ns", "skew_p99_ns", "skew_max_ns", "wait_ns", "transfer_ns", "last_gpu",
		"last_times", "group_partly", "group_unmatched",
	}, rankSumRows},
	{"latency", []string{"dispatches", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns"}, latencyRows},
}, kindTables()...)

// TableNames returns the names of all tables, separated by commas.
func TableNames() string {
	var names []string
	for _, t := range Tables {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// TableNamed returns the table of a name, if there is one.
func TableNamed(name string) (Table, bool) {
	for _, t := range Tables {
		if t.Name == name {
			return t, true
		}
	}
	return Table{}, false
}

// WriteCSV writes one table of the report, after a line with the names of its columns.
func (r *Report) WriteCSV(w io.Writer, t Table) error {
	c := csv.NewWriter(w)
	if err := c.Write(t.columns); err != nil {
		return err
	}
	for _, row := range t.rows(r) {
		if err := c.Write(csvCells(row)); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

func csvCells(row []any) []string {
	cells := make([]string, len(row))
	for i, value := range row {
		switch v := value.(type) {
		case nil:
		case string:
			cells[i] = sanitize.Cell(v)
		case int64, float64, bool:
			cells[i] = fmt.Sprint(v)
		case []byte:
			cells[i] = fmt.Sprintf("x'%x'", v)
		default:
			cells[i] = sanitize.Cell(fmt.Sprint(v))
		}
	}
	return cells
}

func (k *Kernel) row() []any {
	return []any{k.Calls, k.TotalNS, k.AvgNS, k.MinNS, k.MaxNS, k.Percent}
}

func (one Busy) row(kernels int64, s Seen) []any {
	return []any{kernels, one.BusyNS, one.IdleNS, one.RecordedNS, one.Percent, s.Dispatches, s.Timed, s.Complete}
}

func kernelRows(r *Report) (rows [][]any) {
	for i := range r.Kernels {
		rows = append(rows, append([]any{r.Kernels[i].Name}, r.Kernels[i].row()...))
	}
	return rows
}

func groupRows(r *Report) (rows [][]any) {
	for i := range r.Groups {
		g := &r.Groups[i]
		rows = append(rows, append([]any{g.Name, g.Variants}, g.row()...))
	}
	return rows
}

func gpuRows(r *Report) (rows [][]any) {
	for i := range r.GPUs {
		g := &r.GPUs[i]
		var node any
		if g.DriverNode != nil {
			node = *g.DriverNode
		}
		rows = append(rows, slices.Concat([]any{g.ID, g.Name}, g.row(g.Dispatches, g.Coverage), []any{g.PCI, node}))
	}
	return rows
}

func queueRows(r *Report) (rows [][]any) {
	for i := range r.Queues {
		q := &r.Queues[i]
		rows = append(rows, append([]any{q.ID, q.HSAID, q.GPU, q.PID, q.Session}, q.row(q.Dispatches, q.Coverage)...))
	}
	return rows
}

func processRows(r *Report) (rows [][]any) {
	for i := range r.PerProcess {
		p := &r.PerProcess[i]
		gpus := strings.Trim(fmt.Sprint(p.GPUs), "[]")
		var rank any
		if p.Rank != nil {
			rank = *p.Rank
		}
		rows = append(rows, slices.Concat([]any{p.PID, p.Command, p.Host, gpus}, p.row(p.Dispatches, p.Coverage), []any{rank, p.InWindow}))
	}
	return rows
}

func causeRows(r *Report) (rows [][]any) {
	for i := range r.GPUs {
		for _, c := range r.GPUs[i].Gaps {
			rows = append(rows, []any{r.GPUs[i].ID, c.Name, c.Gaps, c.TotalNS, c.LongestNS})
		}
	}
	return rows
}

func gapRows(r *Report) (rows [][]any) {
	for _, g := range r.LongestGaps {
		rows = append(rows, []any{g.GPU, g.BeginNS, g.LengthNS, g.Cause, g.HostNS, g.Next, g.Queue, g.TID})
	}
	return rows
}

func latencyRows(r *Report) [][]any {
	l := r.LaunchToStart
	if l == nil {
		return nil
	}
	return [][]any{{l.Dispatches, l.P50NS, l.P90NS, l.P99NS, l.P999NS, l.MaxNS}}
}
