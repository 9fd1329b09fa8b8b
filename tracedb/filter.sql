-- What filters left out of a recording. The work ran: its times count as busy.

-- The filters of a session, by the names of their flags. No row: none.
CREATE TABLE IF NOT EXISTS rtl_filter(
	session_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	value TEXT NOT NULL
);

-- Times in which filtered kernels of a queue ran, without a pause: kernels that overlapped or
-- touched may share a row. They are published dispatches: see rtl_coverage.
CREATE TABLE IF NOT EXISTS rtl_filtered(
	id INTEGER PRIMARY KEY,
	queue_id INTEGER NOT NULL,
	packet_index INTEGER NOT NULL,     -- of the kernel that started first
	packets_after INTEGER NOT NULL,    -- from that packet to the last one of the kernels
	start_ns INTEGER NOT NULL,
	duration_ns INTEGER NOT NULL,
	queued_ns INTEGER,                 -- from the submit of the first kernel to its start; NULL: not known
	kernels INTEGER NOT NULL
);

-- The kernels that were left out, by name: how many dispatches, and the sum of their durations.
CREATE TABLE IF NOT EXISTS rtl_filtered_kernel(
	session_id INTEGER NOT NULL,
	name_id INTEGER NOT NULL,
	kernels INTEGER NOT NULL,
	total_ns INTEGER NOT NULL,
	PRIMARY KEY(session_id, name_id)
);
