
-- Memory copies that the application asked the runtime for (--memory-copy-trace).
-- HIP's own copy kernels are kernels: rtl_blit names them.
CREATE TABLE IF NOT EXISTS rtl_copy(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	thread_id INTEGER,                 -- the calling thread
	from_agent_id INTEGER,             -- whose memory; NULL: the host's
	to_agent_id INTEGER,
	direction INTEGER NOT NULL,
	bytes INTEGER NOT NULL,
	reason_id INTEGER NOT NULL,        -- 0: it has times; else why not
	submit_ns INTEGER,
	start_ns INTEGER,
	duration_ns INTEGER
);

CREATE VIEW IF NOT EXISTS rtl_direction AS
SELECT column1 AS id, column2 AS name FROM (VALUES
	(0, 'host to host'), (1, 'host to device'), (2, 'device to host'), (3, 'device to device'));

-- Launches of the kernels with which HIP copies and fills itself.
CREATE VIEW IF NOT EXISTS rtl_blit AS
SELECT l.id AS launch_id, CASE WHEN s.string LIKE '%copy%' THEN 'copy' ELSE 'fill' END AS what
FROM rtl_launch l
JOIN rocpd_string s ON s.id = l.symbol_id
WHERE s.string GLOB '__amd_rocclr_copy*' OR s.string GLOB '__amd_rocclr_fill*';

-- Memory copies that the application asked the runtime for (--memory-copy-trace).
CREATE VIEW IF NOT EXISTS copy AS
SELECT c.id AS id,
	d.name AS direction,
	c.bytes AS bytes,
	f.gpu_id AS from_gpu,              -- NULL: host memory
	g.gpu_id AS to_gpu,
	s.pid AS pid,
	s.command AS command,
	t.tid AS thread,                   -- the calling thread; NULL: not known
	t.name AS thread_name,
	c.submit_ns AS submit_ns,
	c.start_ns AS start_ns,            -- NULL: it has no times
	c.start_ns + c.duration_ns AS end_ns,
	c.duration_ns AS duration_ns,
	(c.start_ns - (SELECT min(coalesce(armed_ns, begun_ns)) FROM rtl_session)) / 1e9 AS start_s,
	CASE WHEN c.reason_id <> 0 THEN r.text END AS untimed -- why it has no times
FROM rtl_copy c
LEFT JOIN rtl_direction d ON d.id = c.direction
LEFT JOIN rtl_agent f ON f.id = c.from_agent_id
LEFT JOIN rtl_agent g ON g.id = c.to_agent_id
LEFT JOIN rtl_session s ON s.id = c.session_id
LEFT JOIN rtl_thread t ON t.id = c.thread_id
LEFT JOIN rtl_reason r ON r.id = c.reason_id;
