// Package unwind walks the stack of a thread from a snapshot of its registers and
// stack, with the unwind tables that the target has mapped: the thread may run
// again meanwhile. It answers whether a frame lies in a range of code; stale
// return addresses on the stack do not count.
package unwind

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-delve/delve/pkg/dwarf/frame"
	"github.com/go-delve/delve/pkg/dwarf/op"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Range is a range of code addresses; End is exclusive.
type Range struct{ Start, End target.Addr }

// Unwinder walks stacks with the code that the target had mapped when New was called.
type Unwinder struct {
	mem   io.ReaderAt // the target's memory
	codes []code
	cache map[target.Addr]*frame.FrameDescriptionEntry
}

// New lists the target's executable mappings.
func New(t *target.Target) (*Unwinder, error) {
	maps, err := t.Maps()
	if err != nil {
		return nil, err
	}
	return &Unwinder{mem: t, codes: images(t, maps), cache: make(map[target.Addr]*frame.FrameDescriptionEntry)}, nil
}

const framesMax = 512 // limit of one walk

// FramesIn reports whether a frame of s lies in one of the ranges, and whether the
// walk ended without an error. inside == true is certain; inside == false is
// certain only if complete.
func (u *Unwinder) FramesIn(s *ptrace.Snapshot, ranges []Range) (inside, complete bool) {
	err := u.Walk(s, func(pc target.Addr) bool {
		for _, r := range ranges {
			if pc >= r.Start && pc < r.End {
				inside = true
			}
		}
		return !inside
	})
	return inside, err == nil
}

// Walk calls visit for each frame, the innermost first, with an address in the
// frame's function: the next instruction of an interrupted frame, the last byte of
// the call instruction in others. It returns nil at the outermost frame, or when
// visit returns false.
func (u *Unwinder) Walk(s *ptrace.Snapshot, visit func(pc target.Addr) bool) error {
	r := fromRegs(&s.Regs)
	exact := true // pc is the next instruction; otherwise the one after a call
	for range framesMax {
		pc := target.Addr(r[regPC])
		if !exact {
			pc--
		}
		if !visit(pc) {
			return nil
		}
		var err error
		if u.atSignalReturn(target.Addr(r[regPC])) {
			exact, err = true, r.fromSignalFrame(s)
		} else {
			exact, err = false, u.step(&r, pc, s)
		}
		if errors.Is(err, errOutermost) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("frame at %#x: %w", r[regPC], err)
		}
	}
	return errors.New("too many frames")
}

var errOutermost = errors.New("outermost frame")

// step moves r to the caller's frame.
func (u *Unwinder) step(r *registers, pc target.Addr, s *ptrace.Snapshot) error {
	fde, err := u.lookup(pc)
	if err != nil {
		return err
	}
	rules, err := establish(fde, uint64(pc))
	if err != nil {
		return err
	}
	return r.up(rules, s)
}

// up applies the rules for one frame.
func (r *registers) up(rules *frame.FrameContext, s *ptrace.Snapshot) error {
	cfa, err := r.cfa(rules, s)
	if err != nil {
		return err
	}
	ret, ok := rules.Regs[rules.RetAddrReg]
	if !ok || ret.Rule == frame.RuleUndefined {
		return errOutermost // an undefined return address marks the start of a thread
	}
	caller := *r
	for n, rule := range rules.Regs {
		if n >= uint64(len(caller)) {
			continue // vector registers
		}
		if caller[n], err = r.apply(n, rule, cfa, s); err != nil {
			return err
		}
	}
	caller[regSP] = cfa
	if caller[regPC] == 0 {
		return errOutermost
	}
	if cfa <= r[regSP] {
		return fmt.Errorf("the stack does not grow: %#x after %#x", cfa, r[regSP])
	}
	*r = caller
	return nil
}

func (u *Unwinder) lookup(pc target.Addr) (*frame.FrameDescriptionEntry, error) {
	if fde, ok := u.cache[pc]; ok {
		return fde, nil
	}
	for _, c := range u.codes {
		if pc >= c.start && pc < c.end {
			fde, err := entryFor(u.mem, c.image, pc)
			if err == nil {
				u.cache[pc] = fde
			}
			return fde, err
		}
	}
	return nil, fmt.Errorf("no known code at %#x", pc)
}

// establish runs the entry's program. delve's interpreter panics on truncated programs.
func establish(fde *frame.FrameDescriptionEntry, pc uint64) (rules *frame.FrameContext, err error) {
	if exhaustsMemory(fde.Instructions) || exhaustsMemory(fde.CIE.InitialInstructions) {
		return nil, errors.New("unwind program with too many remembered states")
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("unwind program: %v", r)
		}
	}()
	return fde.EstablishFrame(pc)
}

// exhaustsMemory reports whether a program could fill the tool's memory: each
// DW_CFA_remember_state copies all rules, and a program of n bytes can have n rules.
func exhaustsMemory(program []byte) bool {
	const rememberState, most = 0x0a, 1 << 21
	return bytes.Count(program, []byte{rememberState})*len(program) > most
}

// signalReturn is the code to which a signal handler returns: mov $15, %rax; syscall.
var signalReturn = []byte{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}

// atSignalReturn recognises a signal frame by the code at pc, as gdb and libgcc do:
// its table entry needs DWARF expressions.
func (u *Unwinder) atSignalReturn(pc target.Addr) bool {
	b := make([]byte, len(signalReturn))
	_, err := u.mem.ReadAt(b, int64(pc))
	return err == nil && bytes.Equal(b, signalReturn)
}

// registers holds the registers in DWARF's order for x86-64 (System V ABI, figure 3.36).
type registers [17]uint64

const (
	regBP = 6
	regSP = 7
	regPC = 16
)

func fromRegs(r *ptrace.Regs) registers {
	return registers{
		r.Rax, r.Rdx, r.Rcx, r.Rbx, r.Rsi, r.Rdi, r.Rbp, r.Rsp,
		r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15, r.Rip,
	}
}

// fromSignalFrame loads the registers of the interrupted frame: rsp points to the
// ucontext after the handler has returned.
func (r *registers) fromSignalFrame(s *ptrace.Snapshot) error {
	const mcontext = 40 // in struct ucontext
	// Order of struct sigcontext: r8-r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
	base := r[regSP] + mcontext
	var next registers
	for i, n := range [...]int{8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16} {
		v, err := word(s, base+8*uint64(i))
		if err != nil {
			return err
		}
		next[n] = v
	}
	*r = next
	return nil
}

// cfa computes the canonical frame address.
func (r *registers) cfa(rules *frame.FrameContext, s *ptrace.Snapshot) (uint64, error) {
	switch rules.CFA.Rule {
	case frame.RuleCFA:
		if rules.CFA.Reg >= uint64(len(r)) {
			return 0, fmt.Errorf("frame address from register %d", rules.CFA.Reg)
		}
		return r[rules.CFA.Reg] + uint64(rules.CFA.Offset), nil
	case frame.RuleExpression:
		return r.evaluate(rules.CFA.Expression, 0, s)
	}
	return 0, fmt.Errorf("frame address by rule %d", rules.CFA.Rule)
}

// apply computes one register of the caller.
func (r *registers) apply(n uint64, rule frame.DWRule, cfa uint64, s *ptrace.Snapshot) (uint64, error) {
	switch rule.Rule {
	case frame.RuleUndefined, frame.RuleSameVal:
		// delve reports a register that is restored to its initial rule as undefined.
		return r[n], nil
	case frame.RuleOffset:
		return word(s, cfa+uint64(rule.Offset))
	case frame.RuleValOffset:
		return cfa + uint64(rule.Offset), nil
	case frame.RuleRegister:
		if rule.Reg < uint64(len(r)) {
			return r[rule.Reg], nil
		}
	case frame.RuleExpression:
		at, err := r.evaluate(rule.Expression, cfa, s)
		if err != nil {
			return 0, err
		}
		return word(s, at)
	case frame.RuleValExpression:
		return r.evaluate(rule.Expression, cfa, s)
	}
	return 0, fmt.Errorf("register %d by rule %d", n, rule.Rule)
}

// refusedOpcodes are opcodes that no frame needs, and with which a hostile target
// could stall the tool: DW_OP_bra and DW_OP_skip make loops, and delve's interpreter
// allocates whatever size DW_OP_implicit_value states. The check looks at all bytes
// of an expression, so it also refuses an operand with such a byte.
var refusedOpcodes = []byte{0x28, 0x2f, 0x9e}

// evaluate runs a DWARF expression. PLT entries use one for their frame address.
func (r *registers) evaluate(expression []byte, cfa uint64, s *ptrace.Snapshot) (v uint64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("unwind expression: %v", p)
		}
	}()
	if slices.ContainsFunc(expression, func(b byte) bool { return bytes.IndexByte(refusedOpcodes, b) >= 0 }) {
		return 0, errors.New("unwind expression with a jump or an implicit value")
	}
	regs := make([]*op.DwarfRegister, len(r))
	for i := range r {
		regs[i] = op.DwarfRegisterFromUint64(r[i])
	}
	dr := op.NewDwarfRegisters(0, regs, binary.LittleEndian, regPC, regSP, regBP, 0)
	dr.CFA = int64(cfa)
	result, _, err := op.ExecuteStackProgram(*dr, expression, 8, func(b []byte, at uint64) (int, error) {
		off := at - s.Base
		if off > uint64(len(s.Stack)) || uint64(len(s.Stack))-off < uint64(len(b)) {
			return 0, errShort
		}
		return copy(b, s.Stack[off:]), nil
	})
	return uint64(result), err
}

var errShort = errors.New("address outside of the copied part of the stack")

func word(s *ptrace.Snapshot, at uint64) (uint64, error) {
	off := at - s.Base
	if off > uint64(len(s.Stack)) || uint64(len(s.Stack))-off < 8 {
		return 0, errShort
	}
	return binary.LittleEndian.Uint64(s.Stack[off:]), nil
}
