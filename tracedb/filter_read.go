package tracedb

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mattn/go-sqlite3"
)

// ReadFilter selects what a reader gets of a trace. Kernels that are left out are rows of
// rtl_filtered and rtl_filtered_kernel, as if the recording had left them out. Sessions that
// are left out are in no table.
type ReadFilter struct {
	Session func(id int64) bool
	Kernel  func(nameID, symbolID, agentID int64) bool

	Iterations  []Iterations // used if ByIteration
	ByIteration bool
}

// Iterations are consecutive dispatches of a kernel in one session that a reader gets, in the order
// of their ends; at the same time, of their ids.
type Iterations struct{ Session, Name, FirstEndNS, FirstID, LastEndNS, LastID int64 }

// keptSQL is true for the rows e of main.rtl_execution that the filter selects.
func (f *ReadFilter) keptSQL() string {
	if !f.ByIteration {
		return "e.context_id IN (SELECT id FROM temp.filter_context)"
	}
	return `EXISTS (SELECT 1 FROM temp.filter_context k JOIN temp.filter_range r ON r.session_id = k.session_id AND r.name_id = k.name_id
		WHERE k.id = e.context_id AND (e.start_ns + e.duration_ns, e.id) BETWEEN (r.first_ns, r.first_id) AND (r.last_ns, r.last_id))`
}

// Tables in which the decisions of a filter are, for each connection.
const filterTables = `CREATE TEMP TABLE filter_session(id INTEGER PRIMARY KEY);
INSERT INTO filter_session SELECT id FROM main.rtl_session WHERE rtl_has_session(id);
CREATE TEMP TABLE filter_context(id INTEGER PRIMARY KEY, session_id INTEGER, name_id INTEGER);
INSERT INTO filter_context SELECT c.id, q.session_id, l.name_id
FROM (SELECT * FROM main.rtl_context LIMIT %[1]d OFFSET 0) c
JOIN main.rtl_queue q ON q.id = c.queue_id JOIN main.rtl_launch l ON l.id = c.launch_id
WHERE q.session_id IN (SELECT id FROM filter_session) AND rtl_has_kernel(l.name_id, l.symbol_id, q.agent_id);
CREATE TEMP TABLE filter_range(session_id INTEGER, name_id INTEGER, first_ns INTEGER, first_id INTEGER,
	last_ns INTEGER, last_id INTEGER, PRIMARY KEY(session_id, name_id, first_ns, first_id)) WITHOUT ROWID;
`

// Views that hide the file's tables: %[1]s is keptSQL, %[2]s and %[3]s select what the recording left out.
const filterViews = `CREATE TEMP VIEW rtl_execution AS
SELECT id, context_id, packet_index, start_ns, duration_ns, queued_ns FROM main.rtl_execution e WHERE %[1]s;
CREATE TEMP VIEW rtl_filtered AS %[2]s
SELECT e.id AS id, c.queue_id AS queue_id, e.packet_index AS packet_index, 0 AS packets_after, e.start_ns AS start_ns,
	e.duration_ns AS duration_ns, e.queued_ns AS queued_ns, 1 AS kernels
FROM main.rtl_execution e CROSS JOIN main.rtl_context c ON c.id = e.context_id CROSS JOIN main.rtl_queue q ON q.id = c.queue_id
WHERE q.session_id IN (SELECT id FROM temp.filter_session) AND NOT (%[1]s);
CREATE TEMP VIEW rtl_filtered_kernel AS
SELECT session_id, name_id, CAST(total(kernels) AS INTEGER) AS kernels, CAST(total(total_ns) AS INTEGER) AS total_ns FROM (%[3]s
	SELECT q.session_id AS session_id, l.name_id AS name_id, 1 AS kernels, e.duration_ns AS total_ns
	FROM main.rtl_execution e CROSS JOIN main.rtl_context c ON c.id = e.context_id CROSS JOIN main.rtl_queue q ON q.id = c.queue_id
		CROSS JOIN main.rtl_launch l ON l.id = c.launch_id
	WHERE NOT (%[1]s))
WHERE session_id IN (SELECT id FROM temp.filter_session) GROUP BY session_id, name_id;
`

const (
	filteredBefore = `SELECT id, queue_id, packet_index, packets_after, start_ns, duration_ns, queued_ns, kernels FROM main.rtl_filtered
WHERE queue_id IN (SELECT id FROM main.rtl_queue WHERE session_id IN (SELECT id FROM temp.filter_session)) UNION ALL `
	filteredKernelBefore = "SELECT session_id, name_id, kernels, total_ns FROM main.rtl_filtered_kernel UNION ALL"
)

// prepare applies the filter to a connection of a reader.
func (f *ReadFilter) prepare(c *sqlite3.SQLiteConn, hasFiltered bool, mostRows int64) error {
	err := errors.Join(c.RegisterFunc("rtl_has_session", f.Session, true), c.RegisterFunc("rtl_has_kernel", f.Kernel, true))
	if err != nil {
		return err
	}
	before, kernelBefore := filteredBefore, filteredKernelBefore
	if !hasFiltered {
		before, kernelBefore = "", ""
	}
	text := fmt.Sprintf(filterTables, mostRows) + fmt.Sprintf(filterViews, f.keptSQL(), before, kernelBefore) + sessionViews()
	if _, err = c.Exec(text, nil); err != nil {
		return err
	}
	for rest := range slices.Chunk(f.Iterations, 256) {
		var values []string
		for _, r := range rest {
			values = append(values, fmt.Sprintf("(%d,%d,%d,%d,%d,%d)", r.Session, r.Name, r.FirstEndNS, r.FirstID, r.LastEndNS, r.LastID))
		}
		if _, err := c.Exec("INSERT INTO temp.filter_range VALUES "+strings.Join(values, ","), nil); err != nil {
			return err
		}
	}
	return nil
}

// sessionViews hides the rows of sessions that are left out in all tables that refer to
// sessions or queues.
var sessionViews = sync.OnceValue(func() string {
	const kept = "(SELECT id FROM temp.filter_session)"
	text := "CREATE TEMP VIEW rtl_session AS SELECT * FROM main.rtl_session WHERE id IN " + kept + ";\n"
	err := withEmpty(func(conn *sql.Conn) error {
		rows, err := conn.QueryContext(background, `SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c
			WHERE t.type = 'table' AND c.name IN ('session_id', 'queue_id')
			AND t.name NOT IN ('rtl_session', 'rtl_context', 'rtl_filtered', 'rtl_filtered_kernel') ORDER BY t.name, c.name DESC`)
		if err != nil {
			return err
		}
		defer rows.Close()
		last := ""
		for rows.Next() {
			var table, column string
			if err := rows.Scan(&table, &column); err != nil {
				return err
			}
			if table == last {
				continue // by session_id
			}
			last = table
			in := "session_id IN " + kept
			if column == "queue_id" {
				in = "queue_id IN (SELECT id FROM main.rtl_queue WHERE session_id IN " + kept + ")"
			}
			text += fmt.Sprintf("CREATE TEMP VIEW %s AS SELECT * FROM main.%s WHERE %s;\n", table, table, in)
		}
		return rows.Err()
	})
	if err != nil {
		panic(fmt.Sprintf("tracedb: %v", err)) // the layout is this program's own
	}
	return text
})

// lacksFiltered reports whether a trace is of a version without filters. An error of the
// file is not reported: the caller's own queries have it, too.
func lacksFiltered(c *sqlite3.SQLiteConn) bool {
	rows, err := c.Query("SELECT count(*) FROM main.sqlite_master WHERE type = 'table' AND name = 'rtl_filtered'", nil)
	if err != nil {
		return false
	}
	defer rows.Close()
	value := []driver.Value{nil}
	n, isNumber := int64(1), rows.Next(value) == nil
	if isNumber {
		n, isNumber = value[0].(int64)
	}
	return isNumber && n == 0
}

// noFiltered makes an empty table for the views, in a trace of a version without filters.
const noFiltered = `CREATE TEMP TABLE rtl_filtered(id INTEGER PRIMARY KEY, queue_id INTEGER, packet_index INTEGER, packets_after INTEGER,
	start_ns INTEGER, duration_ns INTEGER, queued_ns INTEGER, kernels INTEGER)`
