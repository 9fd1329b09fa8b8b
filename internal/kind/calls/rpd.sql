-- Calls of one API as rocmProfileData has them: rows of rocpd_api, numbered behind the others and
-- behind all operations, with the API as their domain.

CREATE TEMP TABLE called AS
SELECT c.id + (SELECT max(coalesce(max(id), 0), (SELECT coalesce(max(id), 0) FROM made.rocpd_op)) FROM made.rocpd_api) AS id,
	c.id AS call_id, s.pid AS pid, coalesce(t.tid, 0) AS tid,
	c.start_ns AS start, c.start_ns + c.duration_ns AS end, harmless(n.string) AS name,
	call_arguments(n.string, coalesce(CAST(c.flags AS INTEGER), 0), CAST(c.arguments AS BLOB)) AS args
FROM rtl_call c
JOIN rtl_function f ON f.id = c.function_id
JOIN main.rocpd_string n ON n.id = f.name_id
JOIN rtl_session s ON s.id = c.session_id
LEFT JOIN rtl_thread t ON t.id = c.thread_id
WHERE f.api_id = (SELECT id FROM main.rocpd_string WHERE string = '$api') AND c.start_ns BETWEEN 0 AND 4611686018427387903
	AND c.duration_ns BETWEEN 0 AND 4611686018427387903 - c.start_ns;

INSERT OR IGNORE INTO made.rocpd_string(string) SELECT name FROM called UNION SELECT args FROM called
UNION SELECT '$domain' FROM called;

INSERT INTO made.rocpd_api
SELECT c.id, c.pid, c.tid, c.start, c.end, n.id, a.id, c.id, (SELECT id FROM made.rocpd_string WHERE string = '$domain'), NULL
FROM called c
JOIN made.rocpd_string n ON n.string = c.name
JOIN made.rocpd_string a ON a.string = c.args;
$operations
DROP TABLE called;
