package export

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// number is how protojson writes 64 bits.
type number int64

func (n *number) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseUint(strings.Trim(string(b), `"`), 10, 64)
	if err != nil {
		signed, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
		*n = number(signed)
		return err
	}
	*n = number(v)
	return nil
}

type namedID struct {
	IID  number
	Name string
	Str  []byte
}

type perfettoPacket struct {
	Timestamp     number
	SequenceFlags int
	Sequence      int `json:"trustedPacketSequenceId"`
	InternedData  struct {
		EventNames                  []namedID
		DebugAnnotationNames        []namedID
		DebugAnnotationStringValues []namedID
		FunctionNames, MappingPaths []namedID
		Frames                      []struct{ IID, FunctionNameID, MappingID number }
		Callstacks                  []struct {
			IID      number
			FrameIDs []number
		}
		Mappings []struct {
			IID           number
			PathStringIDs []number
		}
	}
	PerfSample *struct {
		PID, TID, CallstackIID number
		CPUMode                int
	}
	ClockSnapshot *struct {
		Clocks []struct{ ClockID, Timestamp number }
	}
	TrackEvent *struct {
		Type                             int
		TrackUUID, NameIID, CounterValue number
		FlowIDs, TerminatingFlowIDs      []number
		DebugAnnotations                 []struct{ NameIID, IntValue, StringValueIID number }
	}
	TrackDescriptor *perfettoTrack
}

type perfettoTrack struct {
	UUID, ParentUUID number
	Name             string
	Process          *struct {
		PID         int64
		ProcessName string
	}
	Thread *struct {
		TID        number
		ThreadName string
	}
	Counter *struct{ Unit int }
}

// decodePerfetto reads a trace with Google's protobuf library and a schema that protoc has
// compiled: nothing of ours. RTL_PERFETTO_PROTO=/path/perfetto_trace.proto is the schema as
// Perfetto publishes it; without it, the part of it that we write.
func decodePerfetto(t *testing.T, data []byte) []perfettoPacket {
	t.Helper()
	if _, err := exec.LookPath("protoc"); err != nil {
		testenv.Skip(t, "no protoc (Debian: protobuf-compiler)")
	}
	set, schema := filepath.Join(t.TempDir(), "set"), cmp.Or(os.Getenv("RTL_PERFETTO_PROTO"), "testdata/trace.proto")
	if out, err := exec.Command("protoc", "--descriptor_set_out="+set, "-I"+filepath.Dir(schema), schema).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var files descriptorpb.FileDescriptorSet
	must(t, proto.Unmarshal(readFile(t, set), &files))
	file, err := protodesc.NewFile(files.File[0], nil)
	must(t, err)
	m := dynamicpb.NewMessage(file.Messages().ByName("Trace"))
	must(t, proto.Unmarshal(data, m))
	checkKnown(t, m, data)
	text, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(m)
	must(t, err)
	var trace struct{ Packet []perfettoPacket }
	must(t, json.Unmarshal(text, &trace))
	return trace.Packet
}

// checkKnown: every field written is one of the schema's.
func checkKnown(t *testing.T, m *dynamicpb.Message, data []byte) {
	t.Helper()
	known := dynamicpb.NewMessage(m.Descriptor())
	must(t, proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, known))
	if proto.Size(known) != len(data) {
		t.Errorf("fields that the schema does not have: %d of %d bytes", len(data)-proto.Size(known), len(data))
	}
}

// A perfettoView is a decoded trace as a reader builds it up.
type perfettoView struct {
	tracks map[number]perfettoTrack
	slices map[number][]perfettoSlice // by track
	flows  map[number]number          // times of submits by flow
	counts map[number][][2]number     // time and value, by track
	byName map[string]number
}

type perfettoSlice struct {
	name       string
	begin, end number
	flows      []number
	args       map[string]any
}

func viewPerfetto(t *testing.T, data []byte) *perfettoView {
	t.Helper()
	v := &perfettoView{map[number]perfettoTrack{}, map[number][]perfettoSlice{}, map[number]number{}, map[number][][2]number{}, map[string]number{}}
	names, annotations, strs := map[number]string{}, map[number]string{}, map[number]string{}
	open := map[number]bool{}
	for i, p := range decodePerfetto(t, data) {
		if i == 0 && p.SequenceFlags&1 == 0 {
			t.Error("the first packet does not clear the state")
		}
		if p.Sequence != sequenceID {
			continue // samples: TestPerfettoThreads
		}
		if p.SequenceFlags&1 != 0 {
			clear(names)
			clear(annotations)
			clear(strs)
		}
		for _, n := range p.InternedData.EventNames {
			names[n.IID] = n.Name
		}
		for _, n := range p.InternedData.DebugAnnotationNames {
			annotations[n.IID] = n.Name
		}
		for _, n := range p.InternedData.DebugAnnotationStringValues {
			strs[n.IID] = string(n.Str)
		}
		if d := p.TrackDescriptor; d != nil {
			if _, again := v.tracks[d.UUID]; again {
				t.Errorf("track %d described twice", d.UUID)
			}
			v.tracks[d.UUID], v.byName[d.Name] = *d, d.UUID
		}
		e := p.TrackEvent
		if e == nil {
			continue
		}
		if _, ok := v.tracks[e.TrackUUID]; !ok {
			t.Fatalf("an event on track %d, which is not described", e.TrackUUID)
		}
		all := v.slices[e.TrackUUID]
		switch e.Type {
		case typeBegin:
			if open[e.TrackUUID] {
				t.Errorf("slices overlap on track %q", v.tracks[e.TrackUUID].Name)
			}
			open[e.TrackUUID] = true
			args := map[string]any{}
			for _, a := range e.DebugAnnotations {
				args[annotations[a.NameIID]] = int64(a.IntValue)
				if a.StringValueIID != 0 {
					args[annotations[a.NameIID]] = strs[a.StringValueIID]
				}
			}
			if names[e.NameIID] == "" {
				t.Error("a slice without a name")
			}
			v.slices[e.TrackUUID] = append(all, perfettoSlice{names[e.NameIID], p.Timestamp, -1, e.TerminatingFlowIDs, args})
		case typeEnd:
			open[e.TrackUUID] = false
			all[len(all)-1].end = p.Timestamp
		case typeInstant:
			v.slices[e.TrackUUID] = append(all, perfettoSlice{names[e.NameIID], p.Timestamp, p.Timestamp, nil, nil})
			for _, f := range e.FlowIDs {
				v.flows[f] = p.Timestamp
			}
		case typeCounter:
			v.counts[e.TrackUUID] = append(v.counts[e.TrackUUID], [2]number{p.Timestamp, e.CounterValue})
		}
	}
	return v
}

// compare compares every kernel with the trace.
func (v *perfettoView) compare(t *testing.T, want map[int64]fact) {
	t.Helper()
	seen := map[int64]bool{}
	for uuid, all := range v.slices {
		for _, s := range all {
			id, ok := s.args["dispatch"].(int64)
			if !ok {
				continue
			}
			f := want[id]
			if seen[id] || s.name != sanitize.Text(f.name) || int64(s.begin) != f.start || int64(s.end) != f.end || s.args["packet"] != f.packet ||
				!strings.HasPrefix(s.args["launch"].(string), "grid "+strconv.FormatInt(f.gridX, 10)+",") {
				t.Errorf("%+v, want %+v", s, f)
			}
			seen[id] = true
			if name := v.tracks[uuid].Name; !strings.HasPrefix(name, "queue "+strconv.FormatInt(f.queue, 10)+" (") {
				t.Errorf("dispatch %d of queue %d on track %q", id, f.queue, name)
			}
			at, flows := v.flows[number(id)]
			if flows != f.submit.Valid || flows && (int64(at) != f.submit.Int64 || len(s.flows) != 1 || s.flows[0] != number(id)) {
				t.Errorf("dispatch %d: submit %v %d, want %+v", id, flows, at, f.submit)
			}
		}
	}
	if len(seen) != len(want) {
		t.Errorf("%d kernels, want %d", len(seen), len(want))
	}
}

func TestPerfetto(t *testing.T) {
	path := sample(t)
	data, r := exported(t, "pftrace", path)
	v := viewPerfetto(t, data)
	v.compare(t, facts(t, path))
	if r.Dispatches != 27 || r.LeftOut != 0 || len(r.Sessions) != 3 {
		t.Errorf("%+v", r)
	}
	var processes, plainProcesses, threads int
	for _, d := range v.tracks {
		switch {
		case d.Process != nil:
			processes++
		case d.Thread != nil:
			threads++
		case d.Name == "server 41220 on node":
			plainProcesses++
		}
	}
	if processes != 1 || plainProcesses != 1 || threads != 2 {
		t.Errorf("%d processes, %d by name, %d threads", processes, plainProcesses, threads)
	}
	if _, ok := v.byName["GPU 0: recorded kernels running"]; !ok {
		t.Error("no counter of running kernels")
	}
}

// What was not recorded is said.
func TestPerfettoCoverage(t *testing.T) {
	data, _ := exported(t, "pftrace", sample(t))
	v := viewPerfetto(t, data)
	at := number(200 * day)
	for track, want := range map[string][]perfettoSlice{
		"queue 1 (hwq 0x3): coverage": {
			{notRecorded, at + 750, at + 800, nil, nil},
			{recorded, at + 800, at + 3500, nil, nil},
			{notRecorded, at + 3500, at + 4000, nil, nil},
			{"2 packets without times: the pool of signals was empty", at + 3100, at + 3100, nil, nil},
		},
		"queue 2 (hwq 0x4): coverage": {
			{notRecorded, at + 750, at + 800, nil, nil},
			{recorded, at + 800, at + 1500, nil, nil},
			{notRecorded, at + 1500, at + 1600, nil, nil},
			{openEnded, at + 1600, at + 4000, nil, nil},
		},
		"queue 3 (hwq 0x5): coverage": {{notRecorded, at + 750, at + 4000, nil, nil}},
		"recording (session 1)": {
			{"9 of 11 dispatches timed; 3 records lost; 1 queue without a seen end", at + 750, at + 4000, nil, nil},
		},
		"lost records (session 1)": {{"3 records lost: test", at + 3200, at + 3300, nil, nil}},
		"stops of thread 11":       nil,
	} {
		got := v.slices[v.byName[track]]
		if want == nil {
			if len(got) == 0 {
				t.Errorf("nothing on %s", track)
			}
			continue
		}
		if len(got) != len(want) {
			t.Errorf("%s: %+v", track, got)
			continue
		}
		for i := range got {
			if got[i].name != want[i].name || got[i].begin != want[i].begin || got[i].end != want[i].end {
				t.Errorf("%s: %+v, want %+v", track, got[i], want[i])
			}
		}
	}
}

// The counters are what a count over all dispatches gives at any time.
func TestPerfettoCounters(t *testing.T) {
	path := sample(t)
	data, _ := exported(t, "pftrace", path)
	v := viewPerfetto(t, data)
	want := facts(t, path)
	check := func(track string, from func(fact) (int64, bool)) {
		counts := v.counts[v.byName[track]]
		if len(counts) == 0 {
			t.Errorf("no values of %s", track)
		}
		for i, c := range counts {
			if i > 0 && counts[i-1][0] >= c[0] {
				t.Errorf("%s: times do not go on", track)
			}
			n := 0
			for _, f := range want {
				if begin, ok := from(f); ok && begin <= int64(c[0]) && int64(c[0]) < f.end {
					n++
				}
			}
			if n != int(c[1]) {
				t.Errorf("%s at %d: %d, want %d", track, c[0], c[1], n)
			}
		}
	}
	check("GPU 0: recorded kernels running", func(f fact) (int64, bool) { return f.start, f.gpu == 0 })
	check("queue 1 (hwq 0x3): depth", func(f fact) (int64, bool) { return f.submit.Int64, f.submit.Valid && f.queue == 1 })
}

// A reader never has to hold more than so many names.
func TestInternedNamesAreForgotten(t *testing.T) {
	var in interned
	in.reset()
	for i := range int64(3 * mostInterned) {
		in.makeRoom()
		in.pending = in.pending[:0]
		if id := in.kernel(&launch{nameID: i, name: "k"}); id == 0 || id > mostInterned+1 {
			t.Fatalf("id %d", id)
		}
	}
	if len(in.events) > mostInterned {
		t.Errorf("%d names held", len(in.events))
	}
}
