package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// queuesShown is the number of queues listed for a GPU, the busiest first.
const queuesShown = 8

// WriteText writes the report as text. It groups kernels and shortens their names, unless
// full names are requested.
func (r *Report) WriteText(w io.Writer, fullNames bool) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s  %s\n", sanitize.Text(r.File), humanize.Bytes(r.SizeBytes))
	r.writeWindow(&b)
	r.writeProcesses(&b)
	r.writeSessions(&b)
	r.writeFilters(&b)
	r.writeCoverage(&b)
	r.writeUnavailable(&b)
	r.writeLosses(&b)
	r.writePerProcess(&b)
	r.writeBusy(&b)
	r.writeGaps(&b, fullNames)
	r.writeLatency(&b)
	r.writeKinds(&b)
	r.writeSteps(&b, fullNames)
	r.writeRanks(&b, fullNames)
	if fullNames {
		r.writeFullNames(&b)
	} else {
		r.writeGroups(&b)
	}
	r.writeLeftOut(&b)
	r.writePauses(&b)
	r.writeRates(&b)
	_, err := w.Write(b.Bytes())
	return err
}

func (r *Report) writeWindow(b *bytes.Buffer) {
	if r.Window == nil {
		return
	}
	until := "the end"
	if r.Window.EndNS < traceread.LatestNS {
		until = duration(r.Window.EndNS - r.ZeroNS)
	}
	of := ""
	if r.Window.LastStep > 0 {
		of = fmt.Sprintf(" (steps %s to %s of the thread named first)", humanize.Count(r.Window.FirstStep), humanize.Count(r.Window.LastStep))
	}
	line(b, "Window", "%s to %s after the first attach%s; Coverage, Lost and Paused are of the whole recording",
		duration(r.Window.BeginNS-r.ZeroNS), until, of)
	if of != "" {
		line(b, "", "Steps are those of the whole recording")
	}
}

// inWindow is said of what the window cuts, beside what it does not.
func (r *Report) inWindow() string {
	if r.Window == nil {
		return ""
	}
	return " in the window"
}

// grid is a text table. Its alignment has a letter for each column: l or r.
type grid struct {
	align string
	rows  [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

func (g *grid) write(b *bytes.Buffer) {
	widths := make([]int, len(g.align))
	for _, row := range g.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range g.rows {
		var text strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if g.align[i] == 'r' {
				text.WriteString(pad + cell + "  ")
			} else {
				text.WriteString(cell + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
}

// of returns how many dispatches are timed, and whether others may have run, as text.
func (s Seen) of() string {
	of := " of "
	if !s.Complete && traceread.Sum(s.Timed, s.Filtered) == s.Dispatches {
		of = " of at least "
	}
	text := humanize.Count(s.Timed) + of + humanize.Count(s.Dispatches)
	if s.Filtered > 0 {
		text += ", " + humanize.Count(s.Filtered) + " filtered"
	}
	return text
}

// cells returns the cells of a busy time: share, busy, idle. If something may be missing,
// the values are lower bounds.
func (one Busy) cells(s Seen) (percent, busy, idle string) {
	if one.RecordedNS == 0 {
		return "-", "-", "-"
	}
	least, most := "", ""
	if !s.Complete {
		least, most = "≥", "≤"
	}
	return least + humanize.Percent(one.Percent), duration(one.BusyNS), most + duration(one.IdleNS)
}

// latencies returns the cells p50 and p99.
func (l *LaunchToStart) latencies() (p50, p99 string) {
	if l == nil {
		return "-", "-"
	}
	return duration(l.P50NS), duration(l.P99NS)
}

func (r *Report) writePerProcess(b *bytes.Buffer) {
	if len(r.PerProcess) < 2 {
		return
	}
	g := grid{align: "llrrrrrrrl"}
	g.add("Per process", "GPU", "busy", "", "idle", "kernels", "launch p50", "p99", "", "timed")
	for _, p := range r.PerProcess {
		percent, busy, idle := p.cells(p.Coverage)
		p50, p99 := p.LaunchToStart.latencies()
		gpus := make([]string, len(p.GPUs))
		for i, id := range p.GPUs {
			gpus[i] = strconv.FormatInt(id, 10)
		}
		g.add(" "+p.who(), shorten(strings.Join(gpus, ","), nameWidth/2),
			percent, busy, idle, humanize.Count(p.InWindow), p50, p99, "", p.Coverage.of())
	}
	g.write(b)
}

// who returns a process's name for users.
func (p *PerProcess) who() string {
	command := shorten(sanitize.Text(p.Command), nameWidth/2)
	if p.Rank != nil {
		return fmt.Sprintf("rank %d (pid %d, %s)", *p.Rank, p.PID, command)
	}
	return fmt.Sprintf("pid %d (%s)", p.PID, command)
}

func (r *Report) writeBusy(b *bytes.Buffer) {
	if len(r.GPUs) == 0 {
		return
	}
	g := grid{align: "lrrrrl"}
	g.add("GPUs", "busy", "", "idle", "kernels", "timed")
	whole := true
	for i := range r.GPUs {
		one := &r.GPUs[i]
		whole = whole && one.Coverage.Complete
		percent, busy, idle := one.cells(one.Coverage)
		g.add(fmt.Sprintf(" %d %s %s", one.ID, shorten(sanitize.Text(one.Name), nameWidth/2), one.PCI), percent, busy, idle,
			humanize.Count(one.Dispatches), one.Coverage.of())
		r.addQueues(&g, one.ID)
	}
	g.write(b)
	if !whole {
		b.WriteString(" Not everything was timed (see Coverage): what is missing is not idle time.\n")
	}
}

// addQueues adds a GPU's busiest queues.
func (r *Report) addQueues(g *grid, gpu int64) {
	var queues []*Queue
	for i := range r.Queues {
		if r.Queues[i].GPU == gpu {
			queues = append(queues, &r.Queues[i])
		}
	}
	slices.SortStableFunc(queues, func(a, b *Queue) int { return cmp.Compare(b.BusyNS, a.BusyNS) })
	for _, q := range queues[:min(len(queues), queuesShown)] {
		percent, busy, idle := q.cells(q.Coverage)
		g.add("   "+r.queueName(q), percent, busy, idle, humanize.Count(q.Dispatches), q.Coverage.of())
	}
	if more := len(queues) - queuesShown; more > 0 {
		g.add(fmt.Sprintf("   and %s", humanize.Things(int64(more), "queue")), "", "", "", "", "")
	}
}

// queueName returns a queue's name, with its process if there are several.
func (r *Report) queueName(q *Queue) string {
	name := fmt.Sprintf("queue %d", q.ID)
	if q.HSAID >= 0 {
		name += fmt.Sprintf(" (hwq %#x)", q.HSAID)
	}
	if len(r.PerProcess) > 1 {
		name += fmt.Sprintf(" of pid %d", q.PID)
	}
	return name
}

func (r *Report) writeGaps(b *bytes.Buffer, fullNames bool) {
	g := grid{align: "lrrrr"}
	g.add("Idle, and the likely cause", "total", "%", "gaps", "longest")
	for i := range r.GPUs {
		one := &r.GPUs[i]
		if len(one.Gaps) == 0 {
			continue
		}
		g.add(fmt.Sprintf(" GPU %d", one.ID), duration(one.IdleNS), "", humanize.Count(one.GapsInAll), duration(one.LongestGapNS))
		for _, c := range one.Gaps {
			gaps, longest := humanize.Count(c.Gaps), duration(c.LongestNS)
			if c.Gaps == 0 {
				gaps, longest = "", ""
			}
			g.add("   "+c.Text, duration(c.TotalNS), humanize.Percent(percent(c.TotalNS, one.IdleNS)), gaps, longest)
		}
	}
	if len(g.rows) > 1 {
		g.write(b)
	}
	r.writeWhy(b)
	r.writeLongest(b, fullNames)
}

// kernelName returns a kernel's name, shortened unless full names are requested.
func kernelName(name string, full bool) string {
	if full {
		return sanitize.Text(name)
	}
	return shorten(sanitize.Text(base(name)), nameWidth)
}

func (r *Report) writeLongest(b *bytes.Buffer, fullNames bool) {
	if len(r.LongestGaps) == 0 {
		return
	}
	g := grid{align: "rrllrl"}
	g.add("Longest gaps", "at", "GPU", "cause", "host", "before")
	for _, one := range r.LongestGaps {
		name := kernelName(one.Next, fullNames)
		by := ""
		if one.TID != 0 {
			by = fmt.Sprintf(", thread %d", one.TID)
		}
		g.add(duration(one.LengthNS), duration(one.BeginNS-r.ZeroNS), strconv.FormatInt(one.GPU, 10), one.Cause, humanize.Percent(percent(one.HostNS, one.LengthNS)),
			fmt.Sprintf("%s  (queue %d%s)", name, one.Queue, by))
	}
	if !r.GapCauses {
		g.write(b)
		return
	}
	var table bytes.Buffer
	g.write(&table)
	for i, row := range strings.SplitAfter(table.String(), "\n") {
		b.WriteString(row)
		if i > 0 && i <= len(r.LongestGaps) {
			r.LongestGaps[i-1].writeGapCauses(b)
		}
	}
}

func (r *Report) writeLatency(b *bytes.Buffer) {
	if l := r.LaunchToStart; l != nil {
		line(b, "Launch → start", "p50 %s  p90 %s  p99 %s  p99.9 %s  max %s   (%s, right to 0.4%%)", duration(l.P50NS), duration(l.P90NS),
			duration(l.P99NS), duration(l.P999NS), duration(l.MaxNS), humanize.Things(l.Dispatches, "dispatch"))
	}
	if r.LeftOut > 0 {
		line(b, "Left out", "%s: impossible times, or nothing to belong to", humanize.Things(r.LeftOut, "dispatch"))
	}
}

// figures returns the cells of a kernel.
func (k *Kernel) figures() []string {
	return []string{
		humanize.Count(k.Calls), duration(k.TotalNS), duration(k.AvgNS), duration(k.MinNS), duration(k.MaxNS),
		strconv.FormatFloat(k.Percent, 'f', 1, 64),
	}
}

var kernelHeads = []string{"calls", "total", "avg", "min", "max", "%"}

func (r *Report) writeGroups(b *bytes.Buffer) {
	if len(r.Groups) == 0 {
		return
	}
	g := grid{align: "lrrrrrrr"}
	g.add(append([]string{"Top kernels", "variants"}, kernelHeads...)...)
	for i := range r.Groups {
		one := &r.Groups[i]
		g.add(append([]string{" " + shorten(sanitize.Text(one.Name), nameWidth), humanize.Count(one.Variants)}, one.figures()...)...)
	}
	g.write(b)
	if more := r.GroupsInAll - int64(len(r.Groups)); more > 0 {
		fmt.Fprintf(b, " and %s more\n", humanize.Count(more))
	}
}

// writeFullNames writes a table with the names, which are long, in the last column.
func (r *Report) writeFullNames(b *bytes.Buffer) {
	if len(r.Kernels) == 0 {
		return
	}
	g := grid{align: "rrrrrrl"}
	g.add(append(slices.Clone(kernelHeads), "kernel")...)
	for i := range r.Kernels {
		g.add(append(r.Kernels[i].figures(), sanitize.Text(r.Kernels[i].Name))...)
	}
	g.write(b)
	if more := r.KernelsInAll - int64(len(r.Kernels)); more > 0 {
		fmt.Fprintf(b, " and %s more\n", humanize.Count(more))
	}
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return sanitize.WriteJSON(w, r) }
