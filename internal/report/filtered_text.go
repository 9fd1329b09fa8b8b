package report

import (
	"bytes"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
)

// text returns the filter as a flag.
func (f Filter) text() string {
	text := "--" + f.Name + " " + shellWord(sanitize.Text(f.Value))
	if f.InReport {
		text += "  (of this report: the trace has all)"
	}
	return text
}

func (s *Summary) writeFilters(b *bytes.Buffer) {
	label := "Filter"
	for _, f := range s.Filters {
		line(b, label, "%s", f.text())
		label = ""
	}
}

// writeLeftOut lists kernels that filters left out.
func (s *Summary) writeLeftOut(b *bytes.Buffer) {
	if len(s.LeftOutKernels) == 0 {
		return
	}
	fmt.Fprintf(b, "%-*s %11s %8s\n", nameWidth+1, "Filtered out", "calls", "total")
	for _, k := range s.LeftOutKernels {
		fmt.Fprintf(b, "%-*s %11s %8s\n", nameWidth+1, " "+shorten(sanitize.Text(brief(k.Name)), nameWidth), humanize.Count(k.Calls), duration(k.TotalNS))
	}
	if more := s.LeftOutInAll - int64(len(s.LeftOutKernels)); more > 0 {
		fmt.Fprintf(b, " and %s more\n", humanize.Count(more))
	}
}
