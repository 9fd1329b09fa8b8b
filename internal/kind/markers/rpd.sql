-- ROCTx's marks and ranges as rocmProfileData has them: rows of rocpd_api without operations, named
-- UserMarker, with the message as their arguments; numbered behind the others.

INSERT OR IGNORE INTO made.rocpd_string(string) SELECT 'UserMarker' WHERE EXISTS (SELECT 1 FROM rtl_marker);

CREATE TEMP TABLE marked AS
SELECT m.id + (SELECT coalesce(max(id), 0) FROM made.rocpd_api) AS id, s.pid AS pid, coalesce(t.tid, 0) AS tid,
	m.start_ns AS start, m.end_ns AS end, harmless(coalesce(n.string, '')) AS text
FROM rtl_marker m
JOIN rtl_session s ON s.id = m.session_id
LEFT JOIN rtl_thread t ON t.id = m.thread_id
LEFT JOIN main.rocpd_string n ON n.id = m.name_id
WHERE m.form BETWEEN 0 AND 2 AND m.start_ns BETWEEN 0 AND 4611686018427387903 AND m.end_ns BETWEEN m.start_ns AND 4611686018427387903;

INSERT OR IGNORE INTO made.rocpd_string(string) SELECT DISTINCT text FROM marked;

INSERT INTO made.rocpd_api
SELECT m.id, m.pid, m.tid, m.start, m.end, (SELECT id FROM made.rocpd_string WHERE string = 'UserMarker'), n.id, m.id, NULL, NULL
FROM marked m
JOIN made.rocpd_string n ON n.string = m.text;

DROP TABLE marked;
