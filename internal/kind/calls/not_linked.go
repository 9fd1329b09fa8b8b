package calls

import (
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// activity is what a thread has called and submitted.
type activity struct {
	calls             bool // of HIP
	launches, kernels int64
}

// readNotLinked finds the sessions whose kernels threads submit that call nothing of HIP, while the
// threads that launch kernels submit few: HIP's own threads do it for them (AMD_DIRECT_DISPATCH=0).
func (c *Report) readNotLinked(r *kind.Reading, a *api, s *sums) error {
	if a.id != ring.KindHIPRuntimeAPI || !slices.ContainsFunc(c.Functions, func(f FunctionSum) bool { return launches(f.Name) }) {
		return nil
	}
	sessions := map[int64][]*activity{}
	err := r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var session, thread, kernels int64
		if err := row.Scan(&session, &thread, &kernels); err != nil {
			return err
		}
		one := s.activities[thread]
		if one == nil {
			one = &activity{}
		}
		one.kernels = kernels
		sessions[session] = append(sessions[session], one)
		return nil
	}, `SELECT t.session_id, t.id, coalesce(k.kernels, 0) FROM rtl_thread t LEFT JOIN (
			SELECT x.thread_id AS thread_id, count(*) AS kernels FROM rtl_execution e JOIN rtl_context x ON x.id = e.context_id
			WHERE e.queued_ns IS NOT NULL AND e.start_ns >= ? AND e.start_ns < ? GROUP BY 1) k ON k.thread_id = t.id`,
		r.Window.BeginNS, r.Window.EndNS)
	for _, session := range r.Trace.Sessions {
		if submitByOthers(sessions[session.ID]) {
			c.NotLinked = append(c.NotLinked, session.ID)
		}
	}
	return err
}

// submitByOthers reports whether threads that do not call HIP submit most kernels, and most launches
// of the threads that call it submit none.
func submitByOthers(threads []*activity) bool {
	var launched, byLaunchers, byOthers, all int64
	for _, t := range threads {
		all += t.kernels
		if t.launches > 0 {
			launched += t.launches
			byLaunchers += t.kernels
		}
		if !t.calls {
			byOthers += t.kernels
		}
	}
	return launched > 0 && byOthers > all/2 && byLaunchers < launched/2
}
