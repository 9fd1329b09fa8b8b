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

	"github.com/rtl-attach/rtl-attach/internal/kind/allocations"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// allocatedAt is when the sample's allocations begin.
const allocatedAt = 300 * day

// allocationSample is a trace with allocations only: of a GPU and released, of the host, and one that fails.
func allocationSample(t testing.TB) string {
	t.Helper()
	db, path := create(t)
	s, err := db.Begin(tracedb.SessionInfo{PID: 41220, Command: "server", Host: "node", Generation: 1})
	must(t, err)
	made := allocations.Allocation{
		StartNS: allocatedAt + 100, EndNS: allocatedAt + 300, Address: 0x7f0000001000, SizeBytes: 4096, Pool: 1, Agent: 2, TID: 11,
		Flags: allocations.FlagAgentKnown,
	}
	host := made
	host.StartNS, host.EndNS, host.Address, host.Agent, host.Operation = allocatedAt+400, allocatedAt+500, 0x1000, 0, uint16(allocations.Region)
	failed := host
	failed.StartNS, failed.EndNS, failed.Address, failed.Status = allocatedAt+600, allocatedAt+700, 0, 0x1008
	freed := allocations.Allocation{
		StartNS: allocatedAt + 800, EndNS: allocatedAt + 900, Address: 0x7f0000001000, TID: 12, Operation: uint16(allocations.PoolFree),
	}
	must(t, errors.Join(
		s.Agent(tracedb.Agent{ID: 1, GPU: 0, Name: "gfx90a", BDF: 1}),
		s.Agent(tracedb.Agent{ID: 2, GPU: 1, Name: "gfx90a", BDF: 2}),
		s.Kind(4, func(w tracedb.KindWriter) error {
			return allocations.Store(w, []allocations.Allocation{made, host, failed, freed})
		}),
		s.End(tracedb.End{Reason: "detached", ArmedNS: allocatedAt, DetachedNS: allocatedAt + 1000, Kinds: []tracedb.KindCoverage{{Kind: "memory-allocation", Begun: 4, Timed: 4}}}),
		db.Close()))
	return path
}

func TestAllocationCSV(t *testing.T) {
	data, r := exported(t, "csv-allocations", allocationSample(t))
	lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	must(t, err)
	var got []string
	for _, line := range lines {
		got = append(got, strings.Join(line, "|"))
	}
	at := func(ns int64) string { return fmt.Sprintf("%d|%d", allocatedAt+ns, allocatedAt+ns+100) }
	if want := []string{
		"Kind|Operation|Agent_Id|Allocation_Size|Address|Correlation_Id|Start_Timestamp|End_Timestamp|Thread_Id|Process_Id|Session_Id|Status",
		fmt.Sprintf("MEMORY_ALLOCATION|MEMORY_ALLOCATION_ALLOCATE|GPU 1|4096|0x7f0000001000|1|%d|%d|11|41220|1|0", allocatedAt+100, allocatedAt+300),
		"MEMORY_ALLOCATION|MEMORY_ALLOCATION_ALLOCATE|host|4096|0x1000|2|" + at(400) + "|11|41220|1|0",
		"MEMORY_ALLOCATION|MEMORY_ALLOCATION_ALLOCATE|host|4096|0x0|3|" + at(600) + "|11|41220|1|4104",
		"MEMORY_ALLOCATION|MEMORY_ALLOCATION_FREE||0|0x7f0000001000|4|" + at(800) + "|12|41220|1|0",
	}; !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if r.of(allocations.Kind).Written != 4 {
		t.Errorf("%+v", r)
	}
}

func TestAllocationsInRocprof(t *testing.T) {
	data, _ := exported(t, "rocprofv3", allocationSample(t))
	type handle struct{ Handle int64 }
	var got struct {
		Tools []struct {
			Agents  []struct{ ID handle }
			Records struct {
				Allocations []struct {
					Kind, Operation int64
					Thread          int64  `json:"thread_id"`
					Start           int64  `json:"start_timestamp"`
					Size            int64  `json:"allocation_size"`
					Address         handle `json:"address"`
					Agent           handle `json:"agent_id"`
				} `json:"memory_allocation"`
			} `json:"buffer_records"`
		} `json:"rocprofiler-sdk-tool"`
	}
	must(t, json.Unmarshal(data, &got))
	made := got.Tools[0].Records.Allocations
	if len(made) != 4 {
		t.Fatalf("%+v", made)
	}
	if a := made[0]; a.Kind != 16 || a.Operation != 1 || a.Size != 4096 || a.Thread != 11 || a.Start != allocatedAt+100 ||
		a.Address.Handle != 0x7f0000001000 || a.Agent != got.Tools[0].Agents[1].ID {
		t.Errorf("%+v", a)
	}
	if a := made[3]; a.Operation != 3 || a.Size != 0 || a.Agent.Handle != 0 {
		t.Errorf("%+v", a)
	}
}

func TestAllocationsInChrome(t *testing.T) {
	data, _ := exported(t, "chrome", allocationSample(t))
	zip, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	var got struct {
		TraceEvents []struct {
			Ph, Cat, Name string
			TID           int64
			TS            float64
			Args          struct {
				Bytes  int64
				Status int64
			}
		}
	}
	must(t, json.NewDecoder(zip).Decode(&got))
	rows, failed, levels := map[int64]int{}, 0, []string{}
	for _, e := range got.TraceEvents {
		switch {
		case e.Cat == "memory_allocation":
			rows[e.TID]++
			if e.Args.Status != 0 {
				failed++
			}
		case e.Ph == "C":
			levels = append(levels, fmt.Sprintf("%s %.1f %d", e.Name, e.TS, e.Args.Bytes))
		}
	}
	if len(rows) != 2 || failed != 1 {
		t.Errorf("rows %v, %d failed", rows, failed)
	}
	if want := []string{"GPU 1: memory allocated 0.3 4096", "host memory allocated 0.5 4096", "GPU 1: memory allocated 0.8 0"}; !slices.Equal(levels, want) {
		t.Errorf("%q, want %q", levels, want)
	}
}

func TestAllocationsInPerfetto(t *testing.T) {
	data, _ := exported(t, "pftrace", allocationSample(t))
	var levels []string
	slices := 0
	for _, packet := range decodePerfetto(t, data) {
		switch e := packet.TrackEvent; {
		case e == nil:
		case e.Type == typeCounter:
			levels = append(levels, fmt.Sprintf("%d at %d", e.CounterValue, packet.Timestamp-allocatedAt))
		case e.Type == typeBegin && packet.Timestamp > allocatedAt:
			slices++
		}
	}
	if slices != 4 || strings.Join(levels, ", ") != "4096 at 300, 4096 at 500, 0 at 800" {
		t.Errorf("%d slices, %v", slices, levels)
	}
}

// What no recorder writes is left out, and said.
func TestImpossibleAllocations(t *testing.T) {
	path := allocationSample(t)
	change(t, path, `UPDATE rtl_allocation SET operation = 6 WHERE id = 1; UPDATE rtl_allocation SET duration_ns = -1 WHERE id = 2;
		UPDATE rtl_allocation SET agent_id = 77 WHERE id = 3; UPDATE rtl_allocation SET bytes = -1 WHERE id = 4`)
	for _, name := range []string{"pftrace", "chrome", "rocprofv3", "csv-allocations"} {
		if _, r := exported(t, name, path); r.of(allocations.Kind).Written != 0 || r.of(allocations.Kind).LeftOut != 4 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
