package tracedb

import "testing"

// Queries of the same form as in the scripts of rocm-trace-lite and rocmProfileData: by
// position, by inner join, by UNION ALL.

func TestColumnsOfTheCompatibleForm(t *testing.T) {
	db, _ := finished(t)
	for table, want := range map[string]string{
		"rocpd_string":    "id,string",
		"rocpd_metadata":  "id,tag,value",
		"rocpd_op":        "id,gpuId,queueId,sequenceId,completionSignal,start,end,description_id,opType_id,roctxId,correlation_id",
		"rocpd_api":       "id,pid,tid,start,end,apiName_id,args_id,correlation_id,domain_id,category_id",
		"rocpd_api_ops":   "id,api_id,op_id",
		"rocpd_kernelapi": "api_ptr_id,api_id,stream,gridX,gridY,gridZ,workgroupX,workgroupY,workgroupZ,groupSegmentSize,privateSegmentSize,kernelName_id",
		"rocpd_copyapi":   "api_ptr_id,api_id,stream,size,dst,src,kind,sync",
		"rocpd_monitor":   "id,deviceType,deviceId,monitorType,start,end,value",
		"top":             "Name,Calls,TotalNs,AvgNs,MinNs,MaxNs,Pct",
		"busy":            "gpuId,utilization_pct,ops,busy_ns,wall_ns",
	} {
		expect(t, db, "SELECT group_concat(name) FROM pragma_table_info('"+table+"')", want)
	}
	expect(t, db, "SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_sequence'", "0")
}

func TestSummaryQueries(t *testing.T) {
	db, _ := finished(t)
	expect(t, db, "SELECT * FROM top LIMIT 10",
		"gemm(float*)|2|250|125|100|150|62.5", "copy_kernel|1|150|150|150|150|37.5")
	expect(t, db, "SELECT * FROM busy", "0|60|3|300|500")
	expect(t, db, "SELECT min(start), max(end) FROM rocpd_op WHERE end > start", "1000|1500")
	expect(t, db, "SELECT count(DISTINCT description_id) FROM rocpd_op", "2")
	expect(t, db, "SELECT tag, value FROM rocpd_metadata WHERE tag IN ('schema_version', 'pid')", "schema_version|2", "pid|42")
}

// The time between two separate sessions was not recorded. Concurrent sessions share
// their time.
func TestBusyOfSeveralSessions(t *testing.T) {
	db := create(t)
	for i, from := range []uint64{1000, 1100, 1_000_000} {
		s := begin(t, db, uint32(42+i))
		must(t, s.Agent(Agent{ID: 1, BDF: 0x300}), s.Queue(Queue{ID: 1, Agent: 1}),
			s.Dispatches([]Dispatch{{Queue: 1, StartNS: from, EndNS: from + 100}, {Queue: 1, StartNS: from + 400, EndNS: from + 500}}))
	}
	must(t, db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT * FROM busy", "0|54.55|6|600|1100")
}

func TestConversionQueries(t *testing.T) {
	db, _ := finished(t)
	expect(t, db, `SELECT o.gpuId, o.queueId, o.start, o.end, s.string, ot.string FROM rocpd_op o
		JOIN rocpd_string s ON o.description_id = s.id LEFT JOIN rocpd_string ot ON o.opType_id = ot.id
		WHERE o.end > o.start ORDER BY o.start`,
		"0|1|1000|1150|gemm(float*)|KernelExecution",
		"0|1|1050|1200|copy_kernel|KernelExecution",
		"0|1|1400|1500|gemm(float*)|KernelExecution")
	expect(t, db, `SELECT n.string, a.string, pid, tid, rocpd_api.start, rocpd_api.end FROM rocpd_api
		INNER JOIN rocpd_string n ON n.id = rocpd_api.apiName_id
		INNER JOIN rocpd_string a ON a.id = rocpd_api.args_id ORDER BY rocpd_api.id`,
		"KernelSubmit||42|11|900|900", "KernelSubmit||42|12|950|950", "KernelSubmit||42|0|1400|1400")
	expect(t, db, `SELECT rocpd_api_ops.id, pid, tid, gpuId, queueId, rocpd_op.start FROM rocpd_api_ops
		INNER JOIN rocpd_api ON rocpd_api_ops.api_id = rocpd_api.id
		INNER JOIN rocpd_op ON rocpd_api_ops.op_id = rocpd_op.id WHERE rocpd_api.start >= 950`,
		"2|42|12|0|1|1050", "3|42|0|0|1|1400")
	expect(t, db, "SELECT max(end) FROM (SELECT end FROM rocpd_api UNION ALL SELECT end FROM rocpd_op)", "1500")
	expect(t, db, "SELECT A.api_id, sum(B.end - B.start) FROM rocpd_api_ops A JOIN rocpd_op B ON B.id = A.op_id GROUP BY A.api_id",
		"1|150", "2|150", "3|100")
	expect(t, db, "SELECT completionSignal FROM rocpd_op WHERE id = 1", "hwq=0x3 wg=64,1,1 grid=256,2,1")
	expect(t, db, "SELECT api_id, gridX, workgroupX, s.string FROM rocpd_kernelapi JOIN rocpd_string s ON s.id = kernelName_id WHERE api_ptr_id = 2",
		"2|64|64|copy_kernel")
}
