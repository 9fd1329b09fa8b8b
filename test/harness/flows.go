package harness

import (
	"cmp"
	"database/sql"
	"errors"
	"slices"
	"testing"
)

// Flow is a kernel or a copy, and the call of HIP's runtime API that submitted it.
type Flow struct {
	ID, StartNS             int64  // row and start
	Symbol                  string // of a kernel
	TID, SubmitNS           int64
	Function                string // "": no recorded call contains the submit
	CallStartNS, CallEndNS  int64
	BeforeFirst, BehindLast bool // of the recorded calls of its thread
}

// ReadFlows finds the calls of a trace's kernels and copies, of those with a known submit, by their rows. Unlike
// the exports, it looks at each call of the thread, from the last one back.
func ReadFlows(t testing.TB, path string) (kernels, copies map[int64]Flow) {
	t.Helper()
	db := sound(t, path)
	defer db.Close()
	calls := map[int64][]Flow{}
	kernels, copies = map[int64]Flow{}, map[int64]Flow{}
	read := func(into map[int64]Flow) func(*sql.Rows) error {
		return func(r *sql.Rows) error {
			var thread int64
			var f Flow
			err := r.Scan(&f.ID, &f.StartNS, &f.Symbol, &thread, &f.TID, &f.SubmitNS)
			f.find(calls[thread])
			into[f.ID] = f
			return err
		}
	}
	err := errors.Join(
		each(db, `SELECT c.thread_id, n.string, c.start_ns, c.start_ns + c.duration_ns FROM rtl_call c JOIN rtl_function f ON f.id = c.function_id
			JOIN rocpd_string n ON n.id = f.name_id JOIN rocpd_string a ON a.id = f.api_id WHERE a.string = 'hip-runtime-api'`, func(r *sql.Rows) error {
			var thread int64
			var c Flow
			err := r.Scan(&thread, &c.Function, &c.CallStartNS, &c.CallEndNS)
			calls[thread] = append(calls[thread], c)
			return err
		}),
		each(db, `SELECT e.id, e.start_ns, s.string, t.id, t.tid, e.start_ns - e.queued_ns FROM rtl_execution e JOIN rtl_context c ON c.id = e.context_id
			JOIN rtl_launch l ON l.id = c.launch_id JOIN rocpd_string s ON s.id = l.symbol_id JOIN rtl_thread t ON t.id = c.thread_id
			WHERE e.queued_ns IS NOT NULL`, read(kernels)),
		each(db, `SELECT c.id, c.start_ns, '', t.id, t.tid, c.submit_ns FROM rtl_copy c JOIN rtl_thread t ON t.id = c.thread_id
			WHERE c.start_ns IS NOT NULL AND c.submit_ns IS NOT NULL`, read(copies)))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return kernels, copies
}

// find finds the call that contains the submit: the one that began last.
func (f *Flow) find(calls []Flow) {
	f.BeforeFirst = !slices.ContainsFunc(calls, func(c Flow) bool { return c.CallStartNS <= f.SubmitNS })
	f.BehindLast = !slices.ContainsFunc(calls, func(c Flow) bool { return c.CallEndNS >= f.SubmitNS })
	around := slices.DeleteFunc(slices.Clone(calls), func(c Flow) bool { return c.CallStartNS > f.SubmitNS || c.CallEndNS < f.SubmitNS })
	if len(around) > 0 {
		c := slices.MaxFunc(around, func(a, b Flow) int { return cmp.Compare(a.CallStartNS, b.CallStartNS) })
		f.Function, f.CallStartNS, f.CallEndNS = c.Function, c.CallStartNS, c.CallEndNS
	}
}
