package truth

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/avail"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// available returns what avail says of a process.
func available(t *testing.T, p *harness.Process) *avail.Process {
	t.Helper()
	run := harness.Tool(t, "avail", strconv.Itoa(p.PID), "--json")
	run.MustBe(t, failure.OK)
	if stopped := p.Stopped(); len(stopped) > 0 {
		t.Errorf("stopped threads: %v", stopped)
	}
	said := &avail.Process{}
	if err := json.Unmarshal([]byte(run.Stdout), said); err != nil {
		t.Fatalf("%v\n%s", err, run.Stdout)
	}
	return said
}

func supportOf(t *testing.T, p *avail.Process, kind string) avail.Support {
	t.Helper()
	i := slices.IndexFunc(p.Kinds, func(s avail.Support) bool { return s.Kind == kind })
	if i < 0 {
		t.Fatalf("avail says nothing of %s: %+v", kind, p)
	}
	return p.Kinds[i]
}

// intercepted is what a trace says of an API.
type intercepted struct {
	way                                  calls.Way
	functions, hooked, excluded, unknown int
}

func coverageIn(t *testing.T, trace, kind string) (c intercepted) {
	t.Helper()
	db, err := tracedb.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.QueryRow(`SELECT way, functions, hooked, excluded, unknown FROM rtl_call_coverage JOIN rocpd_string a ON a.id = api_id
		WHERE a.string = ?`, kind).Scan(&c.way, &c.functions, &c.hooked, &c.excluded, &c.unknown)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return c
}

// What avail says of a process, a recording of it confirms.
func TestAvail(t *testing.T) {
	t.Parallel()
	needCalls(t)
	p := harness.Start(t, harness.HIPCalls())
	said := available(t, p)
	if len(said.Tools) > 0 {
		t.Errorf("before the attach: %+v", said.Tools)
	}
	run := p.RecordUntil(t, 0, 1000, "--sys-trace", "--hsa-signal-trace", "--buffer-policy", "lossless")
	ways := map[calls.Way]string{calls.WayTable: avail.WayTable, calls.WayGOT: avail.WayGOT}
	const mangled = 8 // functions that HIP 5 exports by a C++ name only
	for kind, least := range map[string]int{"hip-runtime-api": 200, "hip-compiler-api": 5, "hsa-core-api": 100, "hsa-amd-ext-api": 20} {
		s, c := supportOf(t, said, kind), coverageIn(t, run.Trace, kind)
		recordable := c.functions - c.excluded - c.unknown
		if s.Result != avail.Yes || s.Way != ways[c.way] || s.Exported < least || s.Exported > recordable || s.Exported < recordable-mangled {
			t.Errorf("%s: avail says %+v, the recording %+v", kind, s, c)
		}
	}
	for kind, want := range map[string]avail.Result{"memory-copy": avail.Yes, "memory-allocation": avail.Yes, "rccl-api": avail.No, "marker": avail.No} {
		if s := supportOf(t, said, kind); s.Result != want {
			t.Errorf("%s: %+v", kind, s)
		}
	}
	if c := coverageIn(t, run.Trace, "rccl-api"); c.way != calls.WayNone {
		t.Errorf("RCCL: %+v", c)
	}
	scratchAsSaid(t, run.Trace, supportOf(t, said, "scratch-memory"))
	p.StillAlive(t)
}

// scratchAsSaid compares what avail says of scratch memory with the recording's own word.
func scratchAsSaid(t *testing.T, trace string, s avail.Support) {
	t.Helper()
	db, err := tracedb.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var has bool
	if err := db.QueryRow("SELECT max(events) > 0 FROM rtl_scratch_coverage").Scan(&has); err != nil {
		t.Fatal(err)
	}
	if has != (s.Result == avail.Yes) {
		t.Errorf("scratch memory: avail says %+v, the recording %t", s, has)
	}
}

// It changes nothing in the process. While the process is recorded, the payload's hooks are shown; another
// tool's, too.
func TestAvailHooks(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Stress(2, 1, 64, "--pace", "300"))
	before := p.Snapshot(t)
	if tools := available(t, p).Tools; len(tools) > 0 {
		t.Errorf("before the attach: %+v", tools)
	}
	p.AsFound(t, before)
	r := p.Begin(t)
	p.Active(t)
	if tools := available(t, p).Tools; len(tools) != 1 || !tools[0].Own || tools[0].Functions < 10 {
		t.Errorf("while it is recorded: %+v", tools)
	}
	r.Interrupt(t)
	r.MustRecord(t)
	if tools := available(t, p).Tools; len(tools) > 0 {
		t.Errorf("afterwards: %+v", tools)
	}
	tell(t, p, "enter")
	if tools := available(t, p).Tools; len(tools) != 1 || tools[0].Own || tools[0].Functions != places {
		t.Errorf("another tool: %+v", tools)
	}
	tell(t, p, "leave")
}
