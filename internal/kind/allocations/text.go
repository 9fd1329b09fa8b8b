package allocations

import (
	"cmp"
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// text builds the lines of the section.
type text struct {
	lines  []kind.Line
	where  string
	zeroNS int64
}

func (t *text) say(format string, args ...any) {
	t.lines = append(t.lines, kind.Line{Text: fmt.Sprintf(format, args...)})
}

// none returns what was not recorded; "": operations were.
func (c *Report) none() string {
	if c.Begun > 0 || c.Recorded > 0 {
		return ""
	}
	return "allocations and releases of memory"
}

// lines returns the section's text. All names in it are the tool's own.
func (c *Report) lines(where string, zeroNS int64) []kind.Line {
	t := &text{where: where, zeroNS: zeroNS}
	t.lines = []kind.Line{{Label: "Memory", Text: fmt.Sprintf("%s of %s recorded", humanize.Count(c.Recorded), humanize.Things(c.Begun, "operation"))}}
	if c.Unexplained > 0 {
		t.say("%s begun whose record never arrived: what they allocated or released is not known", humanize.Count(c.Unexplained))
	}
	if c.Surplus > 0 {
		t.say("%s beyond what the payload says were begun: do not trust these numbers", humanize.Count(c.Surplus))
	}
	for _, o := range c.Operations {
		t.operation(o)
	}
	if c.Older > 0 {
		t.say("%s%s of memory from before the recording: of unknown size", humanize.Things(c.Older, "release"), where)
	}
	for _, f := range c.Failures {
		t.failure(f)
	}
	for _, m := range c.Memory {
		t.memory(m)
	}
	t.unreleased(c)
	return t.lines
}

func (t *text) operation(o *OperationSum) {
	size := ", " + humanize.Bytes(o.Bytes)
	if !o.of.known && o.operation.isRelease() {
		size = ""
	}
	memory := o.Memory
	if !o.of.known {
		memory = "memory not known"
	}
	t.say("%s%s, %s: %s%s in %s", memory, t.where, o.Operation, humanize.Count(o.Calls), size, humanize.Duration(time.Duration(o.TotalNS)))
}

func (t *text) failure(f *Failure) {
	size := ""
	if !f.operation.isRelease() {
		size = " for " + humanize.Bytes(f.Bytes)
	}
	t.say("%s%s: %s failed%s with %s", f.Operation, t.where, humanize.Count(f.Calls), size, f.Name)
}

func (t *text) memory(m *Memory) {
	t.say("%s: of what was allocated%s at most %s at once, at %s; not released at the end: %s, %s", m.Memory,
		cmp.Or(t.where, " in the recording"), humanize.Bytes(m.PeakBytes), humanize.Duration(time.Duration(max(0, m.PeakNS-t.zeroNS))),
		humanize.Things(m.UnreleasedBlocks, "block"), humanize.Bytes(m.UnreleasedBytes))
}

func (t *text) unreleased(c *Report) {
	if len(c.Memory) > 0 {
		t.say("what was allocated before the recording is not known, and in none of these sums")
	}
	t.sites(c)
	for i, b := range c.Unreleased {
		if i == 0 {
			t.say("the largest blocks that were not released:")
		}
		t.say("  %s of %s at %s, %s, pid %d%s, at %s", humanize.Bytes(b.Bytes), b.Memory, b.Address, madeBy(b.Function, b.Operation), b.PID, threadOf(b.TID),
			humanize.Duration(time.Duration(min(max(0, b.StartNS-t.zeroNS), traceread.LatestNS))))
	}
}

// sites says which calls made the blocks that were not released.
func (t *text) sites(c *Report) {
	for i, s := range c.Sites[:min(len(c.Sites), mostShown)] {
		if i == 0 {
			t.say("what was not released, by the call that allocated it:")
		}
		t.say("  %s of %s in %s, %s, pid %d%s", humanize.Bytes(s.Bytes), s.Memory, humanize.Things(s.Blocks, "block"),
			madeBy(s.Function, s.Operation), s.PID, threadOf(s.TID))
	}
	if more := c.SitesInAll - mostShown; more > 0 {
		t.say("  and by %s more", humanize.Things(more, "call site"))
	}
}

func threadOf(tid int64) string {
	if tid == 0 {
		return ""
	}
	return fmt.Sprintf(", thread %d", tid)
}
