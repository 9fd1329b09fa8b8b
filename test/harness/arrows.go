package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// ArrowID identifies an arrow by the row to which it leads.
type ArrowID struct {
	IsCopy bool // not a kernel
	ID     uint64
}

// Arrow is an arrow of a timeline, from a slice to a kernel or a copy.
type Arrow struct {
	From         string // the track, and the slice
	FromNS, ToNS int64  // when the slices begin
}

// PerfettoArrows reads the arrows of a trace of Perfetto's, by their ids.
func PerfettoArrows(t testing.TB, path string) map[ArrowID]Arrow {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := perfettoReader{tracks: map[uint64]string{}, names: map[uint64]string{}, arrows: map[ArrowID]Arrow{}}
	if err := r.fields(data, func(_ protowire.Number, packet []byte, _ uint64) error { return r.packet(packet) }); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return r.arrows
}

type perfettoReader struct {
	tracks, names map[uint64]string
	arrows        map[ArrowID]Arrow
}

// fields calls visit for each field of a message: with its bytes, or its number.
func (r *perfettoReader) fields(b []byte, visit func(field protowire.Number, bytes []byte, number uint64) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var bytes []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			number, n = protowire.ConsumeFixed64(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := visit(field, bytes, number); err != nil {
			return err
		}
	}
	return nil
}

// packet reads a TracePacket.
func (r *perfettoReader) packet(packet []byte) error {
	const timestamp, event, interned, track = 8, 11, 12, 60
	var at uint64
	var described []byte
	err := r.fields(packet, func(field protowire.Number, bytes []byte, number uint64) error {
		switch field {
		case timestamp:
			at = number
		case event:
			described = bytes
		case interned:
			return r.fields(bytes, func(field protowire.Number, bytes []byte, _ uint64) error {
				const eventNames = 2
				if field != eventNames {
					return nil
				}
				return r.name(bytes, r.names, 1, 2)
			})
		case track:
			return r.name(bytes, r.tracks, 1, 2)
		}
		return nil
	})
	if err != nil || described == nil {
		return err
	}
	return r.event(described, int64(at))
}

// name reads a message with an id and a name.
func (r *perfettoReader) name(message []byte, into map[uint64]string, id, name protowire.Number) error {
	var of uint64
	var text string
	err := r.fields(message, func(field protowire.Number, bytes []byte, number uint64) error {
		switch field {
		case id:
			of = number
		case name:
			text = string(bytes)
		}
		return nil
	})
	into[of] = text
	return err
}

// event reads a TrackEvent.
func (r *perfettoReader) event(event []byte, atNS int64) error {
	const nameID, track, flow, flowEnd = 10, 11, 47, 48
	var from string
	var begun, ended []ArrowID
	arrow := func(flow uint64) ArrowID { return ArrowID{flow>>56 != 0, flow & (1<<56 - 1)} }
	err := r.fields(event, func(field protowire.Number, _ []byte, number uint64) error {
		switch field {
		case nameID:
			from += r.names[number]
		case track:
			from = r.tracks[number] + ": " + from
		case flow:
			begun = append(begun, arrow(number))
		case flowEnd:
			ended = append(ended, arrow(number))
		}
		return nil
	})
	for _, id := range begun {
		a := r.arrows[id]
		if a.From != "" {
			err = errors.Join(err, fmt.Errorf("arrow %v begins at %q and at %q", id, a.From, from))
		}
		r.arrows[id] = Arrow{from, atNS, a.ToNS}
	}
	for _, id := range ended {
		a := r.arrows[id]
		r.arrows[id] = Arrow{a.From, a.FromNS, atNS}
	}
	return err
}

// ChromeArrows reads the arrows of a file in the Trace Event Format, by their ids. Each begins in the
// slice of its row that is the innermost then.
func ChromeArrows(t testing.TB, path string) map[ArrowID]Arrow {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		OtherData struct {
			Base int64 `json:"base_ns,string"`
		}
		TraceEvents []chromeEvent
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	rows, slices, arrows := map[[2]int64]string{}, map[[2]int64][]chromeEvent{}, map[ArrowID]Arrow{}
	for _, e := range file.TraceEvents {
		switch {
		case e.Ph == "M" && e.Name == "thread_name":
			rows[e.row()] = e.Args.Name
		case e.Ph == "X":
			slices[e.row()] = append(slices[e.row()], e)
		}
	}
	for _, e := range file.TraceEvents {
		id := ArrowID{e.Cat != "submit", e.ID}
		a := arrows[id]
		switch e.Ph {
		case "s":
			if a.From != "" {
				t.Errorf("arrow %v begins twice", id)
			}
			at := e.innermost(slices[e.row()])
			a.From, a.FromNS = rows[e.row()]+": "+at.Name, file.OtherData.Base+at.startNS()
			arrows[id] = a
		case "f":
			a.ToNS = file.OtherData.Base + e.startNS()
			arrows[id] = a
		}
	}
	return arrows
}

type chromeEvent struct {
	Ph, Name, Cat string
	PID, TID      int64
	TS, Dur       float64 // µs
	ID            uint64
	Args          struct{ Name string }
}

func (e *chromeEvent) row() [2]int64 { return [2]int64{e.PID, e.TID} }

func (e *chromeEvent) startNS() int64 { return int64(math.Round(e.TS * 1000)) }

// innermost returns the slice that contains an event and begins last.
func (e *chromeEvent) innermost(slices []chromeEvent) (found chromeEvent) {
	for _, s := range slices {
		if s.TS <= e.TS && e.TS <= s.TS+s.Dur && s.TS >= found.TS {
			found = s
		}
	}
	return found
}

// IsCall reports whether the arrow begins at a call by a thread.
func (a Arrow) IsCall(tid int64, function string) bool {
	return strings.HasPrefix(a.From, fmt.Sprintf("HIP calls of thread %d", tid)) && strings.HasSuffix(a.From, ": "+function)
}
