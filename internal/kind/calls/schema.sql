
-- Functions of which the file has calls, one row for each function of each session.
CREATE TABLE IF NOT EXISTS rtl_function(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	api_id INTEGER NOT NULL,           -- rocpd_string: hip-runtime-api, hip-compiler-api, hsa-core-api, hsa-amd-ext-api,
	                                   -- rccl-api
	name_id INTEGER NOT NULL,          -- rocpd_string
	has_status INTEGER NOT NULL,       -- 1: its result is an error code, and 0 is success
	stream_word INTEGER,               -- which of the arguments' words is its HIP stream, from 0; NULL: none
	default_stream INTEGER             -- the handle of the stream that it uses if that is 0, or has no such
	                                   -- argument: 0, or 2 (hipStreamPerThread); NULL: it uses no stream
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
-- one that began, or none if that has ended; of RCCL's the outermost one: RCCL 7 calls functions of its own API.
CREATE VIEW IF NOT EXISTS call_submit AS
WITH rccl_call AS ( -- before_ns: when the last of the thread's calls that began before has ended
	SELECT c.thread_id AS thread_id, f.api_id AS api_id, c.start_ns AS start_ns, c.id AS id, c.start_ns + c.duration_ns AS end_ns,
		max(c.start_ns + c.duration_ns) OVER (PARTITION BY c.thread_id
			ORDER BY c.start_ns, c.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
	FROM rtl_call c
	JOIN rtl_function f ON f.id = c.function_id
	WHERE c.thread_id IS NOT NULL AND f.api_id = (SELECT id FROM rocpd_string WHERE string = 'rccl-api')
), step AS ( -- item: of rtl_execution, or minus that of rtl_untimed
	SELECT c.thread_id AS thread_id, f.api_id AS api_id, c.start_ns AS at_ns, c.id AS call_id, c.start_ns + c.duration_ns AS end_ns,
		NULL AS item
	FROM rtl_call c
	JOIN rtl_function f ON f.id = c.function_id
	WHERE c.thread_id IS NOT NULL AND f.api_id IS NOT (SELECT id FROM rocpd_string WHERE string = 'rccl-api')
	UNION ALL
	SELECT thread_id, api_id, start_ns, id, end_ns, NULL
	FROM rccl_call
	WHERE before_ns IS NULL OR end_ns > before_ns
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
-- submits their kernels (call_kernel). Calls of a group that began before the recording are not here, nor are RCCL's own.
CREATE VIEW IF NOT EXISTS rccl_group_call AS
WITH call_around AS ( -- by: what a call adds to the number of open groups
	SELECT c.id AS id, c.thread_id AS thread_id, c.start_ns AS start_ns, c.start_ns + c.duration_ns AS end_ns,
		length(c.arguments) > 0 AS is_member,
		CASE n.string WHEN 'ncclGroupStart' THEN 1 WHEN 'ncclGroupEnd' THEN -1 ELSE 0 END AS by,
		max(c.start_ns + c.duration_ns) OVER (PARTITION BY c.thread_id
			ORDER BY c.start_ns, c.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
	FROM rtl_call c
	JOIN rtl_function f ON f.id = c.function_id
	JOIN rocpd_string a ON a.id = f.api_id
	JOIN rocpd_string n ON n.id = f.name_id
	WHERE a.string = 'rccl-api' AND c.thread_id IS NOT NULL
), step AS (
	SELECT id, thread_id, start_ns, is_member, by
	FROM call_around
	WHERE before_ns IS NULL OR end_ns > before_ns
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

-- The HIP stream of each call that uses one: the handle as a number; 0 is the default stream, 2 the calling
-- thread's own default stream (hipStreamPerThread).
CREATE VIEW IF NOT EXISTS call_stream AS
WITH word AS ( -- h: the handle in hexadecimal
	SELECT c.id AS call_id, f.default_stream AS default_stream,
		CASE WHEN f.stream_word IS NULL THEN '0000000000000000' ELSE hex(substr(c.arguments, 8 * f.stream_word + 1, 8)) END AS h
	FROM rtl_call c
	JOIN rtl_function f ON f.id = c.function_id
	WHERE f.default_stream IS NOT NULL
), handle AS (
	SELECT call_id, default_stream,
		(instr('123456789ABCDEF', substr(h, 1, 1)) << 60) | (instr('123456789ABCDEF', substr(h, 2, 1)) << 56) |
		(instr('123456789ABCDEF', substr(h, 3, 1)) << 52) | (instr('123456789ABCDEF', substr(h, 4, 1)) << 48) |
		(instr('123456789ABCDEF', substr(h, 5, 1)) << 44) | (instr('123456789ABCDEF', substr(h, 6, 1)) << 40) |
		(instr('123456789ABCDEF', substr(h, 7, 1)) << 36) | (instr('123456789ABCDEF', substr(h, 8, 1)) << 32) |
		(instr('123456789ABCDEF', substr(h, 9, 1)) << 28) | (instr('123456789ABCDEF', substr(h, 10, 1)) << 24) |
		(instr('123456789ABCDEF', substr(h, 11, 1)) << 20) | (instr('123456789ABCDEF', substr(h, 12, 1)) << 16) |
		(instr('123456789ABCDEF', substr(h, 13, 1)) << 12) | (instr('123456789ABCDEF', substr(h, 14, 1)) << 8) |
		(instr('123456789ABCDEF', substr(h, 15, 1)) << 4) | (instr('123456789ABCDEF', substr(h, 16, 1)) << 0) AS stream
	FROM word
	WHERE length(h) = 16
)
SELECT call_id, CASE WHEN stream IN (0, 1) THEN default_stream ELSE stream END AS stream -- 1: hipStreamLegacy
FROM handle;

-- The HIP stream of each kernel that a call of HIP submitted, and that call.
CREATE VIEW IF NOT EXISTS kernel_stream AS
SELECT k.kernel_id AS kernel_id, s.stream AS stream, k.call_id AS call_id
FROM call_kernel k
JOIN rtl_call c ON c.id = k.call_id
JOIN rtl_function f ON f.id = c.function_id
JOIN call_stream s ON s.call_id = k.call_id
WHERE f.api_id = (SELECT id FROM rocpd_string WHERE string = 'hip-runtime-api');

-- Successful calls of HIP that make a stream or the calling thread wait for a stream: for what the
-- stream had to do when an event was recorded, or for all that it had to do. Calls during the capture
-- of a graph are here, too: they do not wait.
CREATE VIEW IF NOT EXISTS stream_dependency AS
WITH step AS (
	SELECT c.id AS id, c.session_id AS session_id, c.start_ns AS start_ns, n.string AS function,
		CASE WHEN n.string LIKE 'hipEventRecord%' THEN c.id END AS record_id,
		CASE WHEN n.string IN ('hipStreamSynchronize', 'hipStreamSynchronize_spt') THEN NULL
			WHEN n.string LIKE 'hipStreamWaitEvent%' THEN hex(substr(c.arguments, 9, 8))
			ELSE hex(substr(c.arguments, 1, 8)) END AS event
	FROM rtl_call c
	JOIN rtl_function f ON f.id = c.function_id
	JOIN rocpd_string n ON n.id = f.name_id
	WHERE c.result = 0 AND n.string IN ('hipEventRecord', 'hipEventRecordWithFlags', 'hipEventRecord_spt', 'hipEventSynchronize',
		'hipStreamWaitEvent', 'hipStreamWaitEvent_spt', 'hipStreamSynchronize', 'hipStreamSynchronize_spt')
), numbered AS ( -- records: how often the event has been recorded before
	SELECT id, function, session_id, event, record_id, count(record_id) OVER (PARTITION BY session_id, event
		ORDER BY start_ns, id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS records
	FROM step
), wait AS (
	SELECT id, function, event, record_id AS self, max(record_id) OVER (PARTITION BY session_id, event, records) AS record_id
	FROM numbered
)
SELECT c.id AS id,                         -- the call that waits: call.id; a join with call_stream would read all calls
	s.pid AS pid,
	t.tid AS thread,
	CASE WHEN w.function LIKE 'hipStreamWaitEvent%' THEN (SELECT m.stream FROM call_stream m WHERE m.call_id = w.id) END AS stream,
	                                   -- that waits; NULL: the thread waits
	(SELECT m.stream FROM call_stream m WHERE m.call_id = CASE WHEN w.event IS NULL THEN w.id ELSE w.record_id END) AS for_stream,
	                                   -- NULL: not known
	'0x' || ltrim(lower(w.event), '0') AS event, -- NULL: none
	r.id AS record_id,                 -- the call that recorded the event last; NULL: none, or not recorded, or no event
	r.start_ns AS record_ns,
	c.start_ns AS start_ns,
	c.start_ns + c.duration_ns AS end_ns
FROM wait w
JOIN rtl_call c ON c.id = w.id
LEFT JOIN rtl_session s ON s.id = c.session_id
LEFT JOIN rtl_thread t ON t.id = c.thread_id
LEFT JOIN rtl_call r ON r.id = w.record_id
WHERE w.self IS NULL;

-- The kernels of each launch of a graph, numbered from 1 in the order of their submits: in a queue, that of
-- the packets, as the times of submits are estimates.
CREATE VIEW IF NOT EXISTS graph_kernel AS
WITH submit AS (
	SELECT k.call_id AS replay_id, k.kernel_id AS kernel_id, x.queue_id AS queue_id, e.packet_index AS packet_index,
		max(e.start_ns - e.queued_ns) OVER (PARTITION BY k.call_id, x.queue_id ORDER BY e.packet_index) AS at_ns
	FROM call_kernel k
	JOIN rtl_call c ON c.id = k.call_id
	JOIN rtl_function f ON f.id = c.function_id
	JOIN rocpd_string n ON n.id = f.name_id
	JOIN rtl_execution e ON e.id = k.kernel_id
	JOIN rtl_context x ON x.id = e.context_id
	WHERE c.result = 0 AND n.string IN ('hipGraphLaunch', 'hipGraphLaunch_spt')
)
SELECT replay_id, row_number() OVER (PARTITION BY replay_id ORDER BY at_ns, queue_id, packet_index) AS node, kernel_id
FROM submit;

-- The launches of graphs (hipGraphLaunch). A graph ends with hipGraphExecDestroy: its handle can be
-- another graph's then.
CREATE VIEW IF NOT EXISTS graph_replay AS
WITH step AS ( -- made: the call begins or ends a graph with this handle
	SELECT c.id AS id, c.session_id AS session_id, c.start_ns AS start_ns, hex(substr(c.arguments, 1, 8)) AS exec,
		n.string NOT IN ('hipGraphLaunch', 'hipGraphLaunch_spt') AS made
	FROM rtl_call c
	JOIN rtl_function f ON f.id = c.function_id
	JOIN rocpd_string n ON n.id = f.name_id
	WHERE c.result = 0 AND (n.string IN ('hipGraphLaunch', 'hipGraphLaunch_spt', 'hipGraphExecDestroy')
		OR c.flags = 1 AND n.string IN ('hipGraphInstantiate', 'hipGraphInstantiateWithFlags', 'hipGraphInstantiateWithParams'))
), counted AS (
	SELECT id, session_id, start_ns, exec, made, total(made) OVER (PARTITION BY session_id, exec
		ORDER BY start_ns, id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS made_before
	FROM step
), launch AS (
	SELECT id, first_value(id) OVER w AS graph, row_number() OVER w AS replay
	FROM counted
	WHERE made = 0
	WINDOW w AS (PARTITION BY session_id, exec, made_before ORDER BY start_ns, id)
), item AS ( -- each launch, and its kernels: no join, for which SQLite may scan the launches for each kernel
	SELECT id AS replay_id, graph, replay, 0 AS node, NULL AS kernel_id
	FROM launch
	UNION ALL
	SELECT replay_id, NULL, NULL, node, kernel_id
	FROM graph_kernel
), node AS (
	SELECT i.replay_id AS replay_id, max(i.graph) OVER replays AS graph, max(i.replay) OVER replays AS replay, i.node AS node,
		count(i.kernel_id) OVER replays AS kernels, n.name_id AS name_id, e.start_ns AS start_ns,
		e.start_ns + e.duration_ns AS end_ns, e.duration_ns AS duration_ns
	FROM item i
	LEFT JOIN rtl_execution e ON e.id = i.kernel_id
	LEFT JOIN rtl_context x ON x.id = e.context_id
	LEFT JOIN rtl_launch n ON n.id = x.launch_id
	WINDOW replays AS (PARTITION BY i.replay_id)
), compared AS ( -- with the first of the replays with most kernels
	SELECT replay_id, graph, replay, kernels, start_ns, end_ns, duration_ns,
		name_id = first_value(name_id) OVER (PARTITION BY graph, node ORDER BY kernels DESC, replay) AS same,
		max(kernels) OVER (PARTITION BY graph) AS most
	FROM node
), ran AS (
	SELECT replay_id, graph, replay, kernels, min(start_ns) AS first_ns, max(end_ns) AS last_ns,
		CAST(total(duration_ns) AS INTEGER) AS gpu_ns, coalesce(min(same), 1) AND kernels = most AS same
	FROM compared
	GROUP BY replay_id, graph, replay, kernels, most
)
SELECT r.replay_id AS id,                  -- the call: call.id
	r.graph AS graph,                  -- the same in all replays of a graph: the id of the first
	'0x' || ltrim(lower(hex(substr(c.arguments, 1, 8))), '0') AS exec, -- the handle of the executable graph
	r.replay AS replay,                -- 1 is the first that was recorded
	s.pid AS pid,
	t.tid AS thread,                   -- that called
	(SELECT m.stream FROM call_stream m WHERE m.call_id = r.replay_id) AS stream, -- a handle
	c.start_ns AS start_ns,            -- of the call
	c.start_ns + c.duration_ns AS end_ns,
	r.kernels AS kernels,              -- that have times
	r.first_ns AS first_ns,            -- the first kernel's start; NULL: no kernel
	r.last_ns AS last_ns,              -- the last kernel's end
	r.gpu_ns AS gpu_ns,                -- the sum of the kernels' times
	r.same AS same                     -- 1: kernels with the same names in the same order as in the first of the
	                                   -- graph's replays with most kernels
FROM ran r
JOIN rtl_call c ON c.id = r.replay_id
LEFT JOIN rtl_session s ON s.id = c.session_id
LEFT JOIN rtl_thread t ON t.id = c.thread_id;
