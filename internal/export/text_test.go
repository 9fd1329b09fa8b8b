package export

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
)

// valid is a name after the way into a text format and back.
func valid(s string) string {
	return strings.ToValidUTF8(strings.Map(func(r rune) rune { return r }, s), "\ufffd")
}

func TestCSV(t *testing.T) {
	path := sample(t)
	data, _ := exported(t, "csv", path)
	lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	must(t, err)
	want := facts(t, path)
	if len(lines) != len(want)+1 {
		t.Fatalf("%d lines for %d dispatches", len(lines), len(want))
	}
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	for _, line := range lines[1:] {
		of := func(name string) string { return line[column[name]] }
		id, err := strconv.ParseInt(of("Dispatch_Id"), 10, 64)
		must(t, err)
		f := want[id]
		delete(want, id)
		name := sanitize.Text(f.name)
		if strings.HasPrefix(name, "=") {
			name = "'" + name
		}
		got := strings.Join([]string{
			of("Kind"), of("Agent_Id"), of("Queue_Id"), of("Thread_Id"), of("Kernel_Name"), of("Start_Timestamp"), of("End_Timestamp"),
			of("LDS_Block_Size"), of("Grid_Size_X"), of("Workgroup_Size_X"), of("Process_Id"), of("Session_Id"),
		}, "|")
		if wanted := fmt.Sprintf("KERNEL_DISPATCH|Agent %d|%d|%d|%s|%d|%d|%d|%d|%d|%d|%d", f.gpu, f.queue, f.tid, name, f.start, f.end,
			f.group, f.gridX, f.workgroupX, f.pid, f.session); got != wanted {
			t.Errorf("%s, want %s", got, wanted)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	checkHarmless(t, data)
}

// checkHarmless: nothing in the text would be obeyed by a terminal.
func checkHarmless(t *testing.T, data []byte) {
	t.Helper()
	if at := bytes.IndexAny(data, "\x1b\x00\x07\u202e\u009b"); at >= 0 {
		t.Errorf("a control character at %d", at)
	}
}

func TestRocprof(t *testing.T) {
	path := sample(t)
	data, r := exported(t, "rocprofv3", path)
	checkHarmless(t, data)
	type handle struct{ Handle int64 }
	type xyz struct{ X, Y, Z int64 }
	var got struct {
		Tools []struct {
			Metadata struct {
				PID                int64
				InitTime, FiniTime int64                   `json:"-"`
				RTL                struct{ Session int64 } `json:"rtl_attach"`
			}
			Agents  []struct{ ID handle }
			Symbols []struct {
				ID        int64  `json:"kernel_id"`
				Symbol    string `json:"kernel_name"`
				Truncated string `json:"truncated_kernel_name"`
			} `json:"kernel_symbols"`
			Records struct {
				Dispatches []struct {
					Thread int64 `json:"thread_id"`
					Start  int64 `json:"start_timestamp"`
					End    int64 `json:"end_timestamp"`
					Info   struct {
						Agent     handle `json:"agent_id"`
						Queue     handle `json:"queue_id"`
						Kernel    int64  `json:"kernel_id"`
						ID        int64  `json:"dispatch_id"`
						Group     int64  `json:"group_segment_size"`
						Workgroup xyz    `json:"workgroup_size"`
						Grid      xyz    `json:"grid_size"`
					} `json:"dispatch_info"`
				} `json:"kernel_dispatch"`
			} `json:"buffer_records"`
		} `json:"rocprofiler-sdk-tool"`
	}
	must(t, json.Unmarshal(data, &got))
	want := facts(t, path)
	if r.Dispatches != int64(len(want)) || len(got.Tools) != 3 {
		t.Fatalf("%d dispatches, %d tools", r.Dispatches, len(got.Tools))
	}
	for _, tool := range got.Tools {
		names, symbols := map[int64]string{}, map[int64]string{}
		for _, s := range tool.Symbols {
			if names[s.ID] != "" {
				t.Errorf("symbol %d twice", s.ID)
			}
			names[s.ID], symbols[s.ID] = s.Truncated, s.Symbol
		}
		for _, d := range tool.Records.Dispatches {
			f := want[d.Info.ID]
			delete(want, d.Info.ID)
			if f.session != tool.Metadata.RTL.Session || f.pid != tool.Metadata.PID || f.start != d.Start || f.end != d.End || f.queue != d.Info.Queue.Handle ||
				f.tid != d.Thread || f.group != d.Info.Group || f.gridX != d.Info.Grid.X || f.workgroupX != d.Info.Workgroup.X ||
				names[d.Info.Kernel] != valid(f.name) || symbols[d.Info.Kernel] != valid(f.symbol) || d.Info.Agent != tool.Agents[0].ID {
				t.Errorf("%+v, want %+v", d, f)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

type chromeEvent struct {
	Ph, Name, Cat string
	PID, TID, ID  int64
	TS, Dur       json.Number
	Args          struct {
		Name             string
		Dispatch, Packet int64
	}
}

// ns is a time as the file has it, without a float in between.
func ns(t *testing.T, n json.Number) int64 {
	t.Helper()
	v, ok := new(big.Rat).SetString(n.String())
	if !ok || !v.Mul(v, big.NewRat(1000, 1)).IsInt() {
		t.Fatalf("%q is no whole number of ns", n)
	}
	return v.Num().Int64()
}

func TestChrome(t *testing.T) {
	path := sample(t)
	data, _ := exported(t, "chrome", path)
	zip, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	text, err := io.ReadAll(zip)
	must(t, err)
	checkHarmless(t, text)
	var got struct {
		OtherData struct {
			Base string `json:"base_ns"`
		}
		TraceEvents []chromeEvent
	}
	must(t, json.Unmarshal(text, &got))
	base, err := strconv.ParseInt(got.OtherData.Base, 10, 64)
	must(t, err)
	if base != 200*day+750 { // when the first session's hooks became active
		t.Errorf("times since %d", base)
	}
	if want := `"stopped: attach (for 41 ns, from 50 ns before the recording)"`; !bytes.Contains(text, []byte(want)) || bytes.Contains(text, []byte(`"ts":-`)) {
		t.Errorf("a stop before it is not at its begin, as %s", want)
	}
	want := facts(t, path)
	submits, rows, processes := map[int64]int64{}, map[[2]int64]string{}, map[string]int64{}
	until := map[[2]int64]int64{}
	covered := 0
	for i, e := range got.TraceEvents {
		row := [2]int64{e.PID, e.TID}
		switch {
		case e.Ph == "M" && e.Name == "thread_name":
			rows[row] = e.Args.Name
		case e.Ph == "M" && e.Name == "process_name":
			processes[e.Args.Name] = e.PID
		case e.Ph == "s":
			submits[e.ID] = base + ns(t, e.TS)
		case e.Ph == "f": // Perfetto ends an arrow at the latest slice of its row
			if k := got.TraceEvents[i-1]; k.Cat != "kernel" || k.PID != e.PID || k.TID != e.TID || k.TS != e.TS {
				t.Errorf("an arrow ends at %+v", k)
			}
		case e.Cat == "kernel":
			f := want[e.Args.Dispatch]
			delete(want, e.Args.Dispatch)
			start := base + ns(t, e.TS)
			if f.start != start || f.end != start+ns(t, e.Dur) || e.Name != valid(f.name) || e.Args.Packet != f.packet ||
				!strings.HasPrefix(rows[row], fmt.Sprintf("GPU %d queue %d ", f.gpu, f.queue)) {
				t.Errorf("%+v on %q, want %+v", e, rows[row], f)
			}
			if at, ok := submits[f.id]; ok != f.submit.Valid || at != f.submit.Int64 {
				t.Errorf("dispatch %d submitted at %d, want %+v", f.id, at, f.submit)
			}
			if start < until[row] {
				t.Errorf("kernels overlap in row %q", rows[row])
			}
			until[row] = f.end
		case e.Name == notRecorded || e.Name == openEnded || e.Name == recorded:
			covered++
		}
	}
	if len(want) > 0 || covered != 24 || len(processes) != 1 {
		t.Errorf("missing %v, %d spans, processes %v", want, covered, processes)
	}
}

// What readers keep in 53 bits stays exact at 200 days of uptime.
func TestChromeTimesFitFloats(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 999, -999, 1000, -1001, 52 * day, -52 * day, 52*day + 1} {
		text := string(appendMicros(nil, v))
		f, err := strconv.ParseFloat(text, 64)
		must(t, err)
		if got := int64(f*1000 + 0.5*float64(min(1, max(-1, v)))); got != v {
			t.Errorf("%d became %s, and %d again", v, text, got)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add(wildName)
	f.Add("@SUM(\"A1\")\r\n")
	f.Add("\U0010ffff\u2028\x7f\x80\ud7ff")
	f.Fuzz(func(t *testing.T, s string) {
		quoted := appendJSON(nil, s)
		var back string
		if err := json.Unmarshal(quoted, &back); err != nil {
			t.Fatalf("%q: %v", quoted, err)
		}
		var b []byte
		for _, r := range s {
			b = append(b, string(r)...)
		}
		if back != string(b) {
			t.Fatalf("%q came back as %q", s, back)
		}
		checkHarmless(t, quoted)
		field := appendCSV(nil, s)
		checkHarmless(t, field)
		lines, err := csv.NewReader(bytes.NewReader(append(field, '\n'))).ReadAll()
		if err != nil || len(lines) != 1 || len(lines[0]) != 1 || strings.TrimPrefix(lines[0][0], "'") != strings.TrimPrefix(sanitize.Text(s), "'") {
			t.Fatalf("%q became %q: %v", s, lines, err)
		}
		if strings.IndexAny(lines[0][0], "=+-@") == 0 {
			t.Fatalf("%q is computed", lines[0][0])
		}
	})
}

func FuzzMicros(f *testing.F) {
	f.Add(int64(-1 << 63))
	f.Add(int64(1<<63 - 1))
	f.Fuzz(func(t *testing.T, v int64) {
		if got := ns(t, json.Number(appendMicros(nil, v))); got != v {
			t.Fatalf("%d became %d", v, got)
		}
	})
}
