package python

import (
	"encoding/binary"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Limits of the lists of interpreters and threads.
const (
	interpretersMax = 256
	statesMax       = 1 << 16
	triesMax        = 4 // of a list that changes meanwhile
)

// state is a PyThreadState.
type state struct {
	at     uint64
	interp uint64
	self   uint64 // pthread_self()
	tid    uint32 // in the process's pid namespace, as CPython has noted it
	frame  uint64 // the innermost frame, or the structure that has the pointer to it
}

// Threads returns the thread states by the tool's ids of their threads. A thread of several interpreters has one of
// its states in it.
func (p *Interpreter) Threads() (map[uint32]uint64, error) {
	states, err := p.states()
	if err != nil {
		return nil, err
	}
	all, err := p.tids()
	if err != nil {
		return nil, err
	}
	found := make(map[uint32]uint64, len(states))
	for _, s := range states {
		if tid := p.threadOf(all, s); tid != 0 && (found[tid] == 0 || s.frame != 0) {
			found[tid] = s.at
		}
	}
	return found, nil
}

// states lists the thread states. The process may change the lists meanwhile: then it tries again.
func (p *Interpreter) states() (states []state, err error) {
	for range triesMax {
		if states, err = p.walkStates(); err == nil {
			return states, nil
		}
	}
	return nil, fmt.Errorf("the list of threads: %w: %w", ErrTorn, err)
}

func (p *Interpreter) walkStates() ([]state, error) {
	interpreters, err := p.interpreters()
	if err != nil {
		return nil, err
	}
	var states []state
	seen := map[uint64]bool{}
	for _, interp := range interpreters {
		at, err := p.memory.word(interp + uint64(p.threadsHead))
		for ; err == nil && at != 0; at, err = p.memory.word(at + uint64(p.tsNext)) {
			s, err := p.readState(at)
			if err != nil {
				return nil, err
			}
			if seen[at] || s.interp != interp || len(states) == statesMax {
				return nil, target.ErrMalformed
			}
			seen[at] = true
			states = append(states, s)
		}
		if err != nil {
			return nil, err
		}
	}
	return states, nil
}

// interpreters lists the PyInterpreterStates, the newest first.
func (p *Interpreter) interpreters() (found []uint64, err error) {
	at, err := p.memory.word(p.runtime + uint64(p.interpHead))
	for ; err == nil && at != 0; at, err = p.memory.word(at + uint64(p.interpNext)) {
		if found = append(found, at); len(found) > interpretersMax {
			return nil, target.ErrMalformed
		}
	}
	return found, err
}

// readState reads a thread state.
func (p *Interpreter) readState(at uint64) (state, error) {
	frame := p.tsFrame
	if p.tsCframe != 0 {
		frame = p.tsCframe
	}
	b := make([]byte, max(p.tsNext, p.tsInterp, p.tsID, p.tsTID, frame)+8)
	if err := p.memory.read(at, b); err != nil {
		return state{}, err
	}
	le := binary.LittleEndian
	return state{
		at: at, interp: le.Uint64(b[p.tsInterp:]), self: le.Uint64(b[p.tsID:]),
		tid: uint32(le.Uint64(b[p.tsTID:])), frame: le.Uint64(b[frame:]),
	}, nil
}

// tids tells the tool's ids of threads.
type tids struct {
	t   *target.Target
	own map[int]uint32 // ids in the process's own pid namespace, by the tool's
}

// all returns the tool's ids of the process's threads by their ids in the process's own pid namespace.
func (ids *tids) all() (map[uint32]uint32, error) {
	listed, err := ids.t.Threads()
	if err != nil {
		return nil, err
	}
	found := make(map[uint32]uint32, len(listed))
	own := make(map[int]uint32, len(listed))
	for _, tid := range listed {
		id, known := ids.own[tid]
		if !known {
			id = uint32(tid)
			if len(ids.t.NSPID) > 1 {
				status, err := ids.t.ThreadStatus(tid)
				if err != nil || len(status.NSPID) == 0 {
					continue // it has ended
				}
				id = uint32(status.NSPID[len(status.NSPID)-1])
			}
		}
		own[tid], found[id] = id, uint32(tid)
	}
	ids.own = own
	return found, nil
}

// pthreadTID is the offset of the thread's id in glibc's struct pthread on x86-64.
const pthreadTID = 0x2d0

// threadOf returns which of the process's threads a state is of; 0: it has ended.
func (p *Interpreter) threadOf(all map[uint32]uint32, s state) uint32 {
	if tid := all[s.tid]; tid != 0 {
		return tid
	}
	// A process that was forked has its parent's id in the state, and its own where glibc has it.
	own, err := p.memory.word(s.self + pthreadTID)
	if err != nil {
		return 0
	}
	return all[uint32(own)]
}
