package avail

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/apitable"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// The runtime's tables begin with their version: major number and size of 4 bytes each, 16 bytes in all. The root table
// is in front of the core table (payload/src/kinds/scratch/scratch.c).
const (
	tableHead    = 16
	rootDistance = 256 // bytes in front of the core table, at most
	rootAMDExt   = 1   // entries of the root table
	rootTools    = 4
	toolsEntries = 6
	wordBytes    = 8
)

// stub decodes a function of the runtime.
func (in *inspection) stub(l *library, name string) (apitable.Stub, bool) {
	address, found, err := l.image.Symbol(name)
	if err != nil || !found {
		return apitable.Stub{}, false
	}
	return apitable.Decode(in.mem, uint64(address))
}

// hasTools reports whether the root table that refers to both tables has a table for tools.
func (in *inspection) hasTools(core, amdExt uint64) bool {
	for at := core - tableHead; at >= core-rootDistance && at < core; at -= wordBytes {
		entry := at + tableHead
		if in.word(entry) != core || in.word(entry+rootAMDExt*wordBytes) != amdExt {
			continue
		}
		tools := in.word(entry + rootTools*wordBytes)
		return size(in.word(at)) >= tableHead+(rootTools+1)*wordBytes && tools != 0 &&
			uint32(in.word(tools)) == 1 && size(in.word(tools)) >= tableHead+toolsEntries*wordBytes
	}
	return false
}

// size returns a table's size from the first word of its version.
func size(version uint64) uint64 { return version >> 32 }

// word returns a word of the process; 0: it cannot be read.
func (in *inspection) word(at uint64) uint64 {
	var b [wordBytes]byte
	if _, err := in.mem.ReadAt(b[:], int64(at)); err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

// tools returns whose functions are in the slots of the HSA runtime's tables, except for the runtime's own. A tool
// below another one is not seen.
func (in *inspection) tools() []HookTool {
	l := in.loaded[libHSA]
	if l == nil || l.err != nil {
		return []HookTool{}
	}
	places, functions := map[string]target.Map{}, map[string]int{} // by path
	slots := map[uint64]bool{}
	for i := range function.Table() {
		f := &function.Table()[i]
		if !strings.HasPrefix(f.Name, "hsa_") {
			continue
		}
		s, decoded := in.stub(l, f.Name)
		if !decoded || slots[s.Slot] {
			continue
		}
		slots[s.Slot] = true
		if m, mapped := target.FindMap(in.maps, target.Addr(in.word(s.Slot))); mapped && m.Path != l.path {
			places[m.Path] = m
			functions[m.Path]++
		}
	}
	found := []HookTool{}
	for path, m := range places {
		found = append(found, HookTool{Path: path, Own: in.isOwn(m), Functions: functions[path]})
	}
	slices.SortFunc(found, func(a, b HookTool) int {
		return cmp.Or(cmp.Compare(b.Functions, a.Functions), cmp.Compare(a.Path, b.Path))
	})
	return found
}

// isOwn reports whether a mapping is of a payload of this tool.
func (in *inspection) isOwn(m target.Map) bool {
	return slices.ContainsFunc(in.maps, func(head target.Map) bool {
		return head.Inode == m.Inode && head.Dev == m.Dev && m.Inode != 0 && resident.IsImage(head) && in.isPayload(head)
	})
}

// isPayload reports whether the image that begins there exports a payload's entry.
func (in *inspection) isPayload(m target.Map) bool {
	image, err := target.OpenImage(in.mem, m.Start)
	if err != nil {
		return false
	}
	_, found, err := image.Symbol("rtl_attach")
	return found && err == nil
}
