package harness

import (
	"database/sql"
	"testing"
)

// Graphs is the workload graphs, which logs the calls that it makes.
func Graphs(args ...string) Workload {
	return Workload{Program: "graphs", Args: args, LogsCalls: true}
}

type (
	// KernelStream is a row of the view kernel, with that of kernel_stream.
	KernelStream struct {
		ID, TID  int64
		Name     string
		SubmitNS int64 // 0: not known
		Stream   sql.NullInt64
	}
	// Dependency is a row of the view stream_dependency, with the call that recorded the event.
	Dependency struct {
		TID               int64
		Stream, ForStream sql.NullInt64
		StartNS           int64
		RecordTID         int64 // 0: none
		RecordNS          int64
	}
	// Replay is a row of the view graph_replay, with its kernels in their order.
	Replay struct {
		ID, Graph, Number, TID, StartNS int64
		EndNS                           int64
		Stream                          uint64
		Kernels                         int64
		Same                            bool
		Nodes                           []string
	}
)

// ReadKernelStreams reads the kernels of a trace and their streams.
func ReadKernelStreams(t testing.TB, path string) (all []KernelStream) {
	t.Helper()
	read(t, path, `SELECT k.id, coalesce(k.thread, 0), k.name, coalesce(k.submit_ns, 0), s.stream
		FROM kernel k LEFT JOIN kernel_stream s ON s.kernel_id = k.id`, func(r *sql.Rows) error {
		var k KernelStream
		err := r.Scan(&k.ID, &k.TID, &k.Name, &k.SubmitNS, &k.Stream)
		all = append(all, k)
		return err
	})
	return all
}

// ReadDependencies reads the waits of streams and threads for streams.
func ReadDependencies(t testing.TB, path string) (all []Dependency) {
	t.Helper()
	read(t, path, `SELECT d.thread, d.stream, d.for_stream, d.start_ns, coalesce(c.thread, 0), coalesce(d.record_ns, 0)
		FROM stream_dependency d LEFT JOIN call c ON c.id = d.record_id`, func(r *sql.Rows) error {
		var d Dependency
		err := r.Scan(&d.TID, &d.Stream, &d.ForStream, &d.StartNS, &d.RecordTID, &d.RecordNS)
		all = append(all, d)
		return err
	})
	return all
}

// ReadReplays reads the launches of graphs.
func ReadReplays(t testing.TB, path string) (all []Replay) {
	t.Helper()
	rows := map[int64]int{}
	read(t, path, "SELECT id, graph, replay, thread, start_ns, end_ns, stream, kernels, same FROM graph_replay ORDER BY start_ns, id", func(r *sql.Rows) error {
		var one Replay
		var stream int64
		err := r.Scan(&one.ID, &one.Graph, &one.Number, &one.TID, &one.StartNS, &one.EndNS, &stream, &one.Kernels, &one.Same)
		one.Stream, rows[one.ID] = uint64(stream), len(all)
		all = append(all, one)
		return err
	})
	read(t, path, "SELECT g.replay_id, k.name FROM graph_kernel g JOIN kernel k ON k.id = g.kernel_id ORDER BY g.replay_id, g.node", func(r *sql.Rows) error {
		var id int64
		var name string
		err := r.Scan(&id, &name)
		all[rows[id]].Nodes = append(all[rows[id]].Nodes, name)
		return err
	})
	return all
}

// AllQueues returns the time in which all queues of a trace were recorded. A detach closes the queues before it
// ends the recording of calls.
func AllQueues(t testing.TB, path string) (fromNS, untilNS int64) {
	t.Helper()
	read(t, path, `SELECT (SELECT max(opened_ns) FROM rtl_window), min(closed) FROM (SELECT max(closed_ns) AS closed FROM rtl_window GROUP BY queue_id)`,
		func(r *sql.Rows) error { return r.Scan(&fromNS, &untilNS) })
	return fromNS, untilNS
}

// UntimedPackets returns how many packets of a trace have no times.
func UntimedPackets(t testing.TB, path string) (n int) {
	t.Helper()
	read(t, path, "SELECT coalesce(sum(packets), 0) FROM rtl_untimed", func(r *sql.Rows) error { return r.Scan(&n) })
	return n
}

// read calls visit for each row of a query of a trace.
func read(t testing.TB, path, query string, visit func(*sql.Rows) error) {
	t.Helper()
	db := sound(t, path)
	defer db.Close()
	if err := each(db, query, visit); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}
