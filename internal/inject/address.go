package inject

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"unsafe"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Our mappings are told from the application's by their address: bits 12 to
// 27 are a mark, an executable page without a file lies there, and writable
// memory without a file begins right above. A tool that dies before it has
// written a single byte leaves something that can be recognised all the same.
const (
	markStep  = 1 << 28
	markBits  = 0x5254 << 12 // "RT"
	lowest    = 1 << 32      // stay out of the first 4 GiB
	topOfUser = 1 << 47
)

// chooseBase picks an address of that mark in the widest gap between the
// target's mappings, well away from both ends: heaps and stacks grow into gaps.
func chooseBase(maps []target.Map) (target.Addr, error) {
	var lo, hi target.Addr
	last := target.Addr(lowest)
	for _, m := range append(maps, target.Map{Start: topOfUser}) {
		start := min(m.Start, topOfUser)
		if start > last && start-last > hi-lo {
			lo, hi = last, start
		}
		last = max(last, m.End)
	}
	quarter := (hi - lo) / 4
	slots := (hi - lo) / 2 / markStep
	if slots < 2 {
		return 0, fmt.Errorf("no room for a mapping in the target's address space")
	}
	slot := target.Addr(rand.Uint64N(uint64(slots - 1)))
	return ((lo+quarter)&^(markStep-1) + (1+slot)*markStep) | markBits, nil
}

// span is a range of addresses.
type span struct{ start, end target.Addr }

// leftovers finds the mappings of tools that died before any thread of theirs
// ran, or whose thread could not be made.
func leftovers(t *target.Target, maps []target.Map) []span {
	var found []span
	for i, m := range maps {
		if m.Start&(markStep-1) != markBits || !m.Anonymous() {
			continue
		}
		s := span{m.Start, m.End}
		code, data := m, target.Map{}
		if code.Perms != "r-xp" || code.End-code.Start != codeBytes {
			continue
		}
		if i+1 < len(maps) && maps[i+1].Start == m.End && maps[i+1].Anonymous() && maps[i+1].Perms == "rw-p" {
			data = maps[i+1]
			s.end = data.End
		}
		if ownerless(t, code, data) {
			found = append(found, s)
		}
	}
	return found
}

// ownerless reports whether the pair is ours and no thread uses it: its code
// was never written or is our code, and its phase is before the first thread
// or after a failure that ended it.
func ownerless(t *target.Target, code, data target.Map) bool {
	text := make([]byte, codeBytes)
	if t.Read(code.Start, text) != nil {
		return false
	}
	zero := bytes.Count(text, []byte{0}) == len(text)
	if !zero && !bytes.HasPrefix(text, bootCode()) {
		return false
	}
	if data.Start == 0 {
		return zero
	}
	var b boot
	if err := readBoot(t, data.Start, &b); err != nil {
		return false
	}
	switch {
	case b.Magic == 0:
		return true
	case b.Magic != bootMagic:
		return false
	case b.Phase == phaseNew:
		return true
	}
	return b.Phase == phaseFailed && b.Failed == failedPthreadCreate && b.Raw_alive == 0
}

// readBoot reads the struct at the start of an RW mapping.
func readBoot(t *target.Target, at target.Addr, b *boot) error {
	buf := make([]byte, unsafe.Sizeof(*b))
	if err := t.Read(at, buf); err != nil {
		return err
	}
	_, err := binary.Decode(buf, binary.LittleEndian, b)
	return err
}
