SELECT -2 * m.id - 1, s.pid, coalesce(t.tid, 0), m.start_ns, m.end_ns,
	(SELECT id FROM rocpd_string WHERE string = 'UserMarker'),
	coalesce(m.name_id, (SELECT id FROM rocpd_string WHERE string = '')), NULL, NULL, NULL
FROM rtl_marker m
JOIN rtl_session s ON s.id = m.session_id
LEFT JOIN rtl_thread t ON t.id = m.thread_id
WHERE m.form BETWEEN 0 AND 2 AND m.start_ns IS NOT NULL AND m.end_ns IS NOT NULL