
-- Allocations and releases of memory by calls of the HSA runtime (--memory-allocation-trace).
-- The rows are not in the order of their times.
CREATE TABLE IF NOT EXISTS rtl_allocation(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	thread_id INTEGER,                 -- the calling thread
	operation INTEGER NOT NULL,
	agent_id INTEGER,                  -- whose memory; NULL: the host's, or, without a pool, not known
	address INTEGER,                   -- or the handle of virtual memory; NULL: none was returned, or passed
	bytes INTEGER,                     -- asked for; NULL: a release
	pool INTEGER,                      -- handle of the pool or region; NULL: a release, or no agent has such a pool
	status INTEGER NOT NULL,           -- hsa_status_t; 0: the call succeeded
	start_ns INTEGER NOT NULL,
	duration_ns INTEGER NOT NULL
);

CREATE VIEW IF NOT EXISTS rtl_allocation_operation AS
SELECT column1 AS id, column2 AS name, column3 AS is_release, column4 AS is_virtual FROM (VALUES
	(0, 'pool allocate', 0, 0), (1, 'region allocate', 0, 0), (2, 'virtual memory create', 0, 1),
	(3, 'pool free', 1, 0), (4, 'region free', 1, 0), (5, 'virtual memory release', 1, 1));

-- The successful operations, and which belong together. Addresses repeat: a release belongs to
-- the last allocation of its address in the process. Memory counts from the end of its allocation
-- to the begin of its release: in the time between, no other block can have its address.
CREATE VIEW IF NOT EXISTS rtl_allocation_chain AS
SELECT id, agent_id, owner_known, bytes, at_ns,
	CASE WHEN is_release = 0 THEN lead(at_ns) OVER chain END AS gone_ns, -- its release, or, if that is missing, the next allocation
	CASE WHEN is_release = 0 AND lead(is_release) OVER chain = 1 THEN lead(at_ns) OVER chain END AS freed_ns,
	CASE WHEN is_release = 1 AND lag(is_release) OVER chain = 0 THEN lag(id) OVER chain END AS allocation_id -- what it releases
FROM (SELECT a.id AS id, p.process AS process, a.address AS address, a.agent_id AS agent_id, a.pool IS NOT NULL AS owner_known,
		a.bytes AS bytes, o.is_release AS is_release, o.is_virtual AS is_virtual,
		a.start_ns + CASE WHEN o.is_release = 0 THEN a.duration_ns ELSE 0 END AS at_ns
	FROM rtl_allocation a
	JOIN rtl_allocation_operation o ON o.id = a.operation
	JOIN (SELECT id, min(id) OVER (PARTITION BY host, pid, start_ticks) AS process FROM rtl_session) p ON p.id = a.session_id
	WHERE a.status = 0 AND a.address IS NOT NULL)
WINDOW chain AS (PARTITION BY process, is_virtual, address ORDER BY at_ns, is_release, id);

-- Allocations and releases of memory by calls of the HSA runtime (--memory-allocation-trace).
CREATE VIEW IF NOT EXISTS memory_allocation AS
SELECT a.id AS id,
	o.name AS operation,
	coalesce(a.bytes, m.bytes) AS bytes, -- NULL: a release of memory that was allocated before the recording
	CASE WHEN coalesce(m.pool, a.pool) IS NOT NULL THEN coalesce('GPU ' || g.gpu_id, 'host') END AS memory, -- NULL: not known
	g.gpu_id AS gpu,                   -- NULL: host memory, or not known
	printf('0x%x', a.address) AS address,
	s.pid AS pid,
	s.command AS command,
	t.tid AS thread,                   -- the calling thread; NULL: not known
	t.name AS thread_name,
	a.start_ns AS start_ns,
	a.start_ns + a.duration_ns AS end_ns,
	a.duration_ns AS duration_ns,
	(a.start_ns - (SELECT min(coalesce(armed_ns, begun_ns)) FROM rtl_session)) / 1e9 AS start_s,
	c.freed_ns AS freed_ns,            -- begin of the release; NULL: it is not in the trace
	c.freed_ns - c.at_ns AS lifetime_ns,
	c.allocation_id AS allocation_id,  -- of a release: what it releases
	CASE WHEN a.status <> 0 THEN a.status END AS failed -- hsa_status_t
FROM rtl_allocation a
LEFT JOIN rtl_allocation_operation o ON o.id = a.operation
LEFT JOIN rtl_allocation_chain c ON c.id = a.id
LEFT JOIN rtl_allocation m ON m.id = c.allocation_id
LEFT JOIN rtl_agent g ON g.id = coalesce(m.agent_id, a.agent_id)
LEFT JOIN rtl_session s ON s.id = a.session_id
LEFT JOIN rtl_thread t ON t.id = a.thread_id;

-- Bytes of the allocations in the trace that are not released yet, over time. Memory that was
-- allocated before the recording is not in it.
CREATE VIEW IF NOT EXISTS memory_live AS
SELECT time_ns, memory, gpu, CAST(change AS INTEGER) AS change_bytes,
	CAST(total(change) OVER (PARTITION BY memory ORDER BY time_ns) AS INTEGER) AS live_bytes
FROM (SELECT time_ns, CASE WHEN owner_known THEN coalesce('GPU ' || g.gpu_id, 'host') END AS memory, g.gpu_id AS gpu, total(change) AS change
	FROM (SELECT at_ns AS time_ns, agent_id, owner_known, bytes AS change FROM rtl_allocation_chain WHERE bytes IS NOT NULL
		UNION ALL SELECT gone_ns, agent_id, owner_known, -1.0 * bytes FROM rtl_allocation_chain WHERE gone_ns IS NOT NULL) e
	LEFT JOIN rtl_agent g ON g.id = e.agent_id
	GROUP BY 1, 2)
ORDER BY time_ns;
