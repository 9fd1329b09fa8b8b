package report

import (
	"database/sql"
	"slices"
)

// A span is a stretch of time on one GPU in which one session recorded.
type span struct {
	gpu            int64
	beginNS, endNS int64
}

// readGPUs relates the busy time of each GPU to the time in which it was
// recorded: the sessions' own, and not the gaps between them.
func (s *Summary) readGPUs(db *sql.DB) error {
	recorded, err := recordedTimes(db)
	if err != nil {
		return err
	}
	s.GPUs = []GPU{}
	return each(db, func(r *sql.Rows) error {
		var g GPU
		if err := r.Scan(&g.ID, &g.Dispatches, &g.BusyNS, &g.Name); err != nil {
			return err
		}
		g.RecordedNS = recorded[g.ID]
		if g.RecordedNS > 0 {
			g.Percent = 100 * float64(g.BusyNS) / float64(g.RecordedNS)
		}
		g.AtLeast = !s.Coverage.Complete()
		s.GPUs = append(s.GPUs, g)
		return nil
	}, `SELECT a.gpu_id, coalesce(b.ops, 0), coalesce(b.busy_ns, 0), max(n.string)
		FROM rtl_agent a JOIN rtl_queue q ON q.agent_id = a.id JOIN rocpd_string n ON n.id = a.name_id
		LEFT JOIN busy b ON b.gpuId = a.gpu_id GROUP BY a.gpu_id ORDER BY a.gpu_id`)
}

// recordedTimes adds up, for each GPU, the union of the sessions on it. A
// session reaches from the hooks to their removal, and on to the end of the
// last kernel that was waited for.
func recordedTimes(db *sql.DB) (map[int64]int64, error) {
	var spans []span
	err := each(db, func(r *sql.Rows) error {
		var one span
		err := r.Scan(&one.gpu, &one.beginNS, &one.endNS)
		spans = append(spans, one)
		return err
	}, `SELECT gpu_id, begin_ns, end_ns FROM (SELECT a.gpu_id AS gpu_id,
			min(coalesce(d.start_ns, s.armed_ns), coalesce(s.armed_ns, d.start_ns)) AS begin_ns,
			max(coalesce(d.end_ns, s.detached_ns), coalesce(s.detached_ns, d.end_ns)) AS end_ns
		FROM rtl_queue q JOIN rtl_agent a ON a.id = q.agent_id JOIN rtl_session s ON s.id = q.session_id
		LEFT JOIN (SELECT queue_id, min(start_ns) AS start_ns, max(start_ns + duration_ns) AS end_ns
			FROM rtl_dispatch GROUP BY queue_id) d ON d.queue_id = q.id)
		WHERE begin_ns IS NOT NULL AND end_ns IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(spans, func(a, b span) int { return int(min(1, max(-1, a.beginNS-b.beginNS))) })
	total, until := map[int64]int64{}, map[int64]int64{}
	for _, s := range spans {
		if reached, ok := until[s.gpu]; ok {
			s.beginNS = max(s.beginNS, reached)
		}
		if s.endNS > s.beginNS {
			total[s.gpu] += s.endNS - s.beginNS
			until[s.gpu] = s.endNS
		}
	}
	return total, nil
}
