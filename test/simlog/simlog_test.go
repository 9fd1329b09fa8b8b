package simlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// TestLayout: the Go struct is the C struct, says the C compiler.
func TestLayout(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		testenv.Skip(t, "no C compiler")
	}
	var raw rawRecord
	fields := map[string]uintptr{
		"magic":        unsafe.Offsetof(raw.magic),
		"version":      unsafe.Offsetof(raw.version),
		"kind":         unsafe.Offsetof(raw.kind),
		"flags":        unsafe.Offsetof(raw.flags),
		"node":         unsafe.Offsetof(raw.node),
		"pid":          unsafe.Offsetof(raw.pid),
		"name_id":      unsafe.Offsetof(raw.nameID),
		"engine_queue": unsafe.Offsetof(raw.engineQueue),
		"name_offset":  unsafe.Offsetof(raw.nameOffset),
		"grid_x":       unsafe.Offsetof(raw.nameOffset),
		"name":         unsafe.Offsetof(raw.queue),
		"queue":        unsafe.Offsetof(raw.queue),
		"hsa_queue_id": unsafe.Offsetof(raw.hsaQueueID),
		"packet":       unsafe.Offsetof(raw.packet),
		"unique_id":    unsafe.Offsetof(raw.uniqueID),
		"start_ns":     unsafe.Offsetof(raw.startNS),
		"end_ns":       unsafe.Offsetof(raw.endNS),
		"signal":       unsafe.Offsetof(raw.signal),
		"value":        unsafe.Offsetof(raw.value),
	}
	var c strings.Builder
	c.WriteString("#include <stddef.h>\n#include \"truth.h\"\n")
	for field, offset := range fields {
		fmt.Fprintf(&c, "_Static_assert(offsetof(struct truth_record, %s) == %d, \"%s\");\n", field, offset, field)
	}
	fmt.Fprintf(&c, "_Static_assert(sizeof(struct truth_record) == %d, \"size\");\n", recordSize)
	for what, value := range map[string]int{
		"TRUTH_MAGIC": magic, "TRUTH_VERSION": version, "TRUTH_NAME_PIECE": namePiece, "TRUTH_NAME": int(name),
		"TRUTH_KERNEL": int(Kernel), "TRUTH_COPY": int(Copy), "TRUTH_FILL": int(Fill), "TRUTH_BARRIER": int(Barrier),
		"TRUTH_VENDOR": int(Vendor), "TRUTH_VIOLATION": int(Violation),
		"TRUTH_PROFILED": int(Profiled), "TRUTH_INTERNAL": int(Internal), "TRUTH_ABANDONED": int(Abandoned),
		"TRUTH_EXTENDED":   int(Extended),
		"TRUTH_REEXECUTED": int(Reexecuted), "TRUTH_INDEX_BACKWARD": int(IndexBackward), "TRUTH_INDEX_WILD": int(IndexWild),
		"TRUTH_READ_MOVED": int(ReadMoved), "TRUTH_CHANGED": int(Changed), "TRUTH_OVERCLAIM": int(Overclaim),
		"TRUTH_LOCKED": int(Locked), "TRUTH_WRITER": int(Writer),
		"TRUTH_BAD_PACKET": int(BadPacket),
	} {
		fmt.Fprintf(&c, "_Static_assert(%s == %d, \"%s\");\n", what, value, what)
	}
	file := filepath.Join(t.TempDir(), "layout.c")
	if err := os.WriteFile(file, []byte(c.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(cc, "-fsyntax-only", "-I", "../../testdata/softgpu", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// log is a truth log under construction.
type log struct {
	bytes.Buffer
}

func (l *log) add(raw rawRecord) {
	raw.magic, raw.version = magic, version
	l.Write(unsafe.Slice((*byte)(unsafe.Pointer(&raw)), recordSize))
}

func (l *log) addName(pid, id uint32, text string) {
	for at := 0; at <= len(text); at += namePiece {
		raw := rawRecord{kind: uint8(name), pid: pid, nameID: id, nameOffset: uint32(at)}
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&raw.queue)), namePiece), text[at:])
		l.add(raw)
	}
}

func readAll(t *testing.T, l *log) []*Record {
	t.Helper()
	r := NewReader(&l.Buffer)
	var records []*Record
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return records
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
}

func TestNames(t *testing.T) {
	for _, length := range []int{1, namePiece - 1, namePiece, namePiece + 1, 3*namePiece + 7} {
		want := strings.Repeat("k", length)
		var l log
		l.addName(7, 1, want)
		l.addName(8, 1, "another process's")
		l.add(rawRecord{kind: uint8(Kernel), pid: 7, nameID: 1})
		l.add(rawRecord{kind: uint8(Kernel), pid: 7})
		got := readAll(t, &l)
		if len(got) != 2 || got[0].Name != want || got[1].Name != "" {
			t.Errorf("length %d: got %v", length, got)
		}
	}
}

func TestTornRecord(t *testing.T) {
	var l log
	l.add(rawRecord{kind: uint8(Kernel), packet: 5})
	l.add(rawRecord{kind: uint8(Kernel), packet: 6})
	l.Truncate(l.Len() - 1)
	if got := readAll(t, &l); len(got) != 1 || got[0].Packet != 5 {
		t.Errorf("got %v", got)
	}
}

func TestNotALog(t *testing.T) {
	r := NewReader(strings.NewReader(strings.Repeat("x", recordSize)))
	if _, err := r.Next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

func dispatches(ids ...uint64) []*Record {
	var r []*Record
	for _, id := range ids {
		r = append(r, &Record{Kind: Kernel, UniqueID: id})
	}
	return r
}

func TestExactlyOnce(t *testing.T) {
	const one = 1 << idShift
	for _, test := range []struct {
		name    string
		records []*Record
		counts  map[uint64]uint64
		want    string // part of the error, "": none
	}{
		{"all", dispatches(one|1, one|2, one|3), map[uint64]uint64{1: 3}, ""},
		{"no id", dispatches(0, one|1, 0), map[uint64]uint64{1: 1}, ""},
		{"missing", dispatches(one|1, one|3), map[uint64]uint64{1: 3}, "1 never executed, the first is 2"},
		{"twice", dispatches(one|1, one|2, one|1), map[uint64]uint64{1: 2}, "1 dispatches executed more than once"},
		{"beyond", dispatches(one|1, one|2), map[uint64]uint64{1: 1}, "1 executed beyond"},
		{"unknown thread", dispatches(one | 1), nil, "thread 1 dispatched, but gave no count"},
		{"nothing ran", nil, map[uint64]uint64{4: 9}, "9 never executed"},
	} {
		err := ExactlyOnce(test.records, test.counts)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

func TestByPacket(t *testing.T) {
	for _, c := range []struct{ in, want []uint64 }{
		{nil, nil},
		{[]uint64{7}, []uint64{7}},
		{[]uint64{2, 0, 1, 3}, []uint64{0, 1, 2, 3}},
		{[]uint64{9, 7, 8}, []uint64{7, 8, 9}},
		{[]uint64{4, 0, 2}, []uint64{0, 2, 4}},             // holes
		{[]uint64{0, 3, 1, 1}, []uint64{0, 1, 1, 3}},       // one twice, one missing
		{[]uint64{1 << 63, 0, 5}, []uint64{0, 5, 1 << 63}}, // far beyond
	} {
		var records []*Record
		for i, packet := range c.in {
			records = append(records, &Record{Kind: Kernel, Packet: packet, StartNS: uint64(i)})
		}
		var got []uint64
		last := &Record{}
		for _, r := range ByPacket(records) {
			if r.Packet == last.Packet && r.StartNS < last.StartNS {
				t.Errorf("%d: two records of packet %d have changed places", c.in, r.Packet)
			}
			got, last = append(got, r.Packet), r
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d: got %d", c.in, got)
		}
	}
}

// FuzzReader: whatever the file holds, the reader ends with an error or io.EOF.
func FuzzReader(f *testing.F) {
	var l log
	l.addName(1, 1, strings.Repeat("n", 200))
	l.add(rawRecord{kind: uint8(Kernel), pid: 1, nameID: 1})
	f.Add(l.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		for range len(b)/recordSize + 1 {
			if _, err := r.Next(); err != nil {
				return
			}
		}
		t.Error("more records than bytes")
	})
}
