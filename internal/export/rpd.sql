-- The rocpd schema that rocm-trace-lite's and rocmProfileData's scripts accept, as
-- tables: scripts that delete rows (rpd_trim) work on it.

CREATE TABLE made.rocpd_string(id INTEGER PRIMARY KEY, string TEXT NOT NULL UNIQUE);
CREATE TABLE made.rocpd_metadata(id INTEGER PRIMARY KEY, tag TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE made.rocpd_op(
	id INTEGER PRIMARY KEY, gpuId INTEGER NOT NULL, queueId INTEGER NOT NULL, sequenceId INTEGER NOT NULL,
	completionSignal TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
	description_id INTEGER NOT NULL, opType_id INTEGER NOT NULL, roctxId INTEGER DEFAULT 0, correlation_id INTEGER);
CREATE TABLE made.rocpd_api(
	id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, tid INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
	apiName_id INTEGER NOT NULL, args_id INTEGER NOT NULL, correlation_id INTEGER, domain_id INTEGER, category_id INTEGER);
CREATE TABLE made.rocpd_api_ops(id INTEGER PRIMARY KEY, api_id INTEGER NOT NULL, op_id INTEGER NOT NULL);
CREATE TABLE made.rocpd_kernelapi(
	api_ptr_id INTEGER PRIMARY KEY, api_id INTEGER GENERATED ALWAYS AS (api_ptr_id) VIRTUAL, stream TEXT NOT NULL,
	gridX INTEGER, gridY INTEGER, gridZ INTEGER, workgroupX INTEGER, workgroupY INTEGER, workgroupZ INTEGER,
	groupSegmentSize INTEGER, privateSegmentSize INTEGER, kernelName_id INTEGER NOT NULL);
CREATE TABLE made.rocpd_copyapi(
	api_ptr_id INTEGER PRIMARY KEY, api_id INTEGER GENERATED ALWAYS AS (api_ptr_id) VIRTUAL, stream TEXT,
	size INTEGER, dst TEXT, src TEXT, kind INTEGER, sync INTEGER);
CREATE TABLE made.rocpd_monitor(
	id INTEGER PRIMARY KEY, deviceType TEXT, deviceId INTEGER, monitorType TEXT, start INTEGER, end INTEGER, value TEXT);

-- A recorder's strings are harmless, and all but the longest come through as they are.
-- Of others two may be the same afterwards.
INSERT OR IGNORE INTO made.rocpd_string SELECT id, harmless(string) FROM main.rocpd_string;
INSERT INTO made.rocpd_string SELECT id, harmless(string) || ' #' || id FROM main.rocpd_string
WHERE id NOT IN (SELECT id FROM made.rocpd_string);
INSERT INTO made.rocpd_metadata SELECT id, harmless(tag), harmless(value) FROM main.rocpd_metadata;

-- 4611686018427387903 is traceread.LatestNS. The views give what is no time where start and duration are impossible, and
-- leave out what refers to nothing. A column of numbers may hold words: what no key
-- or comparison has kept out is made a number.
INSERT INTO made.rocpd_op
SELECT id, gpuId, queueId, CAST(sequenceId AS INTEGER), completionSignal, start, end, description_id, opType_id, roctxId, correlation_id
FROM rocpd_op WHERE start BETWEEN 0 AND 4611686018427387903 AND end BETWEEN start AND 4611686018427387903
	AND description_id IN (SELECT id FROM main.rocpd_string);

INSERT INTO made.rocpd_api
SELECT a.id, pid, tid,
	CASE WHEN a.start BETWEEN 0 AND 4611686018427387903 THEN a.start ELSE o.start END,
	CASE WHEN a.start BETWEEN 0 AND 4611686018427387903 THEN a.start ELSE o.start END,
	apiName_id, args_id, a.correlation_id, domain_id, category_id
FROM rocpd_api a CROSS JOIN made.rocpd_op o ON o.id = a.id
WHERE a.id NOT IN (SELECT op_id FROM temp.linked); -- they have the rows of calls

INSERT INTO made.rocpd_api_ops SELECT id, id, id FROM made.rocpd_api;

INSERT INTO made.rocpd_kernelapi(api_ptr_id, stream, gridX, gridY, gridZ, workgroupX, workgroupY, workgroupZ,
	groupSegmentSize, privateSegmentSize, kernelName_id)
SELECT k.api_ptr_id, stream, CAST(gridX AS INTEGER), CAST(gridY AS INTEGER), CAST(gridZ AS INTEGER),
	CAST(workgroupX AS INTEGER), CAST(workgroupY AS INTEGER), CAST(workgroupZ AS INTEGER),
	CAST(groupSegmentSize AS INTEGER), CAST(privateSegmentSize AS INTEGER), kernelName_id
FROM rocpd_kernelapi k CROSS JOIN made.rocpd_api a ON a.id = k.api_id;

-- Read by position, as in the trace; GPU -1 stands for markers.
CREATE VIEW made.top AS
SELECT n.string AS Name, count(*) AS Calls, CAST(total(o.end - o.start) AS INTEGER) AS TotalNs,
	CAST(total(o.end - o.start) / count(*) AS INTEGER) AS AvgNs, min(o.end - o.start) AS MinNs, max(o.end - o.start) AS MaxNs,
	round(100.0 * total(o.end - o.start) / max(1, total(total(o.end - o.start)) OVER ()), 2) AS Pct
FROM rocpd_op o JOIN rocpd_string n ON n.id = o.description_id
WHERE o.opType_id = (SELECT id FROM rocpd_string WHERE string = 'KernelExecution')
GROUP BY n.id ORDER BY TotalNs DESC;

-- When each GPU was recorded, session for session: apart from each other.
CREATE TABLE made.rtl_span(gpuId INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL);

INSERT INTO made.rtl_span
SELECT gpuId, max(start, latest), end
FROM (SELECT gpuId, start, end, coalesce(max(end) OVER (PARTITION BY gpuId
		ORDER BY start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start) AS latest
	FROM (SELECT gpuId, min(start) AS start, max(end) AS end
		FROM (SELECT gpuId, queueId, min(start) AS start, max(end) AS end FROM made.rocpd_op GROUP BY gpuId, queueId) o
		JOIN rtl_queue q ON q.id = o.queueId GROUP BY gpuId, q.session_id))
WHERE end > latest OR start = latest;

CREATE VIEW made.busy AS
SELECT gpuId, round(100.0 * busy_ns / max(1, wall_ns), 2) AS utilization_pct, ops, busy_ns, wall_ns
FROM (SELECT gpuId, ops, busy_ns, (SELECT CAST(total(max(0, min(s.end, o.last) - max(s.start, o.first))) AS INTEGER)
		FROM rtl_span s WHERE s.gpuId = o.gpuId) AS wall_ns
	FROM (SELECT gpuId, count(*) AS ops, CAST(total(fresh) AS INTEGER) AS busy_ns, min(start) AS first, max(end) AS last
		FROM (SELECT gpuId, start, end,
				max(0, end - max(start, coalesce(max(end) OVER (PARTITION BY gpuId
					ORDER BY start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start))) AS fresh
			FROM rocpd_op WHERE gpuId >= 0 AND opType_id = (SELECT id FROM rocpd_string WHERE string = 'KernelExecution'))
		GROUP BY gpuId) o)
ORDER BY gpuId;
