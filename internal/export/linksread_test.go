package export

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// linksIn reads the links of kernels in an export: the row of the call by that of the kernel. Calls
// begin at different times.
var linksIn = map[string]func(*testing.T, string) map[int64]int64{
	"csv": linksInCSV, "rocprofv3": linksInRocprof, "chrome": linksInChrome, "pftrace": linksInPerfetto, "rpd": linksInRPD,
}

// callRow returns the row of a call with a correlation id; 0: it is not a call's.
func callRow(correlation int64) int64 { return max(0, correlation-calls.CorrelationID(0)) }

func linksInCSV(t *testing.T, path string) map[int64]int64 {
	data, _ := exported(t, "csv", path)
	return columnsOf(t, data, "Dispatch_Id", "Correlation_Id")
}

// columnOf returns a column of a CSV by another one.
func columnOf(t *testing.T, data []byte, by, column string) map[int64]int64 {
	t.Helper()
	lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	must(t, err)
	values := map[int64]int64{}
	for _, line := range lines[1:] {
		id, err := strconv.ParseInt(line[slices.Index(lines[0], by)], 10, 64)
		must(t, err)
		values[id], err = strconv.ParseInt(line[slices.Index(lines[0], column)], 10, 64)
		must(t, err)
	}
	return values
}

// columnsOf returns the calls in a column of a CSV by another one.
func columnsOf(t *testing.T, data []byte, by, column string) map[int64]int64 {
	t.Helper()
	links := columnOf(t, data, by, column)
	maps.DeleteFunc(links, func(id, correlation int64) bool {
		links[id] = callRow(correlation)
		return links[id] == 0
	})
	return links
}

type correlated struct {
	Correlation struct{ Internal int64 } `json:"correlation_id"`
	Start       int64                    `json:"start_timestamp"`
	Info        struct {
		ID int64 `json:"dispatch_id"`
	} `json:"dispatch_info"`
	Stream struct{ Handle int64 } `json:"stream_id"`
}

func correlatedIn(t *testing.T, path string) (kernels, moved []correlated) {
	t.Helper()
	data, _ := exported(t, "rocprofv3", path)
	var got struct {
		Tools []struct {
			Records struct {
				Kernels []correlated `json:"kernel_dispatch"`
				Copies  []correlated `json:"memory_copy"`
			} `json:"buffer_records"`
		} `json:"rocprofiler-sdk-tool"`
	}
	must(t, json.Unmarshal(data, &got))
	return got.Tools[0].Records.Kernels, got.Tools[0].Records.Copies
}

func linksInRocprof(t *testing.T, path string) map[int64]int64 {
	links := map[int64]int64{}
	kernels, _ := correlatedIn(t, path)
	for _, k := range kernels {
		if call := callRow(k.Correlation.Internal); call > 0 {
			links[k.Info.ID] = call
		}
	}
	return links
}

func linksInChrome(t *testing.T, path string) map[int64]int64 {
	return arrowsInChrome(t, path, "submit")
}

// arrowsInChrome returns the row of the call by the item in which an arrow of a category ends.
func arrowsInChrome(t *testing.T, path, category string) map[int64]int64 {
	t.Helper()
	data, _ := exported(t, "chrome", path)
	zip, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	var got struct {
		OtherData struct {
			Base int64 `json:"base_ns,string"`
		}
		TraceEvents []chromeEvent
	}
	must(t, json.NewDecoder(zip).Decode(&got))
	links, begun, ended, starts := map[int64]int64{}, map[int64]bool{}, map[int64]bool{}, callStarts(t, path)
	var last chromeEvent
	for _, e := range got.TraceEvents {
		if e.Ph == "X" {
			last = e
		}
		if e.Cat != category {
			continue
		}
		switch e.Ph {
		case "s":
			if begun[e.ID] {
				t.Errorf("arrow %d begins twice", e.ID)
			}
			begun[e.ID] = true
			if last.Cat == "submit" {
				continue
			}
			if at, from := ns(t, e.TS), ns(t, last.TS); e.TID != last.TID || at < from || at > from+ns(t, last.Dur) {
				t.Errorf("arrow %+v is not in %+v", e, last)
			}
			links[e.ID] = starts[got.OtherData.Base+ns(t, last.TS)]
		case "f":
			if ended[e.ID] || e.TS != last.TS {
				t.Errorf("arrow %d ends again (%t), or not where %+v begins", e.ID, ended[e.ID], last)
			}
			ended[e.ID] = true
		}
	}
	if !maps.Equal(begun, ended) {
		t.Errorf("arrows begin, %v, and end, %v", begun, ended)
	}
	return links
}

func linksInPerfetto(t *testing.T, path string) map[int64]int64 { return flowsInPerfetto(t, path, 0) }

// flowsInPerfetto returns the row of the call by the item, of a kind, in which a flow ends.
func flowsInPerfetto(t *testing.T, path string, ofKind int) map[int64]int64 {
	t.Helper()
	data, _ := exported(t, "pftrace", path)
	links, begun, ended, starts := map[int64]int64{}, map[number]bool{}, map[number]bool{}, callStarts(t, path)
	isOther := func(flow number) bool { return flow>>56 != number(ofKind) }
	for _, p := range decodePerfetto(t, data) {
		if p.TrackEvent == nil {
			continue
		}
		for _, flow := range p.TrackEvent.FlowIDs {
			if isOther(flow) {
				continue
			}
			if begun[flow] {
				t.Errorf("flow %d begins twice", flow)
			}
			if begun[flow] = true; p.TrackEvent.Type == typeBegin {
				links[int64(flow&(1<<56-1))] = starts[int64(p.Timestamp)]
			}
		}
		for _, flow := range p.TrackEvent.TerminatingFlowIDs {
			if isOther(flow) {
				continue
			}
			if ended[flow] {
				t.Errorf("flow %d ends twice", flow)
			}
			ended[flow] = true
		}
	}
	if !maps.Equal(begun, ended) {
		t.Errorf("flows begin, %v, and end, %v", begun, ended)
	}
	return links
}

func linksInRPD(t *testing.T, path string) map[int64]int64 {
	db, _ := makeRPD(t, path)
	rows, err := db.Query(`SELECT o.id, a.start, o.correlation_id = a.correlation_id, n.string FROM rocpd_op o JOIN rocpd_api_ops l ON l.op_id = o.id
		JOIN rocpd_api a ON a.id = l.api_id JOIN rocpd_string n ON n.id = a.apiName_id
		WHERE o.opType_id = (SELECT id FROM rocpd_string WHERE string = 'KernelExecution')`)
	must(t, err)
	defer rows.Close()
	links, seen, starts := map[int64]int64{}, map[int64]bool{}, callStarts(t, path)
	for rows.Next() {
		var op, start int64
		var same bool
		var name string
		must(t, rows.Scan(&op, &start, &same, &name))
		if seen[op] || !same {
			t.Errorf("operation %d: again %t, the correlation id of its call: %t", op, seen[op], same)
		}
		if seen[op] = true; name != "KernelSubmit" {
			links[op] = starts[start]
		}
	}
	must(t, rows.Err())
	if ops := dump(t, db, "SELECT count(*) FROM rocpd_op WHERE opType_id = (SELECT id FROM rocpd_string WHERE string = 'KernelExecution')"); ops[0] != fmt.Sprint(len(seen), "|") {
		t.Errorf("%d of %s operations have an api row", len(seen), ops[0])
	}
	return links
}

// callStarts returns the rows of a trace's calls by their starts.
func callStarts(t *testing.T, path string) map[int64]int64 {
	t.Helper()
	return pairs(t, path, "SELECT start_ns, id FROM rtl_call WHERE typeof(start_ns) = 'integer'")
}

func pairs(t *testing.T, path, query string) map[int64]int64 {
	t.Helper()
	db, err := tracedb.Open(path)
	must(t, err)
	defer db.Close()
	rows, err := db.Query(query)
	must(t, err)
	defer rows.Close()
	all := map[int64]int64{}
	for rows.Next() {
		var a, b int64
		must(t, rows.Scan(&a, &b))
		all[a] = b
	}
	must(t, rows.Err())
	return all
}
