package python

import (
	"encoding/binary"
	"slices"
)

// Where in glibc's struct pthread the values of pthread_setspecific can be, from the thread pointer on.
const (
	specificBegin = 0x100
	specificEnd   = 0x900
)

// place returns where threads have their PyThreadState, counted from the thread pointer; 0: not found. glibc keeps the
// first values of pthread_setspecific there, and CPython sets one of them for PyGILState_Ensure. The place is found by
// comparison: it is the one that is right in all threads, in each version of glibc and CPython. It does not change.
func (p *Interpreter) place() uint32 {
	if p.tssKnown {
		return p.tss
	}
	states, err := p.states()
	if err != nil {
		return 0
	}
	threads := map[uint64][]uint64{} // the states of a thread, one for each of its interpreters
	for _, s := range states {
		threads[s.self] = append(threads[s.self], s.at)
	}
	var places []uint32
	looked := false
	b := make([]byte, specificEnd-specificBegin)
	for self, states := range threads {
		if p.memory.read(self+specificBegin, b) != nil {
			continue // it has ended
		}
		var here []uint32
		for i := 0; i < len(b); i += 8 {
			if at := uint32(specificBegin + i); slices.Contains(states, binary.LittleEndian.Uint64(b[i:])) && (!looked || slices.Contains(places, at)) {
				here = append(here, at)
			}
		}
		places, looked = here, true
	}
	if len(places) != 1 {
		return 0
	}
	p.tss, p.tssKnown = places[0], true
	return p.tss
}
