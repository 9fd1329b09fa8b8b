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

	"github.com/rtl-attach/rtl-attach/internal/kind/scratch"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// scratchAt is when the sample's operations begin.
const scratchAt = 300 * day

// scratchSample is a trace with an allocation of a queue of GPU 1, a reclaim within it, a free of a queue that
// is not known, and an operation without an end.
func scratchSample(t testing.TB) string {
	t.Helper()
	db, path := create(t)
	s, err := db.Begin(tracedb.SessionInfo{PID: 41220, Command: "server", Host: "node", Generation: 1})
	must(t, err)
	batch := []scratch.Span{
		{Operation: scratch.Allocate, TID: 11, Queue: 0x10, Dispatch: 5, Bytes: 4096, Slots: 4, Flags: 1, StartNS: scratchAt + 100, EndNS: scratchAt + 400},
		{Operation: scratch.Reclaim, TID: 11, Queue: 0x10, Flags: 2, StartNS: scratchAt + 200, EndNS: scratchAt + 300},
		{Operation: scratch.Free, TID: 12, Queue: 0x20, Flags: 1, StartNS: scratchAt + 500, EndNS: scratchAt + 600},
		{Operation: scratch.Free, TID: 12, Queue: 0x20, StartNS: scratchAt + 700},
	}
	must(t, errors.Join(
		s.Agent(tracedb.Agent{ID: 1, GPU: 0, Name: "gfx90a", BDF: 1}),
		s.Agent(tracedb.Agent{ID: 2, GPU: 1, Name: "gfx90a", BDF: 2}),
		s.Queue(tracedb.Queue{ID: 1, Agent: 1, Address: 0x8}),
		s.Queue(tracedb.Queue{ID: 2, Agent: 2, Address: 0x10}),
		s.Kind(4, func(w tracedb.KindWriter) error { return scratch.Store(w, batch) }),
		s.End(tracedb.End{Reason: "detached", ArmedNS: scratchAt, DetachedNS: scratchAt + 1000, Kinds: []tracedb.KindCoverage{{Kind: "scratch-memory", Begun: 7, Timed: 7}}}),
		db.Close()))
	return path
}

func TestScratchCSV(t *testing.T) {
	data, r := exported(t, "csv-scratch", scratchSample(t))
	lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	must(t, err)
	var got []string
	for _, line := range lines {
		got = append(got, strings.Join(line, "|"))
	}
	at := func(from, to int64) string { return fmt.Sprintf("%d|%d", scratchAt+from, scratchAt+to) }
	if want := []string{
		"Kind|Operation|Agent_Id|Queue_Id|Thread_Id|Alloc_Flags|Start_Timestamp|End_Timestamp|Allocation_Size|Slots|Dispatch_Index|Process_Id|Session_Id",
		"SCRATCH_MEMORY|SCRATCH_MEMORY_ALLOC|GPU 1|2|11|1|" + at(100, 400) + "|4096|4|5|41220|1",
		"SCRATCH_MEMORY|SCRATCH_MEMORY_ASYNC_RECLAIM|GPU 1|2|11|2|" + at(200, 300) + "|0|0|0|41220|1",
		"SCRATCH_MEMORY|SCRATCH_MEMORY_FREE||0|12|1|" + at(500, 600) + "|0|0|0|41220|1",
	}; !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if r.of(scratch.Kind).Written != 3 {
		t.Errorf("%+v", r)
	}
}

func TestScratchInRocprof(t *testing.T) {
	data, _ := exported(t, "rocprofv3", scratchSample(t))
	type handle struct{ Handle int64 }
	var got struct {
		Tools []struct {
			Agents  []struct{ ID handle }
			Records struct {
				Scratch []struct {
					Kind, Operation, Flags int64
					Thread                 int64  `json:"thread_id"`
					Start                  int64  `json:"start_timestamp"`
					Size                   int64  `json:"allocation_size"`
					Agent                  handle `json:"agent_id"`
					Queue                  handle `json:"queue_id"`
				} `json:"scratch_memory"`
			} `json:"buffer_records"`
		} `json:"rocprofiler-sdk-tool"`
	}
	must(t, json.Unmarshal(data, &got))
	made := got.Tools[0].Records.Scratch
	if len(made) != 3 {
		t.Fatalf("%+v", made)
	}
	if o := made[0]; o.Kind != 12 || o.Operation != 1 || o.Flags != 1 || o.Size != 4096 || o.Thread != 11 || o.Start != scratchAt+100 ||
		o.Queue.Handle != 2 || o.Agent != got.Tools[0].Agents[1].ID {
		t.Errorf("%+v", o)
	}
	if made[1].Operation != 3 || made[2].Operation != 2 || made[2].Queue.Handle != 0 {
		t.Errorf("%+v", made[1:])
	}
}

// Each queue has a row.
func TestScratchInTimelines(t *testing.T) {
	path := scratchSample(t)
	data, _ := exported(t, "chrome", path)
	zip, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	var got struct {
		TraceEvents []struct {
			Cat      string
			PID, TID int64
		}
	}
	must(t, json.NewDecoder(zip).Decode(&got))
	rows := map[[2]int64]int{}
	for _, e := range got.TraceEvents {
		if e.Cat == "scratch_memory" {
			rows[[2]int64{e.PID, e.TID}]++
		}
	}
	if len(rows) != 2 {
		t.Errorf("rows %v", rows)
	}
	data, _ = exported(t, "pftrace", path)
	slices := 0
	for _, packet := range decodePerfetto(t, data) {
		if e := packet.TrackEvent; e != nil && e.Type == typeBegin && packet.Timestamp > scratchAt {
			slices++
		}
	}
	if slices != 3 {
		t.Errorf("%d slices", slices)
	}
}

// What no recorder writes is left out, and said.
func TestImpossibleScratch(t *testing.T) {
	path := scratchSample(t)
	change(t, path, `UPDATE rtl_scratch SET bytes = -1 WHERE id = 1; UPDATE rtl_scratch SET operation = 3 WHERE id = 2;
		UPDATE rtl_scratch SET end_ns = start_ns - 1 WHERE id = 3`)
	for _, name := range []string{"pftrace", "chrome", "rocprofv3", "csv-scratch"} {
		if _, r := exported(t, name, path); r.of(scratch.Kind).Written != 0 || r.of(scratch.Kind).LeftOut != 3 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
