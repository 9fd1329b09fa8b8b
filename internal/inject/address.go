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

// The address of the tool's mappings distinguishes them from the application's: bits
// 12 to 27 have a fixed value, an anonymous executable page lies there, and anonymous
// writable memory begins right above it. So a later tool recognises them even if a
// tool died before it wrote a single byte.
const (
	markStep  = 1 << 28
	markBits  = 0x5254 << 12 // "RT"
	lowest    = 1 << 32      // stay out of the first 4 GiB
	topOfUser = 1 << 47
)

// chooseBase picks an address with these bits in the widest gap between the target's
// mappings, far from both ends of the gap: heaps and stacks grow into gaps.
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
		return 0, fmt.Errorf("no free range for a mapping in the target's address space")
	}
	slot := target.Addr(rand.Uint64N(uint64(slots - 1)))
	return ((lo+quarter)&^(markStep-1) + (1+slot)*markStep) | markBits, nil
}

// pair is a code mapping at an address that chooseBase could have chosen, and the data
// mapping above it; data is zero if the tool died before it mapped it.
type pair struct{ code, data target.Map }

// span is a range of addresses.
type span struct{ start, end target.Addr }

func (p pair) span() span { return span{p.code.Start, max(p.code.End, p.data.End)} }

// staleAge is the age from which an unused mapping counts as a dead tool's: a live tool
// needs some milliseconds from the mapping to the thread that uses it.
const staleAge = 150 * time.Millisecond

const (
	leftoversMax = 8               // limits a chain: each leftover adds one munmap call
	searchLimit  = 5 * time.Second // a target can make thousands of such mappings, each slow to check
)

// leftovers finds the mappings of tools that died before their bootstrap thread ran, or
// that could not create it. The lock of package target excludes other live tools, but
// not across network namespaces: hence the second check after staleAge.
func leftovers(t *target.Target, l *libc, maps []target.Map) ([]span, error) {
	deadline := time.Now().Add(searchLimit)
	free := func(p pair) bool { return unused(t, l, p) }
	first := firstMatching(pairs(maps), deadline, free)
	if len(first) == 0 {
		return nil, nil
	}
	time.Sleep(staleAge)
	maps, err := t.Maps()
	if err != nil {
		return nil, err
	}
	still := pairs(maps)
	old := firstMatching(first, deadline, func(p pair) bool {
		return slices.Contains(still, p) && free(p) && claim(t, p, free)
	})
	var spans []span
	for _, p := range old {
		spans = append(spans, p.span())
	}
	return spans, nil
}

// firstMatching returns the first pairs that match: at most leftoversMax, and only
// those found before the deadline.
func firstMatching(all []pair, deadline time.Time, match func(pair) bool) (found []pair) {
	for _, p := range all {
		if len(found) == leftoversMax || time.Now().After(deadline) {
			break
		}
		if match(p) {
			found = append(found, p)
		}
	}
	return found
}

// claimAt is the offset of the claim word in the data mapping: the far end of the raw
// thread's stack.
const claimAt = 512

// claim reserves an unused mapping for this tool to free. Its owner may be alive and
// slow: the owner checks for a claim after it has stored its thread ID, and the claimant
// checks for a thread ID after it has stored its claim. So at least one of them gives up.
func claim(t *target.Target, p pair, free func(pair) bool) bool {
	if p.data.Start == 0 {
		return true // no thread can start without the data mapping
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

// isData reports whether m has the permissions of the data mapping. Under
// READ_IMPLIES_EXEC (personality(2)), a mapping requested as readable is also executable.
func isData(m target.Map) bool { return m.Perms == "rw-p" || m.Perms == "rwxp" }

// pairs lists the mappings that have the address, size and permissions of a tool's.
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

// unused reports whether a tool made the pair, and no thread uses it or will use it.
func unused(t *target.Target, l *libc, p pair) bool {
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
		return b.Armed_tid == 0 || (cannotClone(t, l, int(b.Armed_tid)) && !cloned(t, p.data.Start))
	}
	return false
}

// cloned reports whether the raw thread of that mapping was created, or may have been.
func cloned(t *target.Target, data target.Addr) bool {
	var b boot
	return readBoot(t, data, &b) != nil || b.Raw_tid != 0
}

// cannotClone reports whether the thread that a tool prepared to make a clone will not
// make it any more: it has ended, or waits in a system call of its own. A stopped thread
// may still make it.
func cannotClone(t *target.Target, l *libc, nstid int) bool {
	tid, err := t.ThreadByNSPID(nstid)
	if err != nil {
		return target.ThreadEnded(err)
	}
	_, err = t.ThreadStat(tid)
	return target.ThreadEnded(err) || chainDone(t, l, tid)
}

// readBoot reads the struct rtl_boot at the start of a data mapping.
func readBoot(t *target.Target, at target.Addr, b *boot) error {
	buf := make([]byte, unsafe.Sizeof(*b))
	if err := t.Read(at, buf); err != nil {
		return err
	}
	_, err := binary.Decode(buf, binary.LittleEndian, b)
	return err
}
