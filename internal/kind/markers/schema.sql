
-- ROCTx's marks and ranges (--marker-trace), written when a range or the session has ended.
CREATE TABLE IF NOT EXISTS rtl_marker(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	form INTEGER NOT NULL,             -- rtl_marker_form
	thread_id INTEGER,                 -- that began it; NULL: not known
	end_thread_id INTEGER,             -- that ended it
	level INTEGER,                     -- in how many recorded ranges of its thread it lies; NULL: not known, or not of a thread
	name_id INTEGER,                   -- the message, up to 255 bytes and … of a longer one; NULL: not known
	number INTEGER,                    -- of a process range, in its process
	missing INTEGER NOT NULL,          -- rtl_marker_missing: why it has no start, or no end
	start_ns INTEGER,
	end_ns INTEGER
);

-- By which libraries markers came: when a session began, when that changed, and at its end.
CREATE TABLE IF NOT EXISTS rtl_marker_library(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	library INTEGER NOT NULL,          -- 0: libroctx64, 1: librocprofiler-sdk-roctx
	way INTEGER NOT NULL               -- rtl_marker_way
);

CREATE VIEW IF NOT EXISTS rtl_marker_form AS
SELECT column1 AS id, column2 AS name FROM (VALUES (0, 'mark'), (1, 'range'), (2, 'process range'));

CREATE VIEW IF NOT EXISTS rtl_marker_missing AS
SELECT column1 AS id, column2 AS text FROM (VALUES
	(0, 'nothing'),
	(1, 'began before the recording'),
	(2, 'open at the end of the recording'),
	(3, 'records are missing, and the start or the end may be among them'),
	(4, 'more ranges open at once than are followed'),
	(5, 'the thread is not known'));

CREATE VIEW IF NOT EXISTS rtl_marker_way AS
SELECT column1 AS id, column2 AS text FROM (VALUES
	(0, 'not loaded'),
	(1, 'recorded'),
	(2, 'recorded, and passed on to another tool'),
	(3, 'not recorded: another tool has taken its place'),
	(4, 'not recorded: a form of the library that is not known'),
	(5, 'not recorded: the process loaded it during the recording'));

-- ROCTx's marks and ranges (--marker-trace).
CREATE VIEW IF NOT EXISTS marker AS
SELECT m.id AS id,
	n.string AS name,                  -- NULL: not known
	f.name AS kind,                    -- mark, range (of a thread), process range
	m.level AS level,                  -- in how many ranges of the thread it lies
	s.pid AS pid,
	s.command AS command,
	t.tid AS thread,                   -- that began it; NULL: not known
	t.name AS thread_name,
	e.tid AS end_thread,               -- that ended it
	m.start_ns AS start_ns,            -- NULL: not known
	m.end_ns AS end_ns,                -- NULL: not known
	m.end_ns - m.start_ns AS duration_ns,
	(m.start_ns - (SELECT min(coalesce(armed_ns, begun_ns)) FROM rtl_session)) / 1e9 AS start_s,
	CASE WHEN m.missing <> 0 THEN i.text END AS incomplete -- why it has no start, or no end
FROM rtl_marker m
LEFT JOIN rtl_marker_form f ON f.id = m.form
LEFT JOIN rtl_marker_missing i ON i.id = m.missing
LEFT JOIN rocpd_string n ON n.id = m.name_id
LEFT JOIN rtl_session s ON s.id = m.session_id
LEFT JOIN rtl_thread t ON t.id = m.thread_id
LEFT JOIN rtl_thread e ON e.id = m.end_thread_id;

-- The kernels of the ranges of threads: the range's thread submitted them in it. A kernel is in
-- each of the ranges around its submit; that with the highest level is the innermost one.
CREATE VIEW IF NOT EXISTS marker_kernel AS
WITH level AS (
	SELECT DISTINCT level AS level FROM rtl_marker WHERE form = 1 AND level BETWEEN 0 AND 1023
), step AS (
	SELECT m.thread_id AS thread_id, m.level AS level, m.start_ns AS at_ns, m.id AS marker_id, NULL AS kernel_id
	FROM rtl_marker m
	WHERE m.form = 1 AND m.level BETWEEN 0 AND 1023 AND m.thread_id IS NOT NULL AND m.start_ns IS NOT NULL
	UNION ALL
	SELECT x.thread_id, l.level, e.start_ns - e.queued_ns, NULL, e.id
	FROM rtl_execution e
	JOIN rtl_context x ON x.id = e.context_id
	JOIN level l
	WHERE x.thread_id IS NOT NULL AND e.queued_ns IS NOT NULL
), numbered AS ( -- begun: how many ranges of the level have begun on the thread
	SELECT thread_id, level, at_ns, marker_id, kernel_id, count(marker_id) OVER (PARTITION BY thread_id, level
		ORDER BY at_ns, kernel_id IS NOT NULL, marker_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS begun
	FROM step
), last AS (
	SELECT at_ns, kernel_id, max(marker_id) OVER (PARTITION BY thread_id, level, begun) AS marker_id
	FROM numbered
)
SELECT m.id AS marker_id, l.kernel_id AS kernel_id, m.level AS level
FROM last l
JOIN rtl_marker m ON m.id = l.marker_id
WHERE l.kernel_id IS NOT NULL AND l.at_ns <= m.end_ns;
