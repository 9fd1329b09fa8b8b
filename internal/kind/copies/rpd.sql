-- Memory copies as rocmProfileData has them: operations with an api row and a
-- rocpd_copyapi row each, numbered behind the kernels. Those that calls submitted get the calls'
-- api rows later. made.top and made.busy are of kernels, and leave them out.

INSERT OR IGNORE INTO made.rocpd_string(string)
SELECT column1 FROM (VALUES
	('hsa_amd_memory_async_copy'), ('CopyHostToHost'), ('CopyHostToDevice'), ('CopyDeviceToHost'), ('CopyDeviceToDevice'))
WHERE EXISTS (SELECT 1 FROM rtl_copy);

CREATE TEMP TABLE copied AS
SELECT c.id + (SELECT coalesce(max(id), 0) FROM made.rocpd_op) AS id, c.id AS copy_id, s.pid AS pid, coalesce(t.tid, 0) AS tid,
	coalesce(o.gpu_id, f.gpu_id, -1) AS gpu, c.start_ns AS start, c.start_ns + c.duration_ns AS end,
	CASE WHEN c.submit_ns BETWEEN 0 AND 4611686018427387903 THEN c.submit_ns ELSE c.start_ns END AS submit,
	(SELECT id FROM made.rocpd_string WHERE string = CASE c.direction WHEN 0 THEN 'CopyHostToHost' WHEN 1 THEN 'CopyHostToDevice'
		WHEN 2 THEN 'CopyDeviceToHost' ELSE 'CopyDeviceToDevice' END) AS opType,
	(SELECT id FROM made.rocpd_string WHERE string = '') AS empty, c.bytes AS bytes, c.direction AS direction
FROM rtl_copy c
JOIN rtl_session s ON s.id = c.session_id
LEFT JOIN rtl_thread t ON t.id = c.thread_id
LEFT JOIN rtl_agent f ON f.id = c.from_agent_id
LEFT JOIN rtl_agent o ON o.id = c.to_agent_id
WHERE c.reason_id = 0 AND c.direction BETWEEN 0 AND 3 AND c.bytes >= 0 AND c.start_ns BETWEEN 0 AND 4611686018427387903
	AND c.duration_ns BETWEEN 0 AND 4611686018427387903 - c.start_ns
	AND (c.from_agent_id IS NULL OR f.id IS NOT NULL) AND (c.to_agent_id IS NULL OR o.id IS NOT NULL);

INSERT INTO made.rocpd_op
SELECT id, gpu, 0, 0, '', start, end, empty, opType, 0, id FROM copied;

INSERT INTO temp.linked SELECT c.id, s.call_id FROM copied c JOIN temp.submitted_memory_copy s ON s.id = c.copy_id;

INSERT INTO made.rocpd_api
SELECT id, pid, tid, submit, submit, (SELECT id FROM made.rocpd_string WHERE string = 'hsa_amd_memory_async_copy'), empty, id, NULL, NULL
FROM copied WHERE id NOT IN (SELECT op_id FROM temp.linked);

INSERT INTO made.rocpd_api_ops SELECT id, id, id FROM copied WHERE id NOT IN (SELECT op_id FROM temp.linked);

INSERT INTO made.rocpd_copyapi(api_ptr_id, stream, size, dst, src, kind, sync)
SELECT id, '', bytes, '', '', direction, 0 FROM copied;

DROP TABLE copied;
