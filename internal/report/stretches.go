package report

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// stretches are times apart from each other, in their order. What is asked about
// them comes in the order of time, too: those that are past are forgotten.
type stretches []span

// add takes one that begins no earlier than the last one.
func (s *stretches) add(one span) {
	if last := len(*s) - 1; last >= 0 && one.beginNS <= (*s)[last].endNS {
		(*s)[last].endNS = max((*s)[last].endNS, one.endNS)
		return
	}
	*s = append(*s, one)
}

// within is how much of a time lies in them, of what is measured.
func (s *stretches) within(m measure, beginNS, endNS int64) (ns int64) {
	for len(*s) > 0 && (*s)[0].endNS <= beginNS {
		*s = (*s)[1:]
	}
	for _, one := range *s {
		if one.beginNS >= endNS {
			break
		}
		ns += m.length(max(one.beginNS, beginNS), min(one.endNS, endNS))
	}
	return ns
}

// mostStretches bounds those that are held. Where there are more, no gap is put
// down to a copy.
const mostStretches = 1 << 20

// readCopies finds when a copy ran on each GPU, if the trace has copies.
func (tr *trace) readCopies() error {
	if has, err := tracedb.HasCopies(tr.db); err != nil || !has {
		return err
	}
	rows, err := tr.db.Query(`SELECT a.gpu_id, c.start_ns, c.start_ns + c.duration_ns
		FROM rtl_copy c JOIN rtl_agent a ON a.id IN (c.from_agent_id, c.to_agent_id)
		WHERE c.start_ns >= 0 AND c.duration_ns > 0 AND c.start_ns + c.duration_ns <= ? ORDER BY c.start_ns`, int64(latest))
	if err != nil {
		return err
	}
	defer rows.Close()
	return tr.addCopies(rows)
}

func (tr *trace) addCopies(rows *sql.Rows) error {
	for n := 0; rows.Next(); {
		var of int64
		var s span
		if err := rows.Scan(&of, &s.beginNS, &s.endNS); err != nil {
			return fmt.Errorf("%w: %w", ErrImpossible, err)
		}
		g := tr.gpus[of]
		if g == nil {
			continue
		}
		before := len(g.copies)
		g.copies.add(s)
		if n += len(g.copies) - before; n > mostStretches {
			for _, g := range tr.gpus {
				g.copies = nil
			}
			return nil
		}
	}
	return rows.Err()
}

// A lossTime is when records of a session were lost.
type lossTime struct {
	session *session
	span
}

// readLosses finds when records were lost: whatever ran on the session's GPUs then may
// not be here. Where that is not known, it is from the session's begin, or to its end.
func (tr *trace) readLosses() error {
	var all []lossTime
	err := each(tr.db, func(r *sql.Rows) error {
		var of int64
		var l lossTime
		err := r.Scan(&of, &l.beginNS, &l.endNS)
		if l.session = tr.sessions[of]; l.session != nil {
			l.beginNS, l.endNS = tracedb.LossSpan(l.beginNS, l.endNS, l.session.armedNS, cmp.Or(l.session.detachedNS, latest))
			all = append(all, l)
		}
		return err
	}, "SELECT session_id, coalesce(from_ns, 0), coalesce(until_ns, 0) FROM rtl_loss")
	slices.SortStableFunc(all, func(a, b lossTime) int { return cmp.Compare(a.beginNS, b.beginNS) })
	for _, l := range all {
		for g := range l.session.stays {
			g.lost.add(l.span)
		}
	}
	return err
}
