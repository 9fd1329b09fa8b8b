
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

-- begun = timed + untimed + unexplained. No row: copies were not recorded.
CREATE TABLE IF NOT EXISTS rtl_copy_coverage(
	session_id INTEGER PRIMARY KEY,
	begun INTEGER NOT NULL,            -- as the payload counted them
	timed INTEGER NOT NULL,
	untimed INTEGER NOT NULL,
	unexplained INTEGER NOT NULL
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
