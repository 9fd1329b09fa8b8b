package calls

import (
	"encoding/binary"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// SpansSQL returns SQL that makes the temporary table call_span of the calls of HIP's runtime API
// that an export has, on the connection that runs it. SQLite sorts them in temporary files. It
// reads at most so many rows of a file, whose pages may refer to each other in a cycle.
func SpansSQL(mostRows int64) string {
	return fmt.Sprintf(`CREATE TEMP TABLE call_span(
		thread_id INTEGER NOT NULL, start_ns INTEGER NOT NULL, call_id INTEGER NOT NULL, end_ns INTEGER NOT NULL,
		PRIMARY KEY(thread_id, start_ns, call_id)) WITHOUT ROWID;
	INSERT INTO temp.call_span
	SELECT c.thread_id, c.start_ns, c.id, c.start_ns + c.duration_ns
	FROM (SELECT id, session_id, thread_id, function_id, start_ns, duration_ns FROM rtl_call LIMIT %[1]d OFFSET 0) c
	JOIN rtl_function f ON f.id = c.function_id
	JOIN main.rocpd_string n ON n.id = f.name_id
	JOIN rtl_session s ON s.id = c.session_id
	JOIN rtl_thread t ON t.id = c.thread_id AND t.session_id = c.session_id
	WHERE f.api_id = (SELECT id FROM main.rocpd_string WHERE string = '%[2]s') AND c.id > 0
		AND c.start_ns BETWEEN 0 AND %[3]d AND c.duration_ns BETWEEN 0 AND %[3]d - c.start_ns
	ORDER BY c.thread_id, c.start_ns, c.id`, mostRows, ring.KindHIPRuntimeAPI, int64(traceread.LatestNS))
}

// SubmitterSQL returns SQL for the row of the call that submitted something at a time on a thread,
// or NULL. It is the rule of the view call_submit, by an index instead of sorting everything. The
// arguments are SQL, in which names of columns of call_span mean that table's.
func SubmitterSQL(thread, atNS string) string {
	return fmt.Sprintf(`(SELECT CASE WHEN s.end_ns >= %[2]s THEN s.call_id END FROM temp.call_span s
		WHERE s.thread_id = %[1]s AND s.start_ns <= %[2]s ORDER BY s.start_ns DESC, s.call_id DESC LIMIT 1)`, thread, atNS)
}

// StreamSQL returns SQL for the handle of the HIP stream that a call (a row of rtl_call) uses, for
// ParseStream. It is the rule of the view call_stream.
func StreamSQL(call string) string {
	return fmt.Sprintf(`(SELECT CASE WHEN f.stream_word IS NULL OR substr(c.arguments, 8 * f.stream_word + 1, 8) IN (x'0000000000000000', x'0000000000000001')
			THEN f.default_stream ELSE substr(c.arguments, 8 * f.stream_word + 1, 8) END
		FROM main.rtl_call c JOIN main.rtl_function f ON f.id = c.function_id WHERE c.id = %s AND f.default_stream IS NOT NULL)`, call)
}

// ParseStream returns the handle of a stream as SQLite returns it; false: not known.
func ParseStream(v any) (handle int64, known bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case []byte:
		if len(v) == 8 {
			return int64(binary.BigEndian.Uint64(v)), true
		}
	}
	return 0, false
}
