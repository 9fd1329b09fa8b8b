package inject

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
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

// pair is a mapping of code at an address of ours, and of data, which may never have been made.
type pair struct{ code, data target.Map }

// span is a range of addresses.
type span struct{ start, end target.Addr }

func (p pair) span() span { return span{p.code.Start, max(p.code.End, p.data.End)} }

// grown is the age from which a mapping in use by nobody is a dead tool's:
// one that works takes some milliseconds from the mapping to its thread.
const grown = 150 * time.Millisecond

const (
	oldMax  = 8               // bounds a chain: each dead tool's mapping is one more call
	looking = 5 * time.Second // at them: a target can make thousands, and each look long
)

// leftovers finds the mappings of tools that died before any thread of theirs
// ran, or whose thread could not be made. The lock of package target keeps
// live tools apart, but not across network namespaces: hence the second look.
func leftovers(t *target.Target, l *libc, maps []target.Map) ([]span, error) {
	deadline := time.Now().Add(looking)
	free := func(p pair) bool { return ownerless(t, l, p) }
	first := some(pairs(maps), deadline, free)
	if len(first) == 0 {
		return nil, nil
	}
	time.Sleep(grown)
	maps, err := t.Maps()
	if err != nil {
		return nil, err
	}
	still := pairs(maps)
	old := some(first, deadline, func(p pair) bool {
		return slices.Contains(still, p) && free(p) && claim(t, p, free)
	})
	var spans []span
	for _, p := range old {
		spans = append(spans, p.span())
	}
	return spans, nil
}

// some of those that are wanted: as many as one chain takes, found until the deadline.
func some(all []pair, deadline time.Time, wanted func(pair) bool) (found []pair) {
	for _, p := range all {
		if len(found) == oldMax || time.Now().After(deadline) {
			break
		}
		if wanted(p) {
			found = append(found, p)
		}
	}
	return found
}

// claimAt is a word of the data, at the far end of the raw thread's stack.
const claimAt = 512

// claim makes an unused mapping ours to free. Its tool may live after all, and
// be slow: it looks for the claim when it has noted its thread, and we look for
// a thread when we have claimed. One of both gives up.
func claim(t *target.Target, p pair, free func(pair) bool) bool {
	if p.data.Start == 0 {
		return true // no thread can start where there is no data
	}
	if t.Write(p.data.Start+claimAt, []byte{1}) != nil {
		return false
	}
	if free(p) {
		return true
	}
	_ = t.Write(p.data.Start+claimAt, []byte{0})
	return false
}

// isData: where READ_IMPLIES_EXEC holds (personality(2)), what is asked for as
// readable becomes executable, too.
func isData(m target.Map) bool { return m.Perms == "rw-p" || m.Perms == "rwxp" }

// pairs lists the mappings that look like ours.
func pairs(maps []target.Map) []pair {
	var found []pair
	for i, code := range maps {
		if code.Start&(markStep-1) != markBits || !code.Anonymous() ||
			code.Perms != "r-xp" || code.End-code.Start != codeBytes {
			continue
		}
		p := pair{code: code}
		if i+1 < len(maps) && maps[i+1].Start == code.End && maps[i+1].Anonymous() && isData(maps[i+1]) {
			p.data = maps[i+1]
		}
		found = append(found, p)
	}
	return found
}

// ownerless reports whether the pair is ours and nobody uses it or ever will.
func ownerless(t *target.Target, l *libc, p pair) bool {
	text := make([]byte, codeBytes)
	if t.Read(p.code.Start, text) != nil {
		return false
	}
	zero := bytes.Count(text, []byte{0}) == len(text)
	if !zero && !bytes.HasPrefix(text, bootCode()) {
		return false
	}
	if p.data.Start == 0 {
		return zero
	}
	var b boot
	if err := readBoot(t, p.data.Start, &b); err != nil {
		return false
	}
	switch {
	case b.Magic == 0:
		return true // never written
	case b.Magic != bootMagic:
		return false
	case b.Phase == phaseFailed:
		return b.Failed == failedPthreadCreate && b.Raw_alive == 0
	case b.Phase == phaseNew:
		return b.Armed_tid == 0 || (past(t, l, int(b.Armed_tid)) && !cloned(t, p.data.Start))
	}
	return false
}

// cloned reports whether the raw thread of that mapping was made.
func cloned(t *target.Target, data target.Addr) bool {
	var b boot
	return readBoot(t, data, &b) != nil || b.Raw_tid != 0
}

// past reports whether a thread that was told to make a clone cannot do so any
// more: it is gone, or is waiting in a call of its own. A stopped thread may
// make it yet.
func past(t *target.Target, l *libc, nstid int) bool {
	tid, err := t.ThreadByNSPID(nstid)
	if err != nil {
		return target.ThreadEnded(err)
	}
	_, err = t.ThreadStat(tid)
	return target.ThreadEnded(err) || settled(t, l, tid)
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
