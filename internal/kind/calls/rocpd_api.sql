SELECT -2 * c.id, s.pid, coalesce(t.tid, 0), c.start_ns, c.start_ns + c.duration_ns,
	f.name_id, (SELECT id FROM rocpd_string WHERE string = ''), NULL, f.api_id, NULL
FROM rtl_call c
JOIN rtl_function f ON f.id = c.function_id
JOIN rtl_session s ON s.id = c.session_id
LEFT JOIN rtl_thread t ON t.id = c.thread_id