package markers

import (
	"fmt"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Report is the section on ROCTx. A range is two calls, a mark one: Begun is the sum of Timed and
// Unexplained, which are calls.
type Report struct {
	Begun       int64        `json:"begun"`
	Timed       int64        `json:"timed"`
	Unexplained int64        `json:"unexplained"` // begun, and no record accounts for them
	Surplus     int64        `json:"surplus"`     // recorded, but never begun: the numbers are wrong
	Libraries   []Library    `json:"libraries"`
	Incomplete  []Incomplete `json:"incomplete"` // ranges without a start or an end
	Phases      []Phase      `json:"phases"`     // what starts in the report's window, by name
	Further     int64        `json:"further"`    // marks and ranges of names that are not in Phases
}

// Library is how a library's markers came.
type Library struct {
	Name     string `json:"name"`
	Way      string `json:"way"` // not loaded, recorded, ...
	Sessions int64  `json:"sessions"`
}

// Incomplete is the number of ranges without a start or an end for one reason.
type Incomplete struct {
	Text   string `json:"text"`
	Ranges int64  `json:"ranges"`
}

// Phase sums up the marks, or the complete ranges, with one name. The kernels are those that the
// range's thread submitted within it, or any thread of the process within a process range: the
// ranges around a range have them, too.
type Phase struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"` // mark, range, process range
	Count   int64  `json:"count"`
	TotalNS int64  `json:"total_ns"`
	MeanNS  int64  `json:"mean_ns"`
	MaxNS   int64  `json:"max_ns"`
	Kernels int64  `json:"kernels"`
	GPUNS   int64  `json:"gpu_ns"` // the sum of the kernels' times
}

var phaseTable = kind.Table{
	Name: "markers", Columns: []string{"name", "kind", "count", "total_ns", "mean_ns", "max_ns", "kernels", "gpu_ns"},
	Rows: func(value any) (rows [][]any) {
		for _, p := range value.(*Report).Phases {
			rows = append(rows, []any{p.Name, p.Kind, p.Count, p.TotalNS, p.MeanNS, p.MaxNS, p.Kernels, p.GPUNS})
		}
		return rows
	},
}

// read returns nil if markers were not recorded.
func read(r *kind.Reading) (*kind.Section, error) {
	all := &Report{Libraries: []Library{}, Incomplete: []Incomplete{}, Phases: []Phase{}}
	recorded, err := all.readAccounts(r)
	if err != nil || !recorded {
		return nil, err
	}
	for _, step := range []func(*kind.Reading) error{all.readLibraries, all.readIncomplete, all.readPhases} {
		if err := step(r); err != nil {
			return nil, err
		}
	}
	s := &kind.Section{Value: all, Lines: all.lines(r.Where), None: all.none(), Timed: all.Further}
	for _, p := range all.Phases {
		s.Timed = traceread.Sum(s.Timed, p.Count)
	}
	return s, nil
}

// readAccounts adds up the calls. A killed recorder has written no final account: only what the
// markers of its session tell of calls is known.
func (m *Report) readAccounts(r *kind.Reading) (recorded bool, err error) {
	account, surplus, sessions := kind.Accounts(r.Trace, ring.KindMarker)
	m.Begun, m.Timed, m.Unexplained, m.Surplus = account.Begun, account.Timed, account.Unexplained, surplus
	err = r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var of, calls int64
		if err := row.Scan(&of, &calls); err != nil {
			return err
		}
		recorded = true
		if s := r.Trace.Session(of); s != nil {
			if _, settled := s.Kinds[ring.KindMarker.String()]; settled {
				return nil
			}
		}
		m.Begun, m.Timed = traceread.Sum(m.Begun, calls), traceread.Sum(m.Timed, calls)
		return nil
	}, `SELECT session_id, count(*) + sum(form <> 0 AND start_ns IS NOT NULL AND end_ns IS NOT NULL) FROM rtl_marker GROUP BY session_id`)
	return recorded || sessions > 0, err
}

func (m *Report) readLibraries(r *kind.Reading) error {
	return r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var l Library
		err := row.Scan(&l.Name, &l.Way, &l.Sessions)
		m.Libraries = append(m.Libraries, l)
		return err
	}, `SELECT CASE l.library WHEN 0 THEN 'libroctx64' ELSE 'librocprofiler-sdk-roctx' END, w.text, count(DISTINCT l.session_id)
		FROM (SELECT session_id, library, way, max(way) OVER (PARTITION BY session_id, library) AS most FROM rtl_marker_library) l
		JOIN rtl_marker_way w ON w.id = l.way
		WHERE l.library IN (0, 1) AND (l.way <> 0 OR l.most = 0)
		GROUP BY l.library, w.id ORDER BY l.library, w.id`)
}

func (m *Report) readIncomplete(r *kind.Reading) error {
	return r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var one Incomplete
		err := row.Scan(&one.Text, &one.Ranges)
		m.Incomplete = append(m.Incomplete, one)
		return err
	}, `SELECT i.text, count(*) FROM rtl_marker m JOIN rtl_marker_missing i ON i.id = m.missing WHERE m.missing <> 0
		GROUP BY i.id ORDER BY i.id`)
}

// mostLines limits the names in the text.
const mostLines = 8

// none returns what was not recorded, and why; "": markers were.
func (m *Report) none() string {
	if m.Begun > 0 || m.Timed > 0 {
		return ""
	}
	var ways []string
	for _, l := range m.Libraries {
		ways = append(ways, sanitize.Text(l.Name)+" "+sanitize.Text(l.Way))
	}
	if len(ways) == 0 {
		return "markers"
	}
	return fmt.Sprintf("markers (%s)", strings.Join(ways, ", "))
}

// lines returns the section's text. It sanitizes names, which come from the trace.
func (m *Report) lines(where string) []kind.Line {
	all := []kind.Line{{Label: "Markers", Text: fmt.Sprintf("%s of %s recorded", humanize.Count(m.Timed), humanize.Things(m.Begun, "call"))}}
	say := func(format string, args ...any) { all = append(all, kind.Line{Text: fmt.Sprintf(format, args...)}) }
	for _, l := range m.Libraries {
		say("%s: %s", sanitize.Text(l.Name), sanitize.Text(l.Way))
	}
	if m.Unexplained > 0 {
		say("%s begun whose record never arrived", humanize.Count(m.Unexplained))
	}
	if m.Surplus > 0 {
		say("%s beyond what the payload says were begun: do not trust these numbers", humanize.Count(m.Surplus))
	}
	for _, one := range m.Incomplete {
		say("%s incomplete: %s", humanize.Things(one.Ranges, "range"), sanitize.Text(one.Text))
	}
	for _, p := range m.Phases[:min(len(m.Phases), mostLines)] {
		say("%s", p.line(where))
	}
	if n := len(m.Phases) - mostLines; n > 0 {
		say("and %s: report --csv=markers", humanize.Things(int64(n), "further name"))
	}
	if m.Further > 0 {
		say("and %s marks and ranges of still further names", humanize.Count(m.Further))
	}
	return all
}

func (p *Phase) line(where string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s: %s", title(p.Name), where, humanize.Things(p.Count, p.Kind))
	if p.Kind == markName {
		return b.String()
	}
	fmt.Fprintf(&b, " in %s, mean %s, longest %s", duration(p.TotalNS), duration(p.MeanNS), duration(p.MaxNS))
	if p.Kernels > 0 {
		fmt.Fprintf(&b, "; kernels submitted within: %s in %s", humanize.Count(p.Kernels), duration(p.GPUNS))
	}
	return b.String()
}

// title is a message as a part of a line.
func title(name string) string {
	if name == "" {
		return "(no text)"
	}
	const longest = 60
	return sanitize.Text(traceread.Cut(name, longest))
}

func duration(ns int64) string { return humanize.Duration(time.Duration(ns)) }
