package copies

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Report is the section on memory copies: Begun is the sum of Timed, Untimed and Unexplained.
type Report struct {
	Begun       int64          `json:"begun"`
	Timed       int64          `json:"timed"`
	Untimed     []Untimed      `json:"untimed"`
	Unexplained int64          `json:"unexplained"` // begun, and no record accounts for them
	Surplus     int64          `json:"surplus"`     // recorded, but never begun: the numbers are wrong
	Directions  []DirectionSum `json:"directions"`  // the copies that start in the report's window
	Blits       []Blit         `json:"blits"`       // HIP's own kernels that copy or fill; they count as kernels, not above
}

// Untimed is the number of copies without times for one reason.
type Untimed struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
	Copies int64  `json:"copies"`
}

// DirectionSum sums up the timed copies of one direction. Copies may overlap: TotalNS is the
// sum of their times.
type DirectionSum struct {
	Name           string `json:"name"`
	Copies         int64  `json:"copies"`
	Bytes          int64  `json:"bytes"`
	TotalNS        int64  `json:"total_ns"`
	BytesPerSecond int64  `json:"bytes_per_second"` // while copying
}

// Blit sums up HIP's own kernels of one type.
type Blit struct {
	What       string `json:"what"` // copy, fill
	Dispatches int64  `json:"dispatches"`
	TotalNS    int64  `json:"total_ns"`
}

var directionTable = kind.Table{
	Name: "copies", Columns: []string{"direction", "copies", "bytes", "total_ns", "bytes_per_second"},
	Rows: func(value any) (rows [][]any) {
		for _, d := range value.(*Report).Directions {
			rows = append(rows, []any{d.Name, d.Copies, d.Bytes, d.TotalNS, d.BytesPerSecond})
		}
		return rows
	},
}

// read returns nil if copies were not recorded.
func read(r *kind.Reading) (*kind.Section, error) {
	c := &Report{Untimed: []Untimed{}, Directions: []DirectionSum{}, Blits: []Blit{}}
	recorded, err := c.readAccounts(r)
	if err != nil || !recorded {
		return nil, err
	}
	for _, step := range []func(*kind.Reading) error{c.readUntimed, c.readDirections, c.countBlits} {
		if err := step(r); err != nil {
			return nil, err
		}
	}
	s := &kind.Section{Value: c, Lines: c.lines(r.Where), None: c.none()}
	for _, d := range c.Directions {
		s.Timed = traceread.Sum(s.Timed, d.Copies)
	}
	return s, nil
}

// readAccounts adds up the copies that were begun. A killed recorder has written no final
// account: only the recorded copies of its session are known.
func (c *Report) readAccounts(r *kind.Reading) (recorded bool, err error) {
	account, surplus, sessions := kind.Accounts(r.Trace, ring.KindMemoryCopy)
	c.Begun, c.Unexplained, c.Surplus = account.Begun, account.Unexplained, surplus
	err = r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var of, copies, timed int64
		if err := row.Scan(&of, &copies, &timed); err != nil {
			return err
		}
		recorded = true
		c.Timed = traceread.Sum(c.Timed, timed)
		s := r.Trace.Session(of)
		if s != nil {
			if _, settled := s.Kinds[ring.KindMemoryCopy.String()]; settled {
				return nil
			}
		}
		c.Begun = traceread.Sum(c.Begun, copies)
		return nil
	}, "SELECT session_id, count(*), sum(reason_id = 0) FROM rtl_copy GROUP BY session_id")
	return recorded || sessions > 0, err
}

func (c *Report) readUntimed(r *kind.Reading) error {
	return r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var u Untimed
		err := row.Scan(&u.Reason, &u.Text, &u.Copies)
		c.Untimed = append(c.Untimed, u)
		return err
	}, `SELECT r.name, r.text, count(*) AS copies FROM rtl_copy c JOIN rtl_reason r ON r.id = c.reason_id
		WHERE c.reason_id <> 0 GROUP BY r.id ORDER BY copies DESC`)
}

// readDirections counts the timed copies that start in the window. It uses total() instead of
// sum(), which fails with "integer overflow" for hostile numbers.
func (c *Report) readDirections(r *kind.Reading) error {
	return r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var d DirectionSum
		err := row.Scan(&d.Name, &d.Copies, &d.Bytes, &d.TotalNS)
		if d.TotalNS > 0 {
			d.BytesPerSecond = int64(float64(d.Bytes) / float64(d.TotalNS) * 1e9)
		}
		c.Directions = append(c.Directions, d)
		return err
	}, `SELECT d.name, count(*), CAST(total(c.bytes) AS INTEGER), CAST(total(c.duration_ns) AS INTEGER)
		FROM rtl_copy c JOIN rtl_direction d ON d.id = c.direction WHERE c.reason_id = 0 AND c.start_ns >= ? AND c.start_ns < ?
		GROUP BY d.id ORDER BY d.id`, r.Window.BeginNS, r.Window.EndNS)
}

// countBlits counts HIP's own kernels among the report's kernels.
func (c *Report) countBlits(r *kind.Reading) error {
	byWhat := map[string]*Blit{}
	err := r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var nameID int64
		var what string
		if err := row.Scan(&nameID, &what); err != nil {
			return err
		}
		calls, totalNS := r.Kernel(nameID)
		if calls == 0 {
			return nil
		}
		if byWhat[what] == nil {
			byWhat[what] = &Blit{What: what}
		}
		byWhat[what].Dispatches += calls
		byWhat[what].TotalNS = traceread.Sum(byWhat[what].TotalNS, totalNS)
		return nil
	}, "SELECT DISTINCT l.name_id, b.what FROM rtl_blit b JOIN rtl_launch l ON l.id = b.launch_id")
	for _, what := range slices.Sorted(maps.Keys(byWhat)) {
		c.Blits = append(c.Blits, *byWhat[what])
	}
	return err
}

// lines returns the section's text. It sanitizes names, which come from the trace.
// none returns what was not recorded; "": copies were.
func (c *Report) none() string {
	if c.Begun > 0 || c.Timed > 0 || len(c.Blits) > 0 {
		return ""
	}
	return "copies"
}

func (c *Report) lines(where string) []kind.Line {
	all := []kind.Line{{Label: "Copies", Text: fmt.Sprintf("%s of %s timed", humanize.Count(c.Timed), humanize.Count(c.Begun))}}
	say := func(format string, args ...any) { all = append(all, kind.Line{Text: fmt.Sprintf(format, args...)}) }
	for _, u := range c.Untimed {
		say("%s untimed: %s", humanize.Count(u.Copies), sanitize.Text(u.Text))
	}
	if c.Unexplained > 0 {
		say("%s begun whose record never arrived", humanize.Count(c.Unexplained))
	}
	if c.Surplus > 0 {
		say("%s beyond what the payload says were begun: do not trust these numbers", humanize.Count(c.Surplus))
	}
	for _, d := range c.Directions {
		say("%s%s: %s, %s in %s, %s/s", sanitize.Text(d.Name), where, humanize.Count(d.Copies), humanize.Bytes(d.Bytes),
			humanize.Duration(time.Duration(d.TotalNS)), humanize.Bytes(d.BytesPerSecond))
	}
	for _, b := range c.Blits {
		say("and %s of HIP's kernels that %s%s, in %s: counted as kernels",
			humanize.Count(b.Dispatches), sanitize.Text(b.What), where, humanize.Duration(time.Duration(b.TotalNS)))
	}
	return all
}
