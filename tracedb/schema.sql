-- The trace file. Times are nanoseconds of CLOCK_BOOTTIME. Ids are small, count
-- from 1 in the whole file, and mean nothing outside of it. NULL is "unknown".
-- Addresses and handles are unsigned; SQLite shows the upper half as negative.
--
-- The rtl_* tables have the trace, one row per dispatch. rocpd_* and the views top
-- and busy present the same rows in the form of rocm-trace-lite and rocmProfileData,
-- so that programs for their files can read this one. No WITHOUT ROWID, STRICT or
-- generated columns: SQLite 3.25 reads this file. No index on rtl_execution: it would
-- make the file half as large again, and a full scan of a million rows takes a
-- fraction of a second.

-- One recording of one process. A file holds one or several.
CREATE TABLE IF NOT EXISTS rtl_session(
	id INTEGER PRIMARY KEY,
	pid INTEGER NOT NULL,
	start_ticks INTEGER NOT NULL,      -- field 22 of /proc/PID/stat: tells re-used pids apart
	command TEXT NOT NULL,
	host TEXT NOT NULL,
	tool_version TEXT NOT NULL,
	payload_build_id TEXT NOT NULL,    -- hexadecimal
	generation INTEGER NOT NULL,       -- 1 for the first recording of that process
	begun_ns INTEGER NOT NULL,         -- the recorder was ready
	armed_ns INTEGER,                  -- hooks became active
	detached_ns INTEGER,               -- hooks were removed
	ended_ns INTEGER,                  -- last record and accounts written; NULL: never, or not yet
	end_reason TEXT,                   -- NULL, with ended_ns: still recorded, or the recorder was killed
	window_start_ns INTEGER,           -- the declared window: reports give shares and idle times of it.
	window_end_ns INTEGER,             -- its length is --duration, unless it ended early; NULL: it has not ended
	recorded_until_ns INTEGER,         -- kernels that ended before it are here, or counted as lost or untimed;
	                                   -- kernels that were running then are not. NULL: not known
	recorder_pid INTEGER,              -- the recorder's process
	recorder_start_ticks INTEGER,      -- as start_ticks
	recorder_pid_namespace INTEGER,    -- inode of its pid namespace
	monotonic_offset_start_ns INTEGER, -- CLOCK_MONOTONIC - CLOCK_BOOTTIME
	monotonic_offset_end_ns INTEGER,
	realtime_offset_start_ns INTEGER,  -- CLOCK_REALTIME - CLOCK_BOOTTIME
	realtime_offset_end_ns INTEGER
);

-- The processes to record together, including refused ones and processes without a GPU;
-- and processes that began to use a GPU during the recording.
CREATE TABLE IF NOT EXISTS rtl_target(
	id INTEGER PRIMARY KEY,
	pid INTEGER NOT NULL,
	start_ticks INTEGER,               -- with pid: its sessions
	command TEXT NOT NULL,
	rank INTEGER,                      -- as its launcher set it
	outcome TEXT NOT NULL,             -- recorded, idle, exited, failed, refused, passed over, not selected, joined, late worker
	exit_code INTEGER,                 -- the tool's, if it had recorded this process alone
	detail TEXT NOT NULL               -- the outcome explained; may be empty
);

-- The declared window of processes that were recorded together: the time in which all of
-- them were recorded. Records outside of it are in the trace, too.
CREATE TABLE IF NOT EXISTS rtl_common(
	start_ns INTEGER NOT NULL,         -- hooks were active in the last process
	end_ns INTEGER                     -- as rtl_session.window_end_ns
);

CREATE TABLE IF NOT EXISTS rtl_thread(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	tid INTEGER NOT NULL,              -- in the process's pid namespace
	name TEXT
);

CREATE TABLE IF NOT EXISTS rtl_agent(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	gpu_id INTEGER NOT NULL,           -- the number of the device in this file
	ordinal INTEGER,                   -- its number in the process
	name_id INTEGER NOT NULL,
	product_id INTEGER NOT NULL,
	handle INTEGER,
	driver_node INTEGER,
	bdf INTEGER,                       -- PCI domain << 32 | bus << 8 | device << 3 | function
	compute_units INTEGER
);

CREATE TABLE IF NOT EXISTS rtl_queue(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	agent_id INTEGER NOT NULL,
	address INTEGER,                   -- hsa_queue_t*
	hsa_id INTEGER,                    -- hsa_queue_t.id
	doorbell INTEGER,
	size_packets INTEGER,
	type INTEGER,                      -- hsa_queue_type_t
	flags INTEGER                      -- 1: profiling was turned on for the trace and stays on
);

CREATE TABLE IF NOT EXISTS rtl_code_object(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	agent_id INTEGER NOT NULL,
	uri_id INTEGER NOT NULL,
	executable INTEGER,
	load_base INTEGER,
	load_size_bytes INTEGER
);

-- A kernel with the geometry that it was launched with.
CREATE TABLE IF NOT EXISTS rtl_launch(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	agent_id INTEGER NOT NULL,
	name_id INTEGER NOT NULL,          -- demangled
	symbol_id INTEGER NOT NULL,        -- as the code object has it
	grid_x INTEGER, grid_y INTEGER, grid_z INTEGER, -- work-items
	workgroup_x INTEGER, workgroup_y INTEGER, workgroup_z INTEGER,
	group_segment_bytes INTEGER,
	private_segment_bytes INTEGER,
	kernel_object INTEGER
);

-- Values that many dispatches share. The same values may have several rows.
CREATE TABLE IF NOT EXISTS rtl_context(
	id INTEGER PRIMARY KEY,
	queue_id INTEGER NOT NULL,
	launch_id INTEGER NOT NULL,
	thread_id INTEGER,                 -- the submitting thread
	flags INTEGER NOT NULL             -- 1: times from the application's signal, 2: barrier bit, 4: submit unknown
);

-- A kernel that ran. Each column makes writing a row slower by a tenth; rtl_dispatch has all values.
CREATE TABLE IF NOT EXISTS rtl_execution(
	id INTEGER PRIMARY KEY,
	context_id INTEGER NOT NULL,
	packet_index INTEGER NOT NULL,     -- in its queue
	start_ns INTEGER NOT NULL,
	duration_ns INTEGER NOT NULL,
	queued_ns INTEGER                  -- from submit to start
);

CREATE VIEW IF NOT EXISTS rtl_dispatch AS
SELECT e.id AS id, c.queue_id AS queue_id, c.launch_id AS launch_id, c.thread_id AS thread_id,
	e.packet_index AS packet_index, e.start_ns AS start_ns, e.duration_ns AS duration_ns,
	e.queued_ns AS queued_ns, c.flags AS flags
FROM rtl_execution e
JOIN rtl_context c ON c.id = e.context_id;

-- Packets without times: count of them from packet_index on.
CREATE TABLE IF NOT EXISTS rtl_untimed(
	id INTEGER PRIMARY KEY,
	queue_id INTEGER NOT NULL,
	launch_id INTEGER,
	thread_id INTEGER,
	reason_id INTEGER NOT NULL,
	packet_index INTEGER NOT NULL,
	packets INTEGER NOT NULL,
	submit_ns INTEGER                  -- of the first
);

CREATE TABLE IF NOT EXISTS rtl_reason(
	id INTEGER PRIMARY KEY,
	name TEXT NOT NULL,
	text TEXT NOT NULL
);

-- A time in which a queue was recorded, packets first_index to end_index - 1. The recorder
-- writes the row when the window opens, and completes it when the window closes.
CREATE TABLE IF NOT EXISTS rtl_window(
	id INTEGER PRIMARY KEY,
	queue_id INTEGER NOT NULL,
	opened_ns INTEGER NOT NULL,
	closed_ns INTEGER,                 -- NULL: still open, or the process ended, or the records were lost
	first_index INTEGER NOT NULL,
	end_index INTEGER,
	dispatches INTEGER,                -- published in the window
	others INTEGER,                    -- barrier and vendor packets published
	after_detach INTEGER,              -- claimed in the window, published after it
	raw_before INTEGER NOT NULL,       -- claimed before the window, but after the attach: not seen
	queued_before INTEGER NOT NULL     -- packets in front of the window that the GPU had not taken yet: not seen
);

-- The account of each queue: dispatches = timed + untimed + unexplained + the kernels in rtl_filtered. Each commit updates
-- it, and may not count all rows yet; it is final when the session's ended_ns is set.
CREATE TABLE IF NOT EXISTS rtl_coverage(
	queue_id INTEGER PRIMARY KEY,
	windows INTEGER NOT NULL,
	windows_open INTEGER NOT NULL,     -- windows that never closed: their dispatches are not known
	dispatches INTEGER NOT NULL,       -- published, as the payload counted them
	timed INTEGER NOT NULL,            -- rows of rtl_execution
	untimed INTEGER NOT NULL,          -- in rtl_untimed, without packets published after the detach
	unexplained INTEGER NOT NULL,      -- not 0: records are missing, or there are too many
	others INTEGER NOT NULL,
	after_detach INTEGER NOT NULL,
	raw_before INTEGER NOT NULL
);

-- The account of each further kind of record: begun = timed + untimed + unexplained.
-- No row: the session did not record that kind.
CREATE TABLE IF NOT EXISTS rtl_kind_coverage(
	session_id INTEGER NOT NULL,
	kind TEXT NOT NULL,                -- memory-copy, ...
	begun INTEGER NOT NULL,            -- while recording, as counted by the payload
	timed INTEGER NOT NULL,
	untimed INTEGER NOT NULL,
	unexplained INTEGER NOT NULL,      -- not 0: records are missing, or there are too many
	PRIMARY KEY(session_id, kind)
);

-- Kinds of record that were asked for and could not be recorded. They have no account.
CREATE TABLE IF NOT EXISTS rtl_kind_unavailable(
	session_id INTEGER NOT NULL,
	kind TEXT NOT NULL,                -- memory-copy, ...
	reason TEXT NOT NULL,
	PRIMARY KEY(session_id, kind)
);

-- Records that are missing from this file.
CREATE TABLE IF NOT EXISTS rtl_loss(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	cause TEXT NOT NULL,
	records INTEGER NOT NULL,
	from_ns INTEGER,                   -- NULL: not known, the session's begin
	until_ns INTEGER                   -- NULL: not known, its end
);

-- Threads of the target that the tool stopped, and for how long by the tool's own clock.
CREATE TABLE IF NOT EXISTS rtl_pause(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	tid INTEGER NOT NULL,
	start_ns INTEGER NOT NULL,
	duration_ns INTEGER NOT NULL,
	purpose TEXT NOT NULL
);

-- The payload's counters at the end of a session (struct rtl_counters), and, if the tool
-- could use BPF, the stops by the kernel's clock (scheduler_stops, _total_ns, _worst_ns).
-- raw_claims minus the raw_before of the session's queues are claims on queues without a window.
CREATE TABLE IF NOT EXISTS rtl_counter(
	session_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	value INTEGER NOT NULL
);

-- The compatible form follows.

CREATE TABLE IF NOT EXISTS rocpd_string(
	id INTEGER PRIMARY KEY,
	string TEXT NOT NULL UNIQUE
);

CREATE TABLE IF NOT EXISTS rocpd_metadata(
	id INTEGER PRIMARY KEY,
	tag TEXT NOT NULL,
	value TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS rocpd_monitor(
	id INTEGER PRIMARY KEY,
	deviceType TEXT, deviceId INTEGER, monitorType TEXT,
	start INTEGER, end INTEGER, value TEXT
);

CREATE VIEW IF NOT EXISTS rocpd_op AS
SELECT d.id AS id,
	a.gpu_id AS gpuId,
	d.queue_id AS queueId,
	d.packet_index AS sequenceId,
	printf('hwq=0x%x wg=%d,%d,%d grid=%d,%d,%d', q.hsa_id,
		l.workgroup_x, l.workgroup_y, l.workgroup_z, l.grid_x, l.grid_y, l.grid_z) AS completionSignal,
	d.start_ns AS start,
	d.start_ns + d.duration_ns AS end,
	l.name_id AS description_id,
	(SELECT id FROM rocpd_string WHERE string = 'KernelExecution') AS opType_id,
	0 AS roctxId,
	d.id AS correlation_id
FROM rtl_dispatch d
JOIN rtl_queue q ON q.id = d.queue_id
JOIN rtl_agent a ON a.id = q.agent_id
JOIN rtl_launch l ON l.id = d.launch_id;

-- The submit of each dispatch. If its time is unknown, the kernel's start replaces it:
-- readers drop an op without an api row, and need a number. In a file that has calls or markers the view has them, too
-- (ShownCalls).
CREATE VIEW IF NOT EXISTS rocpd_api AS
SELECT d.id AS id,
	s.pid AS pid,
	coalesce(t.tid, 0) AS tid,
	d.start_ns - coalesce(d.queued_ns, 0) AS start,
	d.start_ns - coalesce(d.queued_ns, 0) AS end,
	(SELECT id FROM rocpd_string WHERE string = 'KernelSubmit') AS apiName_id,
	(SELECT id FROM rocpd_string WHERE string = '') AS args_id,
	d.id AS correlation_id,
	NULL AS domain_id,
	NULL AS category_id
FROM rtl_dispatch d
JOIN rtl_queue q ON q.id = d.queue_id
JOIN rtl_session s ON s.id = q.session_id
LEFT JOIN rtl_thread t ON t.id = d.thread_id;

CREATE VIEW IF NOT EXISTS rocpd_api_ops AS
SELECT id, id AS api_id, id AS op_id FROM rtl_execution;

CREATE VIEW IF NOT EXISTS rocpd_kernelapi AS
SELECT d.id AS api_ptr_id,
	d.id AS api_id,
	CAST(d.queue_id AS TEXT) AS stream,
	l.grid_x AS gridX, l.grid_y AS gridY, l.grid_z AS gridZ,
	l.workgroup_x AS workgroupX, l.workgroup_y AS workgroupY, l.workgroup_z AS workgroupZ,
	l.group_segment_bytes AS groupSegmentSize,
	l.private_segment_bytes AS privateSegmentSize,
	l.name_id AS kernelName_id
FROM rtl_dispatch d
JOIN rtl_launch l ON l.id = d.launch_id;

-- Empty, and rocpd_op has no copies, even if copies were recorded: readers of these
-- views take every row of rocpd_op for a kernel. Copies are in rtl_copy;
-- `rtl-attach export -f rpd` writes a file that has them here, too.
CREATE VIEW IF NOT EXISTS rocpd_copyapi AS
SELECT 0 AS api_ptr_id, 0 AS api_id, '' AS stream, 0 AS size, '' AS dst, '' AS src, 0 AS kind, 0 AS sync
WHERE 0;

-- total() and not sum(): hostile times must not end a query in "integer
-- overflow". It is exact up to 104 days of kernel time.
CREATE VIEW IF NOT EXISTS top AS
SELECT n.string AS Name,
	sum(k.calls) AS Calls,
	CAST(total(k.total_ns) AS INTEGER) AS TotalNs,
	CAST(total(k.total_ns) / sum(k.calls) AS INTEGER) AS AvgNs,
	min(k.min_ns) AS MinNs,
	max(k.max_ns) AS MaxNs,
	round(100.0 * total(k.total_ns) / max(1, total(total(k.total_ns)) OVER ()), 2) AS Pct
FROM (SELECT context_id, count(*) AS calls, total(duration_ns) AS total_ns,
		min(duration_ns) AS min_ns, max(duration_ns) AS max_ns
	FROM rtl_execution GROUP BY context_id) k
JOIN rtl_context c ON c.id = k.context_id
JOIN rtl_launch l ON l.id = c.launch_id
JOIN rocpd_string n ON n.id = l.name_id
GROUP BY n.id
ORDER BY TotalNs DESC;

-- Overlapping kernels on one GPU count once: of each kernel only the part after the
-- latest end before it counts. wall_ns is from the first kernel of a session to its
-- last one: the time between two sessions was not recorded.
CREATE VIEW IF NOT EXISTS busy AS
SELECT gpu_id AS gpuId,
	round(100.0 * total(fresh_ns) / max(1, total(span_ns)), 2) AS utilization_pct,
	CAST(total(kernels) AS INTEGER) AS ops, -- without filtered kernels, whose time is in busy_ns
	CAST(total(fresh_ns) AS INTEGER) AS busy_ns,
	CAST(total(span_ns) AS INTEGER) AS wall_ns
FROM (SELECT gpu_id, kernels, fresh_ns,
		max(0, end_ns - max(start_ns, coalesce(max(end_ns) OVER (PARTITION BY gpu_id
			ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns))) AS span_ns
	FROM (SELECT gpu_id, total(kernels) AS kernels, total(fresh_ns) AS fresh_ns, min(start_ns) AS start_ns, max(end_ns) AS end_ns
		FROM (SELECT gpu_id, session_id, kernels, start_ns, end_ns,
				max(0, end_ns - max(start_ns, coalesce(max(end_ns) OVER (PARTITION BY gpu_id
					ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns))) AS fresh_ns
			FROM (SELECT a.gpu_id AS gpu_id, q.session_id AS session_id, 1 AS kernels, d.start_ns AS start_ns, d.start_ns + d.duration_ns AS end_ns
				FROM rtl_dispatch d
				JOIN rtl_queue q ON q.id = d.queue_id
				JOIN rtl_agent a ON a.id = q.agent_id
				UNION ALL
				SELECT a.gpu_id, q.session_id, 0, f.start_ns, f.start_ns + f.duration_ns
				FROM rtl_filtered f
				JOIN rtl_queue q ON q.id = f.queue_id
				JOIN rtl_agent a ON a.id = q.agent_id))
		GROUP BY gpu_id, session_id))
GROUP BY gpu_id
ORDER BY gpu_id;
