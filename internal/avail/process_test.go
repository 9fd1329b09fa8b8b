package avail

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// memory is the memory of a process from address 0 on.
func memory(b []byte) *inspection {
	end := target.Addr(max(1, len(b)))
	return &inspection{
		mem: bytes.NewReader(b), loaded: map[string]*library{},
		maps: []target.Map{
			{Start: 0, End: end, Perms: "r-xp", Inode: 1, Path: "/opt/libhsa-runtime64.so.1"},
			{Start: end, End: end + 1, Perms: "r-xp", Inode: 2, Path: "/opt/librccl.so.1"},
		},
	}
}

// A library that cannot be read is unclear, one that is not loaded is a reason.
func TestUnreadable(t *testing.T) {
	for _, s := range memory([]byte("no ELF file")).process().Kinds {
		want := Unclear
		if s.Flag == "hip-runtime-trace" || s.Flag == "hip-compiler-trace" || s.Flag == "marker-trace" {
			want = No
		}
		if s.Result != want || s.Why == "" || s.Exported != 0 {
			t.Errorf("%+v, expected %s", s, want)
		}
	}
}

// The root table is found in front of the core table, wherever the runtime's version puts it.
func TestHasTools(t *testing.T) {
	const core, ext, tools = 0x200, 0x400, 0x600
	put := func(b []byte, at int, word uint64) { binary.LittleEndian.PutUint64(b[at:], word) }
	for _, c := range []struct {
		distance, rootSize, toolsSize uint64
		want                          bool
	}{
		{56, 56, 64, true},
		{64, 64, 64, true},
		{64, 48, 64, false}, // a root without the tools' entry
		{64, 64, 56, false}, // too few tools
	} {
		b := make([]byte, 0x800)
		root := core - int(c.distance)
		put(b, root, 1|c.rootSize<<32)
		put(b, root+tableHead, core)
		put(b, root+tableHead+8*rootAMDExt, ext)
		put(b, root+tableHead+8*rootTools, tools)
		put(b, tools, 1|c.toolsSize<<32)
		if got := memory(b).hasTools(core, ext); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
		if memory(b).hasTools(core, ext+8) || memory(b).hasTools(8, ext) || memory(b).hasTools(0, 0) {
			t.Errorf("%+v: tables of another runtime", c)
		}
	}
}

// FuzzProcess: whatever a process has in its memory, each kind has a result, with a reason if it is not yes.
func FuzzProcess(f *testing.F) {
	if b, err := os.ReadFile("/proc/self/exe"); err == nil {
		f.Add(b[:min(len(b), 8192)])
	}
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := memory(b).process()
		for _, s := range p.Kinds {
			if s.Exported < 0 || s.Exported > s.Known || (s.Result != Yes) != (s.Why != "") && s.Way != WayGOT {
				t.Errorf("%+v", s)
			}
		}
		for _, tool := range p.Tools {
			if tool.Functions <= 0 {
				t.Errorf("%+v", tool)
			}
		}
	})
}
