package report

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
)

// IdleCauses is what a summary says of why the GPUs were idle.
type IdleCauses struct {
	IdleNS  int64      `json:"idle_ns"`           // of all GPUs
	Causes  []TopCause `json:"causes"`            // the longest first
	Skipped string     `json:"skipped,omitempty"` // why there are none
}

// TopCause is a cause of idle time, of all GPUs together.
type TopCause struct {
	NS      int64   `json:"ns"`
	Percent float64 `json:"percent"` // of the idle time
	Text    string  `json:"text"`
}

// Limits of a summary's causes: it is made while the user waits for the end of the recording.
const (
	topCauses       = 2
	mostCauseRows   = 1 << 20 // kernels, waits and samples: some seconds
	longestTopCause = 160     // characters
)

// skipsCauses reports whether a summary does not look for causes of idle times: threads were not observed, or the trace is too
// large, which the summary then says.
func (s *Summary) skipsCauses(tr *traceread.Trace) (bool, error) {
	windows, err := whyidle.Windows(background, tr)
	if err != nil || len(windows) == 0 {
		return true, err
	}
	rows := int64(0)
	for _, table := range []string{"rtl_execution", "rtl_cpu_wait", "rtl_cpu_sample"} {
		last := int64(0)
		if err := tr.DB.QueryRow("SELECT coalesce(max(id), 0) FROM " + table).Scan(&last); err != nil {
			return true, err
		}
		rows = traceread.Sum(rows, last)
	}
	if rows > mostCauseRows {
		s.IdleCauses = &IdleCauses{Causes: []TopCause{}, Skipped: fmt.Sprintf("not looked for here: the trace has %s kernels, waits and samples", humanize.Count(rows))}
		return true, nil
	}
	return false, nil
}

// fillIdleCauses sums up the causes of all GPUs.
func (s *Summary) fillIdleCauses(w *WhyIdle) {
	s.IdleCauses = &IdleCauses{Causes: []TopCause{}}
	byText := map[string]int64{}
	for i := range w.GPUs {
		s.IdleCauses.IdleNS = traceread.Sum(s.IdleCauses.IdleNS, w.GPUs[i].IdleNS)
		for _, c := range w.GPUs[i].Causes {
			byText[c.Text] = traceread.Sum(byText[c.Text], c.NS)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(byText)) {
		if ns := byText[text]; ns > 0 {
			s.IdleCauses.Causes = append(s.IdleCauses.Causes, TopCause{ns, percent(ns, s.IdleCauses.IdleNS), text})
		}
	}
	slices.SortStableFunc(s.IdleCauses.Causes, func(a, b TopCause) int { return cmp.Compare(b.NS, a.NS) })
	s.IdleCauses.Causes = s.IdleCauses.Causes[:min(len(s.IdleCauses.Causes), topCauses)]
}

// writeIdleCauses writes the largest causes of idle times, and where the others are.
func (s *Summary) writeIdleCauses(b *bytes.Buffer) {
	w := s.IdleCauses
	if w == nil || w.Skipped == "" && len(w.Causes) == 0 {
		return
	}
	label := "Why idle"
	for _, c := range w.Causes {
		text := sanitize.Text(c.Text)
		if utf8.RuneCountInString(text) > longestTopCause {
			text = string([]rune(text)[:longestTopCause]) + "…"
		}
		line(b, label, "%6s  %s", humanize.Percent(c.Percent), text)
		label = ""
	}
	if w.Skipped != "" {
		line(b, label, "%s; %s", sanitize.Text(w.Skipped), s.reportCommand())
		return
	}
	line(b, label, "        all causes: %s", s.reportCommand())
}

// reportCommand returns the command that makes a report of the trace.
func (s *Summary) reportCommand() string {
	return shellWord(sanitize.Text(cmp.Or(s.Command, "rtl-attach"))) + " report " + shellWord(sanitize.Text(s.File))
}
