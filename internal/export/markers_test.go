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

	"github.com/rtl-attach/rtl-attach/internal/kind/markers"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// markersAt is when the sample's markers begin.
const markersAt = 200 * day

// markerSample has a range around a range and a mark, a process range across threads that overlaps
// another one, and a range without an end.
func markerSample(t testing.TB) string {
	t.Helper()
	db, path := create(t)
	s, err := db.Begin(tracedb.SessionInfo{PID: 41220, Command: "server", Host: "node", Generation: 1})
	must(t, err)
	thread := func(form markers.Form, level int64, text string, from, until uint64) markers.Marker {
		return markers.Marker{
			Form: form, TID: 11, EndTID: 11, Level: level, Text: text, HasText: true,
			StartNS: markersAt + from, EndNS: markersAt + until,
		}
	}
	process := func(number uint64, text string, from, until uint64) markers.Marker {
		m := thread(markers.ProcessRange, markers.NoLevel, text, from, until)
		m.EndTID, m.Number = 12, number
		return m
	}
	open := thread(markers.Range, 0, "open", 700, 0)
	open.EndNS, open.Missing = 0, markers.MissingEnd
	must(t, errors.Join(
		s.Kind(6, func(w tracedb.KindWriter) error {
			return markers.Store(w, []markers.Marker{
				thread(markers.Mark, 2, "=mark\x1b[2J", 150, 150),
				thread(markers.Range, 1, "inner", 120, 200),
				thread(markers.Range, 0, "outer", 100, 200),
				process(1, "request", 110, 300), process(2, "request", 210, 400), open,
			})
		}),
		s.End(tracedb.End{Reason: "detached", ArmedNS: markersAt, DetachedNS: markersAt + 1000, Kinds: []tracedb.KindCoverage{{Kind: "marker", Begun: 10, Timed: 10}}}),
		db.Close()))
	return path
}

func TestMarkerCSV(t *testing.T) {
	data, r := exported(t, "csv-markers", markerSample(t))
	lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	must(t, err)
	var got []string
	for _, line := range lines[1:] {
		got = append(got, strings.Join(line[:4], "|")+"|"+strings.Join(line[7:], "|"))
	}
	if want := []string{
		"MARKER_CORE_API|outer|41220|11|range|0|1",
		"MARKER_CORE_API|request|41220|11|process range||1",
		"MARKER_CORE_API|inner|41220|11|range|1|1",
		`MARKER_CORE_API|'=mark\x1b[2J|41220|11|mark|2|1`,
		"MARKER_CORE_API|request|41220|11|process range||1",
	}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if r.of(markers.Kind).Written != 5 || r.of(markers.Kind).LeftOut != 0 {
		t.Errorf("%+v", r.of(markers.Kind))
	}
}

func TestMarkersInRocprof(t *testing.T) {
	data, _ := exported(t, "rocprofv3", markerSample(t))
	var got struct {
		Tools []struct {
			Strings struct {
				Markers []struct {
					Key   int64
					Value string
				} `json:"marker_api"`
			}
			Records struct {
				Markers []struct {
					Kind, Operation int64
					Thread          int64                    `json:"thread_id"`
					Start           int64                    `json:"start_timestamp"`
					End             int64                    `json:"end_timestamp"`
					Correlation     struct{ Internal int64 } `json:"correlation_id"`
				} `json:"marker_api"`
			} `json:"buffer_records"`
		} `json:"rocprofiler-sdk-tool"`
	}
	must(t, json.Unmarshal(data, &got))
	names := map[int64]string{}
	for _, m := range got.Tools[0].Strings.Markers {
		names[m.Key] = m.Value
	}
	var all []string
	for _, m := range got.Tools[0].Records.Markers {
		all = append(all, fmt.Sprintf("%d %d %s %d %d", m.Kind, m.Operation, names[m.Correlation.Internal], m.Start-markersAt, m.End-markersAt))
	}
	if want := []string{"7 1 outer 100 200", "7 3 request 110 300", "7 1 inner 120 200", `7 0 =mark\x1b[2J 150 150`, "7 3 request 210 400"}; !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
}

// Ranges of a thread are on one row, within each other; process ranges that overlap are not.
func TestMarkersInChrome(t *testing.T) {
	data, _ := exported(t, "chrome", markerSample(t))
	zip, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	var got struct {
		TraceEvents []struct {
			Ph, Cat, Name string
			TID           int64
			Dur           float64
		}
	}
	must(t, json.NewDecoder(zip).Decode(&got))
	rows := map[int64][]string{}
	for _, e := range got.TraceEvents {
		if e.Cat == "roctx" {
			rows[e.TID] = append(rows[e.TID], fmt.Sprint(e.Name, " ", e.Dur))
		}
	}
	var all []string
	for _, row := range rows {
		all = append(all, strings.Join(row, ", "))
	}
	slices.Sort(all)
	if want := []string{`outer 0.1, inner 0.08, =mark\x1b[2J 0`, "request 0.19", "request 0.19"}; !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
}

func TestMarkersInPerfetto(t *testing.T) {
	data, _ := exported(t, "pftrace", markerSample(t))
	names, begun := map[number]string{}, map[string]int{}
	for _, packet := range decodePerfetto(t, data) {
		for _, n := range packet.InternedData.EventNames {
			names[n.IID] = n.Name
		}
		if e := packet.TrackEvent; e != nil && e.Type == typeBegin {
			begun[fmt.Sprintf("%s at %d", names[e.NameIID], packet.Timestamp-markersAt)]++
		}
	}
	for _, want := range []string{"outer at 100", "inner at 120", "request at 110", "request at 210"} {
		if begun[want] != 1 {
			t.Errorf("%s: %d times; %v", want, begun[want], begun)
		}
	}
}

// rocmProfileData's readers take rows named UserMarker, with the message as arguments.
func TestMarkersInRPD(t *testing.T) {
	db, r := makeRPD(t, markerSample(t))
	if r.of(markers.Kind).Written != 5 || r.of(markers.Kind).LeftOut != 0 || r.Dispatches != 0 || r.LeftOut != 0 {
		t.Errorf("%+v", r)
	}
	got := dump(t, db, `SELECT s.string, a.pid, a.tid, a.start - 200 * 86400000000000, a.end - a.start FROM rocpd_api a
		JOIN rocpd_string n ON n.id = a.apiName_id JOIN rocpd_string s ON s.id = a.args_id WHERE n.string = 'UserMarker' ORDER BY a.start`)
	if want := []string{"outer|41220|11|100|100|", "request|41220|11|110|190|", "inner|41220|11|120|80|", `=mark\x1b[2J|41220|11|150|0|`, "request|41220|11|210|190|"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// What no recorder writes is left out, and said.
func TestImpossibleMarkers(t *testing.T) {
	path := markerSample(t)
	change(t, path, `UPDATE rtl_marker SET form = 9 WHERE id = 1; UPDATE rtl_marker SET end_ns = 1 WHERE id = 2;
		UPDATE rtl_marker SET session_id = 77 WHERE id = 3; UPDATE rtl_marker SET start_ns = -1 WHERE id = 4`)
	for _, f := range Formats {
		if !f.Streams() || f.Name == "csv" || f.isIdle() || len(f.kinds) > 0 && !slices.Contains(f.kinds, markers.Kind) {
			continue
		}
		if _, r := exported(t, f.Name, path); r.of(markers.Kind).Written != 1 || r.of(markers.Kind).LeftOut != 4 {
			t.Errorf("%s: %+v", f.Name, r.of(markers.Kind))
		}
	}
	if _, r := makeRPD(t, path); r.of(markers.Kind).Written != 1 || r.of(markers.Kind).LeftOut != 4 {
		t.Errorf("rpd: %+v", r.of(markers.Kind))
	}
}

func TestNests(t *testing.T) {
	ns := newNests[int]()
	for i, c := range []struct{ from, until, lane int64 }{
		{10, 100, 0}, {20, 50, 0}, {30, 60, 1}, {50, 90, 0}, {55, 55, 0}, {60, 100, 1}, {95, 99, 0}, {100, 100, 0}, {110, 120, 0},
	} {
		lane, err := ns.place(1, c.from, c.until)
		if err != nil || int64(lane) != c.lane {
			t.Errorf("event %d: lane %d, %v, want %d", i, lane, err, c.lane)
		}
	}
	if lane, err := ns.place(2, 0, 1); lane != 0 || err != nil {
		t.Errorf("another track: %d, %v", lane, err)
	}
}
