-- The views that users query first. Times are nanoseconds of CLOCK_BOOTTIME; start_s is
-- seconds from the begin of the file's first recording.
--
--   SELECT name, duration_ns FROM kernel ORDER BY 2 DESC LIMIT 5;
--   SELECT * FROM gap ORDER BY duration_ns DESC LIMIT 5;

-- Kernels that ran, one row for each dispatch.
CREATE VIEW IF NOT EXISTS kernel AS
SELECT e.id AS id,
	n.string AS name,                  -- demangled
	a.gpu_id AS gpu,                   -- one number per device in this file
	s.pid AS pid,
	s.command AS command,
	c.queue_id AS queue,               -- HSA queue: rtl_queue.id
	t.tid AS thread,                   -- the submitting thread; NULL: not known
	t.name AS thread_name,
	e.start_ns - e.queued_ns AS submit_ns, -- NULL: not known
	e.start_ns AS start_ns,
	e.start_ns + e.duration_ns AS end_ns,
	e.duration_ns AS duration_ns,
	(e.start_ns - (SELECT min(coalesce(armed_ns, begun_ns)) FROM rtl_session)) / 1e9 AS start_s,
	l.grid_x AS grid_x, l.grid_y AS grid_y, l.grid_z AS grid_z, -- work-items
	l.workgroup_x AS workgroup_x, l.workgroup_y AS workgroup_y, l.workgroup_z AS workgroup_z
FROM rtl_execution e
JOIN rtl_context c ON c.id = e.context_id
JOIN rtl_launch l ON l.id = c.launch_id
LEFT JOIN rocpd_string n ON n.id = l.name_id
LEFT JOIN rtl_queue q ON q.id = c.queue_id
LEFT JOIN rtl_agent a ON a.id = q.agent_id
LEFT JOIN rtl_session s ON s.id = q.session_id
LEFT JOIN rtl_thread t ON t.id = c.thread_id;

-- Declared windows: the common one of processes that were recorded together, or else a
-- session's own. The end of an open window is the time up to which its records are complete.
CREATE VIEW IF NOT EXISTS rtl_declared AS
SELECT s.id AS session_id,
	coalesce(c.start_ns, s.window_start_ns) AS start_ns,
	CASE WHEN c.start_ns IS NULL THEN coalesce(s.window_end_ns, s.recorded_until_ns)
		ELSE coalesce(c.end_ns, s.recorded_until_ns) END AS end_ns
FROM rtl_session s
LEFT JOIN rtl_common c ON c.start_ns >= s.window_start_ns
	AND c.start_ns <= coalesce(s.window_end_ns, s.recorded_until_ns, c.start_ns);

-- Times in a declared window in which no kernel ran on a GPU, neither a recorded nor a filtered
-- one. Kernels without times (rtl_untimed) and lost records (rtl_loss) may have run in them.
CREATE VIEW IF NOT EXISTS gap AS
WITH span AS (
	SELECT DISTINCT a.gpu_id AS gpu, d.start_ns AS start_ns, d.end_ns AS end_ns
	FROM rtl_declared d
	JOIN rtl_queue q ON q.session_id = d.session_id
	JOIN rtl_agent a ON a.id = q.agent_id
	WHERE d.end_ns > d.start_ns
), run AS (
	SELECT e.id AS id, a.gpu_id AS gpu, l.name_id AS name_id, q.session_id AS session_id, c.thread_id AS thread_id,
		e.start_ns AS start_ns, e.start_ns + e.duration_ns AS end_ns
	FROM rtl_execution e
	JOIN rtl_context c ON c.id = e.context_id
	JOIN rtl_launch l ON l.id = c.launch_id
	JOIN rtl_queue q ON q.id = c.queue_id
	JOIN rtl_agent a ON a.id = q.agent_id
	UNION ALL -- the id orders them among kernels that start at the same time
	SELECT -f.id, a.gpu_id, -1, q.session_id, NULL, f.start_ns, f.start_ns + f.duration_ns
	FROM rtl_filtered f
	JOIN rtl_queue q ON q.id = f.queue_id
	JOIN rtl_agent a ON a.id = q.agent_id
	UNION ALL -- a mark after the last kernel of each GPU
	SELECT DISTINCT 0, gpu, NULL, NULL, NULL, 9223372036854775807, 9223372036854775807 FROM span
), marked AS ( -- fresh: nothing ran when it started
	SELECT id, gpu, name_id, session_id, thread_id, start_ns, end_ns, CASE WHEN start_ns > max(end_ns) OVER (PARTITION BY gpu
		ORDER BY start_ns, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 1 ELSE 0 END AS fresh
	FROM run
), numbered AS (
	SELECT gpu, name_id, session_id, thread_id, start_ns, end_ns, total(fresh) OVER (PARTITION BY gpu
		ORDER BY start_ns, id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS stretch
	FROM marked
), ends AS ( -- SQLite takes a bare column beside max() from the row of the maximum
	SELECT gpu, stretch, max(end_ns) AS end_ns, name_id FROM numbered GROUP BY gpu, stretch
), begins AS (
	SELECT gpu, stretch, min(start_ns) AS start_ns, name_id, session_id, thread_id FROM numbered GROUP BY gpu, stretch
), free AS (
	SELECT f.gpu AS gpu, lag(l.end_ns) OVER w AS start_ns, f.start_ns AS end_ns,
		lag(l.name_id) OVER w AS previous_id, f.name_id AS next_id, f.session_id AS session_id, f.thread_id AS thread_id
	FROM begins f
	JOIN ends l ON l.gpu = f.gpu AND l.stretch = f.stretch
	WINDOW w AS (PARTITION BY f.gpu ORDER BY f.stretch)
)
SELECT f.gpu AS gpu,
	CAST(max(coalesce(f.start_ns, s.start_ns), s.start_ns) AS INTEGER) AS start_ns,
	CAST(min(f.end_ns, s.end_ns) AS INTEGER) AS end_ns,
	CAST(min(f.end_ns, s.end_ns) - max(coalesce(f.start_ns, s.start_ns), s.start_ns) AS INTEGER) AS duration_ns,
	(max(coalesce(f.start_ns, s.start_ns), s.start_ns) - (SELECT min(coalesce(armed_ns, begun_ns)) FROM rtl_session)) / 1e9 AS start_s,
	CASE f.previous_id WHEN -1 THEN '(filtered)' ELSE p.string END AS previous_kernel, -- the last to end before the gap; NULL: none
	CASE f.next_id WHEN -1 THEN '(filtered)' ELSE n.string END AS next_kernel, -- the kernel that ended the gap; NULL: none
	e.pid AS pid, -- whose kernel ended the gap; NULL: none
	e.command AS command,
	t.tid AS thread, -- the thread that submitted that kernel; NULL: not known
	t.name AS thread_name
FROM free f
JOIN span s ON s.gpu = f.gpu AND f.end_ns > s.start_ns AND coalesce(f.start_ns, s.start_ns) < s.end_ns
LEFT JOIN rocpd_string p ON p.id = f.previous_id
LEFT JOIN rocpd_string n ON n.id = f.next_id
LEFT JOIN rtl_session e ON e.id = f.session_id
LEFT JOIN rtl_thread t ON t.id = f.thread_id;
