package calls

import "github.com/rtl-attach/rtl-attach/internal/kind"

// csvHeader has rocprofv3's columns, and three more.
var csvHeader = []string{
	"Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id", "Start_Timestamp", "End_Timestamp",
	"Result", "Arguments", "Session_Id",
}

var (
	hipCSV = &kind.CSV{
		Format: "csv-hip", Suffix: "_hip_api_trace.csv", For: "the calls of HIP, with rocprofv3's columns", Header: csvHeader,
	}
	hsaCSV = &kind.CSV{
		Format: "csv-hsa", Suffix: "_hsa_api_trace.csv", For: "the calls of HSA, with rocprofv3's columns", Header: csvHeader,
	}
)
