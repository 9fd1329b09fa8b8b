
-- Functions of which the file has calls, one row for each function of each session.
CREATE TABLE IF NOT EXISTS rtl_function(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	api_id INTEGER NOT NULL,           -- rocpd_string: hip-runtime-api, hip-compiler-api, hsa-core-api, hsa-amd-ext-api,
	                                   -- rccl-api
	name_id INTEGER NOT NULL,          -- rocpd_string
	has_status INTEGER NOT NULL        -- 1: its result is an error code, and 0 is success
);

-- Calls of HIP's, HSA's and RCCL's functions that have returned (--hip-trace, --hsa-trace, --rccl-trace).
-- No index: it would make the file half as large again (rtl_execution).
CREATE TABLE IF NOT EXISTS rtl_call(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	thread_id INTEGER,                 -- the calling thread
	function_id INTEGER NOT NULL,
	start_ns INTEGER NOT NULL,
	duration_ns INTEGER NOT NULL,
	result INTEGER,                    -- NULL: the function has none
	flags INTEGER NOT NULL,            -- 1: the out-argument has what the function has written, not its address
	arguments BLOB NOT NULL            -- words of 8 bytes, the most significant byte first: those registers of
	                                   -- rdi, rsi, rdx, rcx, r8, r9 that have arguments (all, if words of
	                                   -- the stack follow). export and report show them by name
);

-- How the functions of an API were intercepted, as at the end of the session.
CREATE TABLE IF NOT EXISTS rtl_call_coverage(
	session_id INTEGER NOT NULL,
	api_id INTEGER NOT NULL,           -- as in rtl_function
	way INTEGER NOT NULL,              -- 0: the process does not use the library, 1: by its dispatch table,
	                                   -- 2: by the callers' global offset tables, 3: the process loaded the
	                                   -- library during the session, which has none of its calls
	functions INTEGER NOT NULL,        -- of the API that the library exports
	hooked INTEGER NOT NULL,           -- intercepted
	excluded INTEGER NOT NULL,         -- not intercepted: too frequent, or not safe
	omitted INTEGER NOT NULL,         -- not intercepted: --operations does not name them
	unknown INTEGER NOT NULL,          -- not intercepted: their arguments are not known
	modules INTEGER NOT NULL,          -- by global offset tables: modules that call the library
	entries INTEGER NOT NULL,          -- by global offset tables: replaced entries
	dropped INTEGER NOT NULL,          -- by global offset tables: entries that could not be replaced
	PRIMARY KEY(session_id, api_id) ON CONFLICT REPLACE
);

-- Calls of HIP's, HSA's and RCCL's functions (--hip-trace, --hsa-trace, --rccl-trace).
CREATE VIEW IF NOT EXISTS call AS
SELECT c.id AS id,
	a.string AS api,
	n.string AS function,
	s.pid AS pid,
	s.command AS command,
	t.tid AS thread,                   -- NULL: not known
	t.name AS thread_name,
	c.start_ns AS start_ns,
	c.start_ns + c.duration_ns AS end_ns,
	c.duration_ns AS duration_ns,
	(c.start_ns - (SELECT min(coalesce(armed_ns, begun_ns)) FROM rtl_session)) / 1e9 AS start_s,
	c.result AS result,
	CASE f.has_status WHEN 1 THEN c.result <> 0 END AS failed,
	trim(hex(substr(c.arguments, 1, 8)) || ' ' || hex(substr(c.arguments, 9, 8)) || ' ' || hex(substr(c.arguments, 17, 8)) || ' ' ||
		hex(substr(c.arguments, 25, 8)) || ' ' || hex(substr(c.arguments, 33, 8)) || ' ' || hex(substr(c.arguments, 41, 8)) || ' ' ||
		hex(substr(c.arguments, 49, 8)) || ' ' || hex(substr(c.arguments, 57, 8)) || ' ' || hex(substr(c.arguments, 65, 8)) || ' ' ||
		hex(substr(c.arguments, 73, 8)) || ' ' || hex(substr(c.arguments, 81, 8))) AS arguments -- in hexadecimal
FROM rtl_call c
LEFT JOIN rtl_function f ON f.id = c.function_id
LEFT JOIN rocpd_string a ON a.id = f.api_id
LEFT JOIN rocpd_string n ON n.id = f.name_id
LEFT JOIN rtl_session s ON s.id = c.session_id
LEFT JOIN rtl_thread t ON t.id = c.thread_id;

-- The dispatches that a call submitted: kernels, or packets without times (a row for the first of several).
-- Their submits are in its time, on its thread. Of calls of one API that contain each other it has the last
-- one that began, or none if that has ended.
CREATE VIEW IF NOT EXISTS call_submit AS
WITH step AS ( -- item: of rtl_execution, or minus that of rtl_untimed
	SELECT c.thread_id AS thread_id, f.api_id AS api_id, c.start_ns AS at_ns, c.id AS call_id, c.start_ns + c.duration_ns AS end_ns,
		NULL AS item
	FROM rtl_call c
	JOIN rtl_function f ON f.id = c.function_id
	WHERE c.thread_id IS NOT NULL
	UNION ALL
	SELECT x.thread_id, a.api_id, e.start_ns - e.queued_ns, NULL, NULL, e.id
	FROM rtl_execution e
	JOIN rtl_context x ON x.id = e.context_id
	JOIN (SELECT DISTINCT api_id FROM rtl_function) a
	WHERE x.thread_id IS NOT NULL AND e.queued_ns IS NOT NULL
	UNION ALL
	SELECT u.thread_id, a.api_id, u.submit_ns, NULL, NULL, -u.id
	FROM rtl_untimed u
	JOIN (SELECT DISTINCT api_id FROM rtl_function) a
	WHERE u.thread_id IS NOT NULL AND u.submit_ns IS NOT NULL
), numbered AS ( -- begun: how many calls have begun on the thread
	SELECT thread_id, api_id, at_ns, call_id, end_ns, item, count(call_id) OVER (PARTITION BY thread_id, api_id
		ORDER BY at_ns, item IS NOT NULL, call_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS begun
	FROM step
), last AS (
	SELECT at_ns, item, max(call_id) OVER w AS call_id, max(end_ns) OVER w AS end_ns
	FROM numbered
	WINDOW w AS (PARTITION BY thread_id, api_id, begun)
)
SELECT call_id, at_ns AS submit_ns,
	CASE WHEN item > 0 THEN item END AS kernel_id,
	CASE WHEN item < 0 THEN -item END AS untimed_id
FROM last
WHERE item IS NOT NULL AND at_ns <= end_ns;

-- The kernels that a call submitted.
CREATE VIEW IF NOT EXISTS call_kernel AS
SELECT call_id, kernel_id FROM call_submit WHERE kernel_id IS NOT NULL;

-- Calls of RCCL between ncclGroupStart and ncclGroupEnd, with the outermost ncclGroupEnd: it is the call that
-- submits their kernels (call_kernel). Calls of a group that began before the recording are not here.
CREATE VIEW IF NOT EXISTS rccl_group_call AS
WITH step AS ( -- by: what a call adds to the number of open groups
	SELECT c.id AS id, c.thread_id AS thread_id, c.start_ns AS start_ns, length(c.arguments) > 0 AS is_member,
		CASE n.string WHEN 'ncclGroupStart' THEN 1 WHEN 'ncclGroupEnd' THEN -1 ELSE 0 END AS by
	FROM rtl_call c
	JOIN rtl_function f ON f.id = c.function_id
	JOIN rocpd_string a ON a.id = f.api_id
	JOIN rocpd_string n ON n.id = f.name_id
	WHERE a.string = 'rccl-api' AND c.thread_id IS NOT NULL
), summed AS (
	SELECT id, thread_id, start_ns, is_member, by, sum(by) OVER (PARTITION BY thread_id
		ORDER BY start_ns, id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS total
	FROM step
), depth AS ( -- open: the groups that the call leaves open
	SELECT id, thread_id, start_ns, is_member, by, total - min(0, min(total) OVER (PARTITION BY thread_id
		ORDER BY start_ns, id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) AS open
	FROM summed
), ends AS ( -- number: how many groups have ended behind the call
	SELECT id, thread_id, is_member, by, open, count(CASE WHEN by = -1 AND open = 0 THEN 1 END) OVER (PARTITION BY thread_id
		ORDER BY start_ns, id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS number
	FROM depth
), grouped AS (
	SELECT id, is_member, by, open, min(CASE WHEN by = -1 AND open = 0 THEN id END) OVER (PARTITION BY thread_id, number) AS group_id
	FROM ends
)
SELECT group_id, id AS call_id FROM grouped WHERE by = 0 AND open > 0 AND is_member AND group_id IS NOT NULL;
