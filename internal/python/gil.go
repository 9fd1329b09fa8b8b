package python

import (
	"encoding/binary"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// GIL is a lock of an interpreter: who has it may run Python code. Interpreters of 3.12 and later can have one each.
type GIL struct {
	Locked  bool
	Holder  uint32 // the tool's id of the thread that has it, or had it last if it is not locked; 0: unknown
	address uint64
}

// Places in struct _gil_runtime_state, the same in all versions.
const (
	gilHolder = 8
	gilLocked = 16
)

// GILBytes is how long the structure of a lock is.
const GILBytes = 208

// Waits reports whether a thread that waits at a futex waits for this lock.
func (g GIL) Waits(futex uint64) bool {
	return futex-g.address < GILBytes
}

// GIL returns the locks of the interpreters; the main interpreter's is the first.
func (p *Interpreter) GIL() ([]GIL, error) {
	addresses, err := p.GILAddresses()
	if err != nil {
		return nil, err
	}
	threads, err := p.Threads()
	if err != nil {
		return nil, err
	}
	var found []GIL
	for _, at := range addresses {
		g, err := p.readGIL(at, threads)
		if err != nil {
			return nil, err
		}
		found = append(found, g)
	}
	return found, nil
}

// GILAddresses returns where the locks of the interpreters are, in the order of GIL. Each takes GILBytes: a thread that
// waits for it waits at a futex in them. The process says where they are: nothing must be read there unchecked.
func (p *Interpreter) GILAddresses() (all []uint64, err error) {
	interpreters, err := p.interpreters()
	if err != nil {
		return nil, err
	}
	for i := len(interpreters) - 1; i >= 0; i-- {
		at := p.runtime + uint64(p.gil)
		if p.gilIn == gilPointer {
			if at, err = p.memory.word(interpreters[i] + uint64(p.gil)); err != nil {
				return nil, err
			}
		}
		if at != 0 && !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all, nil
}

// readGIL reads the lock at an address. The lock and its holder are two words: it reads them until they stay the same.
func (p *Interpreter) readGIL(at uint64, threads map[uint32]uint64) (GIL, error) {
	var holder uint64
	var locked uint32
	for try := 0; ; try++ {
		var b [gilLocked + 4]byte
		if err := p.memory.read(at, b[:]); err != nil {
			return GIL{}, err
		}
		h, l := binary.LittleEndian.Uint64(b[gilHolder:]), binary.LittleEndian.Uint32(b[gilLocked:])
		if int32(l) < -1 || int32(l) > 1 {
			return GIL{}, target.ErrMalformed
		}
		same := try > 0 && h == holder && l == locked
		if holder, locked = h, l; same || try == triesMax {
			break
		}
	}
	g := GIL{Locked: locked == 1, address: at}
	for tid, state := range threads {
		if state == holder {
			g.Holder = tid
		}
	}
	return g, nil
}
