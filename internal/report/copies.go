package report

import (
	"bytes"
	"maps"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Copies are the memory copies that the application asked the runtime for: begun
// = timed + untimed + unexplained.
type Copies struct {
	Begun       int64       `json:"begun"`
	Timed       int64       `json:"timed"`
	Untimed     []Untimed   `json:"untimed"`
	Unexplained int64       `json:"unexplained"` // begun, and neither timed nor accounted for
	Surplus     int64       `json:"surplus"`     // arrived, and never begun: the numbers are wrong
	Directions  []Direction `json:"directions"`  // of a report's window: the copies that start in it
	Blits       []Blit      `json:"blits"`       // HIP's own kernels that copy or fill: kernels, and not in the numbers above
}

// Direction is all timed copies of one direction. Copies may overlap: TotalNS is the sum of their times.
type Direction struct {
	Name           string `json:"name"`
	Copies         int64  `json:"copies"`
	Bytes          int64  `json:"bytes"`
	TotalNS        int64  `json:"total_ns"`
	BytesPerSecond int64  `json:"bytes_per_second"` // while copying
}

// Blit is one sort of HIP's own kernels.
type Blit struct {
	What       string `json:"what"` // copy, fill
	Dispatches int64  `json:"dispatches"`
	TotalNS    int64  `json:"total_ns"`
}

// readCopies leaves Copies nil where none were to be recorded.
func (s *Summary) readCopies(tr *traceread.Trace) error {
	if !tr.HasCopies {
		return nil
	}
	var sessions, rows int64
	c := &Copies{Untimed: []Untimed{}, Directions: []Direction{}, Blits: []Blit{}}
	// total() and not traceread.Sum(): hostile counts must not end in "integer overflow".
	// A recorder that was killed settled no account: the copies that came are all that is known.
	err := tr.DB.QueryRow(`SELECT count(*), CAST(total(begun) + (SELECT count(*) FROM rtl_copy
			WHERE session_id NOT IN (SELECT session_id FROM rtl_copy_coverage)) AS INTEGER), CAST(total(max(unexplained, 0)) AS INTEGER),
		CAST(total(max(-unexplained, 0)) AS INTEGER), (SELECT count(*) FROM rtl_copy), (SELECT count(*) FROM rtl_copy WHERE reason_id = 0)
		FROM rtl_copy_coverage`).Scan(&sessions, &c.Begun, &c.Unexplained, &c.Surplus, &rows, &c.Timed)
	if err != nil || sessions == 0 && rows == 0 {
		return err
	}
	s.Copies = c
	if err := c.readUntimed(tr); err != nil {
		return err
	}
	return c.readDirections(tr, traceread.Always)
}

func (c *Copies) readUntimed(tr *traceread.Trace) error {
	return tr.Define(background, func(r traceread.Row) error {
		var u Untimed
		err := r.Scan(&u.Reason, &u.Text, &u.Packets)
		c.Untimed = append(c.Untimed, u)
		return err
	}, `SELECT r.name, r.text, count(*) AS copies FROM rtl_copy c JOIN rtl_reason r ON r.id = c.reason_id
		WHERE c.reason_id <> 0 GROUP BY r.id ORDER BY copies DESC`)
}

// readDirections counts the timed copies that start in a window.
func (c *Copies) readDirections(tr *traceread.Trace, window traceread.Span) error {
	c.Directions = []Direction{}
	return tr.Define(background, func(r traceread.Row) error {
		var d Direction
		err := r.Scan(&d.Name, &d.Copies, &d.Bytes, &d.TotalNS)
		if d.TotalNS > 0 {
			d.BytesPerSecond = int64(float64(d.Bytes) / float64(d.TotalNS) * 1e9)
		}
		c.Directions = append(c.Directions, d)
		return err
	}, `SELECT d.name, count(*), CAST(total(c.bytes) AS INTEGER), CAST(total(c.duration_ns) AS INTEGER)
		FROM rtl_copy c JOIN rtl_direction d ON d.id = c.direction WHERE c.reason_id = 0 AND c.start_ns >= ? AND c.start_ns < ?
		GROUP BY d.id ORDER BY d.id`, window.BeginNS, window.EndNS)
}

// countBlits finds HIP's own kernels among those that were counted.
func (c *Copies) countBlits(a *analysis) error {
	byWhat := map[string]*Blit{}
	err := a.trace.Define(background, func(r traceread.Row) error {
		var nameID int64
		var what string
		err := r.Scan(&nameID, &what)
		k := a.kernels.byID[nameID]
		if err != nil || k == nil || k.calls == 0 {
			return err
		}
		if byWhat[what] == nil {
			byWhat[what] = &Blit{What: what}
		}
		byWhat[what].Dispatches += k.calls
		byWhat[what].TotalNS = traceread.Sum(byWhat[what].TotalNS, k.totalNS)
		return nil
	}, "SELECT DISTINCT l.name_id, b.what FROM rtl_blit b JOIN rtl_launch l ON l.id = b.launch_id")
	for _, what := range slices.Sorted(maps.Keys(byWhat)) {
		c.Blits = append(c.Blits, *byWhat[what])
	}
	return err
}

// writeCopies says where what is no account is counted: "", or in a window.
func (s *Summary) writeCopies(b *bytes.Buffer, where string) {
	c := s.Copies
	if c == nil {
		return
	}
	line(b, "Copies", "%s of %s timed", humanize.Count(c.Timed), humanize.Count(c.Begun))
	for _, u := range c.Untimed {
		line(b, "", "%s untimed: %s", humanize.Count(u.Packets), sanitize.Text(u.Text))
	}
	if c.Unexplained > 0 {
		line(b, "", "%s begun whose record never arrived", humanize.Count(c.Unexplained))
	}
	if c.Surplus > 0 {
		line(b, "", "%s beyond what the payload says were begun: do not trust these numbers", humanize.Count(c.Surplus))
	}
	for _, d := range c.Directions {
		line(b, "", "%s%s: %s, %s in %s, %s/s", sanitize.Text(d.Name), where, humanize.Count(d.Copies), humanize.Bytes(d.Bytes), duration(d.TotalNS), humanize.Bytes(d.BytesPerSecond))
	}
	for _, blit := range c.Blits {
		line(b, "", "and %s of HIP's kernels that %s%s, in %s: counted as kernels",
			humanize.Count(blit.Dispatches), sanitize.Text(blit.What), where, duration(blit.TotalNS))
	}
}
