package calls

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind"
)

// Most lines on communicators, and on the functions of each.
const (
	mostCommunicatorLines = 4
	mostTransferLines     = 8
)

// say adds the lines on communicators.
func (c *Collectives) say(say func(string, ...any)) {
	if c == nil {
		return
	}
	for i := range c.Communicators[:min(len(c.Communicators), mostCommunicatorLines)] {
		of := &c.Communicators[i]
		say("communicator %d: %s in this trace%s", i+1, humanize.Things(len(of.Ranks), "rank"), of.matched())
		if text := of.late(); text != "" {
			say("  %s", text)
		}
		for _, s := range of.Functions[:min(len(of.Functions), mostTransferLines)] {
			say("  %s", s)
		}
	}
	if n := len(c.Communicators) - mostCommunicatorLines; n > 0 {
		say("and %s with fewer calls", humanize.Things(n, "communicator"))
	}
	if c.Mixed > 0 {
		say("%s of several communicators, whose kernels are counted for none", humanize.Things(c.Mixed, "group"))
	}
	if c.LeftOut > 0 {
		say("%s left out: too many, or of no known communicator", humanize.Things(c.LeftOut, "call"))
	}
}

func (c *Communicator) matched() string {
	if c.MatchedBy == "calls" {
		return " (matched by their calls)"
	}
	return ""
}

// late returns how late the last rank is, and which one that is most often.
func (c *Communicator) late() string {
	if c.Lateness == nil {
		return ""
	}
	most := &c.Ranks[0]
	for i := range c.Ranks {
		if c.Ranks[i].Last > most.Last {
			most = &c.Ranks[i]
		}
	}
	l := c.Lateness
	return fmt.Sprintf("the last rank calls after the first: p50 %s, p99 %s, max %s; last most often: %s (%s of %s)", duration(l.P50NS), duration(l.P99NS),
		duration(l.MaxNS), most.title(), humanize.Count(most.Last), humanize.Things(l.Operations, "operation"))
}

// title returns a rank for people.
func (r *Rank) title() string {
	w := Wait{Thread: r.Thread, Name: r.Name}
	if r.Rank >= 0 {
		return fmt.Sprintf("rank %d (process %d, %s)", r.Rank, r.PID, w.title())
	}
	return fmt.Sprintf("process %d, %s", r.PID, w.title())
}

// String returns a function's sums. Bytes by the time of kernels is what NCCL's tests call algorithm bandwidth.
func (s TransferSum) String() string {
	text := fmt.Sprintf("%s: %s, %s", s.Function, humanize.Things(s.Calls, "call"), humanize.Bytes(s.Bytes))
	if s.Unsized > 0 {
		text += fmt.Sprintf(" (and %s of unknown size)", humanize.Count(s.Unsized))
	}
	if s.Kernels > 0 {
		text += fmt.Sprintf("; %s, %s; algorithm bandwidth %s/s", humanize.Things(s.Kernels, "kernel"), duration(s.GPUNS), humanize.Bytes(s.BytesPerSecond))
	}
	return text
}

// collectiveTables are RCCL's further CSV tables.
var collectiveTables = []kind.Table{
	{Name: "rccl-collectives", Columns: []string{"communicator", "function", "calls", "bytes", "unsized", "kernels", "gpu_ns", "bytes_per_second"}, Rows: func(value any) (rows [][]any) {
		value.(*Report).Collectives.each(func(number int, c *Communicator) {
			for _, s := range c.Functions {
				rows = append(rows, []any{number, s.Function, s.Calls, s.Bytes, s.Unsized, s.Kernels, s.GPUNS, s.BytesPerSecond})
			}
		})
		return rows
	}},
	{Name: "rccl-ranks", Columns: []string{"communicator", "rank", "pid", "thread", "thread_name", "last"}, Rows: func(value any) (rows [][]any) {
		value.(*Report).Collectives.each(func(number int, c *Communicator) {
			for _, r := range c.Ranks {
				rows = append(rows, []any{number, r.Rank, r.PID, r.Thread, r.Name, r.Last})
			}
		})
		return rows
	}},
}

func (c *Collectives) each(visit func(number int, of *Communicator)) {
	if c == nil {
		return
	}
	for i := range c.Communicators {
		visit(i+1, &c.Communicators[i])
	}
}
