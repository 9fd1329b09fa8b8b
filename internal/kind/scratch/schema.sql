
-- Operations of the runtime on scratch memory (--scratch-memory-trace), which it allocates for kernels that
-- need more private memory than their queue has. Written when they or the session have ended.
CREATE TABLE IF NOT EXISTS rtl_scratch(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	thread_id INTEGER,                 -- that does it, most often the runtime's own; NULL: not known
	queue_address INTEGER,             -- hsa_queue_t*
	operation INTEGER NOT NULL,           -- rtl_scratch_operation
	bytes INTEGER,                     -- allocated; NULL: not an allocation, or its end is not known
	slots INTEGER,                     -- waves that have scratch memory at a time; NULL: the same
	dispatch INTEGER,                  -- index of the packet that needs it; NULL: not an allocation
	flags INTEGER NOT NULL,            -- 1: for one dispatch only, 2: the queue's alternate memory
	start_ns INTEGER,                  -- NULL: before the recording, or the record is missing
	end_ns INTEGER                     -- NULL: after the recording, or the record is missing
);

-- What a session's runtime says of scratch memory.
CREATE TABLE IF NOT EXISTS rtl_scratch_coverage(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	events INTEGER NOT NULL,           -- types of event that are recorded; 0: the runtime has none (ROCr before 6.0)
	buried INTEGER NOT NULL            -- of them: another tool's function is above ours, and may not call it
);

CREATE VIEW IF NOT EXISTS rtl_scratch_operation AS
SELECT column1 AS id, column2 AS name FROM (VALUES (0, 'allocate'), (1, 'free'), (2, 'reclaim'));

-- The queue at an address in a session. Addresses repeat: NULL where the queues, or their GPUs, are several.
CREATE VIEW IF NOT EXISTS rtl_scratch_queue AS
SELECT session_id, address, CASE WHEN min(id) = max(id) THEN min(id) END AS queue_id,
	CASE WHEN min(agent_id) = max(agent_id) THEN min(agent_id) END AS agent_id
FROM rtl_queue GROUP BY session_id, address;

-- Operations of the runtime on scratch memory (--scratch-memory-trace).
CREATE VIEW IF NOT EXISTS scratch_memory AS
SELECT c.id AS id,
	a.name AS operation,               -- allocate, free, reclaim (from a queue that does not use it)
	c.bytes AS bytes,                  -- of an allocation
	c.slots AS slots,                  -- waves that have scratch memory at a time
	g.gpu_id AS gpu,                   -- NULL: not known
	q.queue_id AS queue,               -- HSA queue: rtl_queue.id; NULL: not known
	c.dispatch AS dispatch,            -- index of the packet in the queue
	c.flags & 1 AS use_once,           -- for one dispatch only
	c.flags >> 1 & 1 AS alternate,     -- the queue's alternate memory
	s.pid AS pid,
	s.command AS command,
	t.tid AS thread,                   -- that does it; NULL: not known
	t.name AS thread_name,
	c.start_ns AS start_ns,            -- NULL: not known
	c.end_ns AS end_ns,                -- NULL: not known
	c.end_ns - c.start_ns AS duration_ns,
	(c.start_ns - (SELECT min(coalesce(armed_ns, begun_ns)) FROM rtl_session)) / 1e9 AS start_s
FROM rtl_scratch c
LEFT JOIN rtl_scratch_operation a ON a.id = c.operation
LEFT JOIN rtl_scratch_queue q ON q.session_id = c.session_id AND q.address = c.queue_address
LEFT JOIN rtl_agent g ON g.id = q.agent_id
LEFT JOIN rtl_session s ON s.id = c.session_id
LEFT JOIN rtl_thread t ON t.id = c.thread_id;
