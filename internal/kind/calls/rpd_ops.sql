
-- The operations that calls submitted, with the calls' api rows. A call with one operation also has the
-- details of its kernel or copy, as a launch in rocmProfileData; those of several have no place.

CREATE TEMP TABLE linked_api AS
SELECT l.op_id AS op_id, a.id AS api_id, count(*) OVER (PARTITION BY a.id) AS operations
FROM temp.linked l
JOIN made.rocpd_op o ON o.id = l.op_id
JOIN made.rocpd_api a ON a.id = l.call_id + (SELECT id - call_id FROM called LIMIT 1);

INSERT INTO made.rocpd_api_ops SELECT op_id, api_id, op_id FROM linked_api ORDER BY op_id;

UPDATE made.rocpd_op SET correlation_id = l.api_id FROM linked_api l WHERE l.op_id = rocpd_op.id;

INSERT INTO made.rocpd_kernelapi(api_ptr_id, stream, gridX, gridY, gridZ, workgroupX, workgroupY, workgroupZ,
	groupSegmentSize, privateSegmentSize, kernelName_id)
SELECT l.api_id, stream, CAST(gridX AS INTEGER), CAST(gridY AS INTEGER), CAST(gridZ AS INTEGER),
	CAST(workgroupX AS INTEGER), CAST(workgroupY AS INTEGER), CAST(workgroupZ AS INTEGER),
	CAST(groupSegmentSize AS INTEGER), CAST(privateSegmentSize AS INTEGER), kernelName_id
FROM linked_api l
CROSS JOIN rocpd_kernelapi k ON k.api_ptr_id = l.op_id
WHERE l.operations = 1;

DELETE FROM made.rocpd_copyapi WHERE api_ptr_id IN (SELECT op_id FROM linked_api WHERE operations > 1);

UPDATE made.rocpd_copyapi SET api_ptr_id = l.api_id FROM linked_api l WHERE l.op_id = rocpd_copyapi.api_ptr_id;

DROP TABLE linked_api;
