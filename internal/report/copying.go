package report

import (
	"database/sql"
	"fmt"
)

// mostCopyTimes bounds the stretches in which copies ran. Where there are more,
// no gap is put down to a copy.
const mostCopyTimes = 1 << 20

// readCopies finds when a copy ran on each GPU, if the trace has copies.
func (tr *trace) readCopies() error {
	var tables int
	err := tr.db.QueryRow("SELECT count(*) FROM main.sqlite_master WHERE name = 'rtl_copy'").Scan(&tables)
	if err != nil || tables == 0 {
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
		if last := len(g.copies) - 1; last >= 0 && s.beginNS <= g.copies[last].endNS {
			g.copies[last].endNS = max(g.copies[last].endNS, s.endNS)
			continue
		}
		if n++; n > mostCopyTimes {
			for _, g := range tr.gpus {
				g.copies = nil
			}
			return nil
		}
		g.copies = append(g.copies, s)
	}
	return rows.Err()
}

// copied is how much of a stretch copies ran in, of what is measured. The
// stretches come in the order of time.
func (g *gpu) copied(m measure, beginNS, endNS int64) (ns int64) {
	for len(g.copies) > 0 && g.copies[0].endNS <= beginNS {
		g.copies = g.copies[1:]
	}
	for _, c := range g.copies {
		if c.beginNS >= endNS {
			break
		}
		ns += m.length(max(c.beginNS, beginNS), min(c.endNS, endNS))
	}
	return ns
}
