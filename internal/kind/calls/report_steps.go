package calls

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind"
)

// stepLines returns the text on launches, streams and graphs.
func (c *Report) stepLines(where string) (all []kind.Line) {
	say := func(label, format string, args ...any) {
		all = append(all, kind.Line{Label: label, Text: fmt.Sprintf(format, args...)})
	}
	if l := c.Launches; l != nil {
		say("Launches", "%s%s, mean %s, p99 %s; kernels per call: %.1f", humanize.Things(l.Calls, "call"), where, duration(l.MeanNS), duration(l.P99NS),
			float64(l.Kernels)/float64(l.Calls))
		if l.Started > 0 {
			say("", "from a call to the start of its first kernel: p50 %s, p99 %s", duration(l.StartP50NS), duration(l.StartP99NS))
		}
	}
	c.sayStreams(say)
	c.sayGraphs(say)
	return all
}

func (c *Report) sayStreams(say func(label, format string, args ...any)) {
	if c.StreamsInAll == 0 && c.WaitsInAll == 0 {
		return
	}
	say("Streams", "%s with kernels; %s of a stream for another one's event", humanize.Things(c.StreamsInAll, "HIP stream"), humanize.Things(c.WaitsInAll, "wait"))
	for _, s := range c.Streams[:min(len(c.Streams), mostStreamLines)] {
		say("", "%s: %s in %s", s.title(), humanize.Things(s.Kernels, "kernel"), duration(s.GPUNS))
	}
	if n := c.StreamsInAll - mostStreamLines; n > 0 {
		say("", "and %s with less time", humanize.Things(n, "stream"))
	}
}

// title returns a stream for people.
func (s *Stream) title() string {
	switch s.Stream {
	case defaultStream:
		return fmt.Sprintf("default stream of pid %d", s.PID)
	case perThreadStream:
		return fmt.Sprintf("own default stream of thread %d", s.Thread)
	}
	return fmt.Sprintf("stream %#x", uint64(s.Stream))
}

func (c *Report) sayGraphs(say func(label, format string, args ...any)) {
	if c.GraphsInAll == 0 {
		return
	}
	say("Graphs", "%s launched", humanize.Things(c.GraphsInAll, "HIP graph"))
	for _, g := range c.Graphs[:min(len(c.Graphs), mostGraphLines)] {
		different := ""
		if g.Different > 0 {
			different = fmt.Sprintf("; %s with other kernels, or in another order", humanize.Count(g.Different))
		}
		say("", "graph %s: %s of %s, %s on the GPU, mean %s, max %s%s", g.Exec, humanize.Things(g.Replays, "replay"), humanize.Things(g.Kernels, "kernel"),
			duration(g.GPUNS), duration(g.MeanNS), duration(g.MaxNS), different)
	}
	if n := c.GraphsInAll - mostGraphLines; n > 0 {
		say("", "and %s with less time", humanize.Things(n, "graph"))
	}
}
