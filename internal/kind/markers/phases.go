package markers

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

const markName = "mark"

var formNames = [forms]string{markName, "range", "process range"}

// Bounds of what a report holds in memory.
const (
	mostNames  = 1 << 16
	mostAtOnce = 1 << 20 // ranges of one thread or process
)

// phaseKey identifies a phase. Two rows of a trace may have one text.
type phaseKey struct {
	form   Form
	nameID int64
}

// phases adds up marks and ranges by their names.
type phases struct {
	by      map[phaseKey]*Phase
	further int64
}

// of returns the sums for a name; nil: there are too many names.
func (ps *phases) of(key phaseKey) *Phase {
	p := ps.by[key]
	if p == nil {
		if len(ps.by) == mostNames {
			return nil
		}
		p = &Phase{Kind: formNames[key.form]}
		ps.by[key] = p
	}
	return p
}

// span is a range with the sums, over the kernels of its thread or process, when it began.
type span struct {
	startNS, endNS int64
	key            phaseKey
	kernels, gpuNS int64
}

func (ps *phases) add(s *span, kernels, gpuNS int64) {
	p := ps.of(s.key)
	if p == nil {
		ps.further++
		return
	}
	long := s.endNS - s.startNS
	p.Count++
	p.TotalNS, p.MaxNS = traceread.Sum(p.TotalNS, long), max(p.MaxNS, long)
	p.Kernels = traceread.Sum(p.Kernels, kernels-s.kernels)
	p.GPUNS = traceread.Sum(p.GPUNS, gpuNS-s.gpuNS)
}

// readPhases counts the marks and complete ranges that start in the window.
func (m *Report) readPhases(r *kind.Reading) error {
	ps := &phases{by: map[phaseKey]*Phase{}}
	for _, step := range []func(*kind.Reading, *phases) error{readMarks, readThreadRanges, readProcessRanges, readNames} {
		if err := step(r, ps); err != nil {
			return err
		}
	}
	for _, p := range ps.by {
		p.MeanNS = p.TotalNS / max(1, p.Count)
		m.Phases = append(m.Phases, *p)
	}
	slices.SortFunc(m.Phases, func(a, b Phase) int { return a.compare(&b) })
	m.Further = ps.further
	return nil
}

func readMarks(r *kind.Reading, ps *phases) error {
	return r.Trace.Each(r.Ctx, func(row traceread.Row) error {
		var nameID, n int64
		if err := row.Scan(&nameID, &n); err != nil {
			return err
		}
		if p := ps.of(phaseKey{Mark, nameID}); p != nil {
			p.Count = n
		} else {
			ps.further = traceread.Sum(ps.further, n)
		}
		return nil
	}, `SELECT coalesce(name_id, 0), count(*) FROM rtl_marker WHERE form = 0 AND start_ns >= ? AND start_ns < ? GROUP BY 1`,
		r.Window.BeginNS, r.Window.EndNS)
}

func readThreadRanges(r *kind.Reading, ps *phases) error {
	return ps.readRanges(r, Range, "m.thread_id", `SELECT c.thread_id AS place, e.start_ns - e.queued_ns AS at, e.duration_ns AS ns
		FROM rtl_context c JOIN rtl_execution e ON e.context_id = c.id
		WHERE c.thread_id IN (SELECT thread_id FROM rtl_marker WHERE form = 1)`)
}

func readProcessRanges(r *kind.Reading, ps *phases) error {
	return ps.readRanges(r, ProcessRange, "m.session_id", `SELECT q.session_id AS place, e.start_ns - e.queued_ns AS at, e.duration_ns AS ns
		FROM rtl_queue q JOIN rtl_context c ON c.queue_id = q.id JOIN rtl_execution e ON e.context_id = c.id
		WHERE q.session_id IN (SELECT session_id FROM rtl_marker WHERE form = 2)`)
}

// readRanges reads the ranges of one form with the kernels submitted at their place: their
// thread, or their process. Each place's ranges and kernels come in the order of time, so that
// one pass adds up the kernels, however many ranges are around them.
func (ps *phases) readRanges(r *kind.Reading, form Form, place, kernels string) error {
	s := sweep{phases: ps, form: form}
	err := r.Trace.Each(r.Ctx, s.row, fmt.Sprintf(`SELECT place, at, end_ns, name_id, ns FROM (
		SELECT %s AS place, m.start_ns AS at, m.end_ns AS end_ns, coalesce(m.name_id, 0) AS name_id, -1 AS ns
		FROM rtl_marker m WHERE m.form = ? AND m.start_ns >= ? AND m.start_ns < ? AND m.end_ns BETWEEN m.start_ns AND ?
		UNION ALL
		SELECT place, at, 0, 0, ns FROM (%s AND e.start_ns BETWEEN 0 AND ? AND e.queued_ns BETWEEN 0 AND e.start_ns AND e.duration_ns BETWEEN 0 AND ?))
		WHERE place IS NOT NULL ORDER BY place, at, ns`, place, kernels),
		int64(form), r.Window.BeginNS, r.Window.EndNS, int64(traceread.LatestNS), int64(traceread.LatestNS), int64(traceread.LatestNS))
	s.until(noEnd)
	return err
}

// noEnd is later than any range's end.
const noEnd = int64(1<<63 - 1)

// sweep adds up the kernels inside ranges, in one pass over both.
type sweep struct {
	*phases
	form           Form
	place          int64
	open           spans
	kernels, gpuNS int64 // so far, at this place
}

func (s *sweep) row(row traceread.Row) error {
	var place, atNS, endNS, nameID, ns int64
	if err := row.Scan(&place, &atNS, &endNS, &nameID, &ns); err != nil {
		return err
	}
	if place != s.place {
		s.until(noEnd)
		s.place, s.kernels, s.gpuNS = place, 0, 0
	}
	s.until(atNS)
	if ns >= 0 {
		s.kernels++
		s.gpuNS = traceread.Sum(s.gpuNS, ns)
		return nil
	}
	if len(s.open) == mostAtOnce {
		return fmt.Errorf("over %d ranges at once: %w", mostAtOnce, traceread.ErrImpossible)
	}
	heap.Push(&s.open, span{startNS: atNS, endNS: endNS, key: phaseKey{s.form, nameID}, kernels: s.kernels, gpuNS: s.gpuNS})
	return nil
}

// until ends the ranges that have ended before a time.
func (s *sweep) until(atNS int64) {
	for len(s.open) > 0 && s.open[0].endNS < atNS {
		one := heap.Pop(&s.open).(span)
		s.add(&one, s.kernels, s.gpuNS)
	}
}

// spans is a heap of ranges, the first to end first.
type spans []span

func (s spans) Len() int           { return len(s) }
func (s spans) Less(i, j int) bool { return s[i].endNS < s[j].endNS }
func (s spans) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *spans) Push(x any)        { *s = append(*s, x.(span)) }
func (s *spans) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// readNames reads the messages of the phases.
func readNames(r *kind.Reading, ps *phases) error {
	return r.Trace.Each(r.Ctx, func(row traceread.Row) error {
		var id int64
		var name string
		if err := row.Scan(&id, &name); err != nil {
			return err
		}
		for form := range forms {
			if p := ps.by[phaseKey{form, id}]; p != nil {
				p.Name = traceread.Cut(name, traceread.LongestName)
			}
		}
		return nil
	}, "SELECT id, string FROM rocpd_string WHERE id IN (SELECT name_id FROM rtl_marker)")
}

// compare orders phases: ranges before marks, the longest in all first.
func (p *Phase) compare(other *Phase) int {
	if of := (p.Kind == markName) != (other.Kind == markName); of {
		if p.Kind == markName {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(other.TotalNS, p.TotalNS), cmp.Compare(other.Count, p.Count), cmp.Compare(p.Name, other.Name), cmp.Compare(p.Kind, other.Kind))
}
