package unwind

import (
	"errors"

	"github.com/go-delve/delve/pkg/dwarf/frame"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// unknownRegister is the value of a register that /proc does not tell: no address, so that what is read
// by it fails.
const unknownRegister = 0xbad0_0000_0000_0000

// searchMax limits the bytes of stack in which a frame is searched whose frame pointer is not known.
const searchMax = 4 << 10

// WalkBlocked is Walk for a thread that waits in the kernel, of which only the two registers are known
// that /proc/PID/task/TID/syscall tells, and a copy of its stack from sp on. Functions that keep their frame
// in a register may have saved it in no frame below: WalkBlocked then takes the first place on the stack from which
// the walk reaches the thread's start. sure reports that it did not have to. The thread may have run on
// meanwhile; the result is then a mixture, or an error.
func (u *Unwinder) WalkBlocked(pc, sp target.Addr, stack []byte, visit func(pc, sp target.Addr)) (sure bool, err error) {
	s := &ptrace.Snapshot{Base: uint64(sp), Stack: stack}
	var r registers
	for n := range r {
		r[n] = unknownRegister
	}
	r[regPC], r[regSP] = uint64(pc), uint64(sp)
	frames, rest, err := u.walkFrom(r, true, s)
	sure = true
	for tries := 0; err != nil && tries < 4; tries++ {
		more, end, ok := u.search(rest, s)
		if !ok {
			break
		}
		sure = false
		frames = append(frames, more...)
		rest, err = end.at, end.err
	}
	for _, f := range frames {
		visit(f.pc, f.sp)
	}
	return sure, err
}

// Places is Walk that also tells each frame's stack pointer.
func (u *Unwinder) Places(s *ptrace.Snapshot, visit func(pc, sp target.Addr)) error {
	frames, _, err := u.walkFrom(fromRegs(&s.Regs), true, s)
	for _, f := range frames {
		visit(f.pc, f.sp)
	}
	return err
}

// place is a frame: an address in its function, and its stack pointer.
type place struct{ pc, sp target.Addr }

// walkFrom returns the frames from r on, and the registers of the frame at which the walk ended.
func (u *Unwinder) walkFrom(r registers, exact bool, s *ptrace.Snapshot) (frames []place, last registers, err error) {
	for range framesMax {
		pc := target.Addr(r[regPC])
		if !exact {
			pc--
		}
		frames = append(frames, place{pc, target.Addr(r[regSP])})
		last = r
		if u.atSignalReturn(target.Addr(r[regPC])) {
			exact, err = true, r.fromSignalFrame(s)
		} else {
			exact, err = false, u.step(&r, pc, s)
		}
		if errors.Is(err, errOutermost) {
			return frames, last, nil
		}
		if err != nil {
			return frames, last, err
		}
	}
	return frames, last, errors.New("too many frames")
}

// ending is how a walk ended.
type ending struct {
	at  registers
	err error
}

// search looks for the frame of the function at r, which has it in a register that is not known. Of the
// places that can be it, it takes the first from which the walk reaches the thread's start; if there is
// none, the one from which it gets farthest.
func (u *Unwinder) search(r registers, s *ptrace.Snapshot) (frames []place, end ending, ok bool) {
	pc := target.Addr(r[regPC])
	fde, err := u.lookup(pc)
	if err != nil {
		return nil, end, false
	}
	rules, err := establish(fde, uint64(pc))
	if err != nil || rules.CFA.Rule != frame.RuleCFA || rules.CFA.Reg >= uint64(len(r)) || rules.CFA.Reg == regSP {
		return nil, end, false
	}
	for at := r[regSP] &^ 7; at < r[regSP]+searchMax; at += 8 {
		from := r
		from[rules.CFA.Reg] = at
		ret, err := word(s, at+uint64(rules.CFA.Offset)-8)
		if err != nil {
			break
		}
		if !u.afterCall(target.Addr(ret)) || from.up(rules, s) != nil {
			continue
		}
		more, last, err := u.walkFrom(from, false, s)
		if len(more) > len(frames) {
			frames, end, ok = more, ending{last, err}, true
		}
		if err == nil {
			return more, ending{last, nil}, true
		}
	}
	return frames, end, ok
}

// afterCall reports whether pc is known code that follows a call instruction.
func (u *Unwinder) afterCall(pc target.Addr) bool {
	for _, c := range u.codes {
		if pc < c.start+7 || pc >= c.end {
			continue
		}
		var b [7]byte
		if _, err := u.mem.ReadAt(b[:], int64(pc-7)); err != nil {
			return false
		}
		if b[2] == 0xe8 { // call rel32
			return true
		}
		for _, length := range []int{2, 3, 4, 6, 7} { // call r/m64: ff /2
			if i := 7 - length; b[i] == 0xff && b[i+1]>>3&7 == 2 {
				return true
			}
		}
		return false
	}
	return false
}

// ImageAt returns the image that has the code at pc.
func (u *Unwinder) ImageAt(pc target.Addr) (*target.Image, bool) {
	for _, c := range u.codes {
		if pc >= c.start && pc < c.end {
			return c.image, true
		}
	}
	return nil, false
}

// FunctionStart returns the address of the function that has the code at pc, by its unwind table; 0: unknown.
func (u *Unwinder) FunctionStart(pc target.Addr) target.Addr {
	fde, err := u.lookup(pc)
	if err != nil {
		return 0
	}
	return target.Addr(fde.Begin())
}
