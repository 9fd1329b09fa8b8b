package export

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/copies"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// copiesAt is when the sample's copies begin.
const copiesAt = 200 * day

// copySample is a trace with copies only: two of them overlap on one route, one
// is from GPU to GPU, one has no times.
func copySample(t testing.TB) string {
	t.Helper()
	db, path := create(t)
	s, err := db.Begin(tracedb.SessionInfo{PID: 41220, Command: "server", Host: "node", Generation: 1})
	must(t, err)
	up := copies.Copy{StartNS: copiesAt + 100, EndNS: copiesAt + 300, SubmitNS: copiesAt, Bytes: 4096, To: 2, TID: 11, Direction: uint16(copies.HostToDevice)}
	second := up
	second.StartNS, second.EndNS = up.StartNS+100, up.EndNS+100
	across := copies.Copy{StartNS: copiesAt + 500, EndNS: copiesAt + 500, Bytes: 8, From: 1, To: 2, Direction: uint16(copies.DeviceToDevice)}
	untimed := copies.Copy{SubmitNS: copiesAt, Bytes: 1, From: 1, Direction: uint16(copies.DeviceToHost), Reason: uint16(ring.ReasonRearmed)}
	must(t, errors.Join(
		s.Agent(tracedb.Agent{ID: 1, GPU: 0, Name: "gfx90a", BDF: 1}),
		s.Agent(tracedb.Agent{ID: 2, GPU: 1, Name: "gfx90a", BDF: 2}),
		s.Kind(4, func(w tracedb.KindWriter) error { return copies.Store(w, []copies.Copy{up, second, across, untimed}) }),
		s.End(tracedb.End{Reason: "detached", ArmedNS: copiesAt, DetachedNS: copiesAt + 1000, Kinds: []tracedb.KindCoverage{{Kind: "memory-copy", Begun: 4, Timed: 3, Untimed: 1}}}),
		db.Close()))
	return path
}

func TestCopyCSV(t *testing.T) {
	data, r := exported(t, "csv-copies", copySample(t))
	lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	must(t, err)
	var got []string
	for _, line := range lines[1:] {
		got = append(got, strings.Join(line, "|"))
	}
	if want := []string{
		fmt.Sprintf("MEMORY_COPY|MEMORY_COPY_HOST_TO_DEVICE|host|GPU 1|1|%d|%d|4096|11|41220|1", copiesAt+100, copiesAt+300),
		fmt.Sprintf("MEMORY_COPY|MEMORY_COPY_HOST_TO_DEVICE|host|GPU 1|2|%d|%d|4096|11|41220|1", copiesAt+200, copiesAt+400),
		fmt.Sprintf("MEMORY_COPY|MEMORY_COPY_DEVICE_TO_DEVICE|GPU 0|GPU 1|3|%d|%d|8|0|41220|1", copiesAt+500, copiesAt+500),
	}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if r.of(copies.Kind).Written != 3 || !strings.Contains(strings.Join(r.Warnings(Formats[0]), "\n"), "3 of 4 memory copies timed") {
		t.Errorf("%+v, %q", r, r.Warnings(Formats[0]))
	}
}

func TestCopiesInRocprof(t *testing.T) {
	data, _ := exported(t, "rocprofv3", copySample(t))
	type handle struct{ Handle int64 }
	var got struct {
		Tools []struct {
			Agents []struct {
				ID   handle
				Type int
			}
			Records struct {
				Copies []struct {
					Kind, Operation, Bytes int64
					Thread                 int64  `json:"thread_id"`
					Start                  int64  `json:"start_timestamp"`
					End                    int64  `json:"end_timestamp"`
					From                   handle `json:"src_agent_id"`
					To                     handle `json:"dst_agent_id"`
				} `json:"memory_copy"`
			} `json:"buffer_records"`
		} `json:"rocprofiler-sdk-tool"`
	}
	must(t, json.Unmarshal(data, &got))
	made, agents := got.Tools[0].Records.Copies, got.Tools[0].Agents
	if len(made) != 3 {
		t.Fatalf("%+v", made)
	}
	if c := made[0]; c.Kind != 10 || c.Operation != 2 || c.Bytes != 4096 || c.Thread != 11 || c.Start != copiesAt+100 || c.End != copiesAt+300 || c.From != agents[2].ID || agents[2].Type != 1 || c.To != agents[1].ID {
		t.Errorf("%+v", c)
	}
	if c := made[2]; c.Operation != 4 || c.From != agents[0].ID || c.To != agents[1].ID {
		t.Errorf("%+v", c)
	}
}

func TestCopiesInChrome(t *testing.T) {
	data, _ := exported(t, "chrome", copySample(t))
	zip, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	var got struct {
		TraceEvents []struct {
			Ph, Cat, Name string
			TID           int64
			Dur           float64
			Args          struct {
				Bytes int64  `json:"copy_bytes"`
				From  *int64 `json:"src_agent"`
				To    *int64 `json:"dst_agent"`
			}
		}
	}
	must(t, json.NewDecoder(zip).Decode(&got))
	rows := map[int64]int{}
	for _, e := range got.TraceEvents {
		if e.Cat != "memory_copy" {
			continue
		}
		rows[e.TID]++
		up := e.Name == "MEMORY_COPY_HOST_TO_DEVICE"
		if e.Ph != "X" || up != (e.Args.From == nil) || *e.Args.To != 1 || up && (e.Dur != 0.2 || e.Args.Bytes != 4096) {
			t.Errorf("%+v", e)
		}
	}
	if len(rows) != 3 { // those that overlap are not on one row
		t.Errorf("rows %v", rows)
	}
}

func TestCopiesInPerfetto(t *testing.T) {
	data, _ := exported(t, "pftrace", copySample(t))
	names, begun := map[number]string{}, map[string]int{}
	for _, packet := range decodePerfetto(t, data) {
		for _, n := range packet.InternedData.EventNames {
			names[n.IID] = n.Name
		}
		if e := packet.TrackEvent; e != nil && e.Type == typeBegin {
			begun[fmt.Sprintf("%s at %d", names[e.NameIID], packet.Timestamp-copiesAt)]++
		}
	}
	for _, want := range []string{"MEMORY_COPY_HOST_TO_DEVICE at 100", "MEMORY_COPY_HOST_TO_DEVICE at 200", "MEMORY_COPY_DEVICE_TO_DEVICE at 500"} {
		if begun[want] != 1 {
			t.Errorf("%s: %d times; %v", want, begun[want], begun)
		}
	}
}

// What no recorder writes is left out, and said.
func TestImpossibleCopies(t *testing.T) {
	path := copySample(t)
	change(t, path, `UPDATE rtl_copy SET direction = 9 WHERE id = 1; UPDATE rtl_copy SET duration_ns = -1 WHERE id = 2;
		UPDATE rtl_copy SET to_agent_id = 77 WHERE id = 3`)
	for _, f := range Formats {
		if !f.Streams() || f.Name == "csv" || f.isIdle() || len(f.kinds) > 0 && !slices.Contains(f.kinds, copies.Kind) {
			continue
		}
		if _, r := exported(t, f.Name, path); r.of(copies.Kind).Written != 0 || r.of(copies.Kind).LeftOut != 3 {
			t.Errorf("%s: %+v", f.Name, r)
		}
	}
	if _, r := makeRPD(t, path); r.of(copies.Kind).Written != 0 || r.of(copies.Kind).LeftOut != 3 {
		t.Errorf("rpd: %+v", r)
	}
}

// What rocmProfileData's readers ask of copies; top and busy stay those of kernels.
func TestCopiesInRPD(t *testing.T) {
	db, r := makeRPD(t, copySample(t))
	if r.of(copies.Kind).Written != 3 || r.of(copies.Kind).LeftOut != 0 || r.Dispatches != 0 || r.LeftOut != 0 {
		t.Errorf("%+v", r)
	}
	got := dump(t, db, `SELECT o.gpuId, t.string, n.string, a.pid, a.tid, o.start - 200 * 86400000000000, o.end - o.start, c.size, c.kind
		FROM rocpd_copyapi c JOIN rocpd_api a ON a.id = c.api_id JOIN rocpd_api_ops x ON x.api_id = a.id JOIN rocpd_op o ON o.id = x.op_id
		JOIN rocpd_string t ON t.id = o.opType_id JOIN rocpd_string n ON n.id = a.apiName_id JOIN rocpd_string e ON e.id = a.args_id ORDER BY o.id`)
	if want := []string{
		"1|CopyHostToDevice|hsa_amd_memory_async_copy|41220|11|100|200|4096|1|",
		"1|CopyHostToDevice|hsa_amd_memory_async_copy|41220|11|200|200|4096|1|",
		"1|CopyDeviceToDevice|hsa_amd_memory_async_copy|41220|0|500|0|8|3|",
	}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if n := dump(t, db, "SELECT (SELECT count(*) FROM top), (SELECT count(*) FROM busy)"); n[0] != "0|0|" {
		t.Errorf("top and busy: %v", n)
	}
}
