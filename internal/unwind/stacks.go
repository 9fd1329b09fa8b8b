package unwind

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-delve/delve/pkg/dwarf/frame"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Limits of the rules that Stacks keeps. Beyond them it starts empty again.
const (
	rulesMax    = 1 << 16
	oddRulesMax = 1 << 10 // each may be as large as a program of fdeMax bytes makes it
)

// ErrCut is the error of a walk that came to the end of the copied memory before the thread's start.
var ErrCut = errors.New("the stack goes on beyond what was copied")

// ErrNoCode is the error of a walk that met an address in no known code.
var ErrNoCode = errors.New("no known code")

// Stacks walks copies of many stacks of one process, and keeps what it finds for each address. The memory that
// it reads is the process's: it may be hostile. One goroutine at a time may use it.
type Stacks struct {
	u     Unwinder
	rules map[uint64]*rule
	odd   int
}

// NewStacks returns a Stacks for the code in maps, whose tables it reads from mem.
func NewStacks(mem io.ReaderAt, maps []target.Map) *Stacks {
	s := &Stacks{u: Unwinder{mem: mem}}
	s.Renew(maps)
	return s
}

// Renew replaces the mappings.
func (s *Stacks) Renew(maps []target.Map) {
	s.u.codes = images(s.u.mem, maps)
	s.forget()
}

func (s *Stacks) forget() {
	s.rules, s.odd = map[uint64]*rule{}, 0
}

// rule is what the unwind table says of an address, in the form that nearly all rows have: where the caller's frame
// is, and what is saved in this one.
type rule struct {
	err     error
	outer   bool                // there is no caller
	signal  bool                // the kernel's frame of a signal
	odd     *frame.FrameContext // a row with expressions; nil: the fields below
	base    uint64              // the register that has the frame's address,
	offset  int64               // less this
	saved   [7]saved
	number  int // of saved
	retAddr int64
}

// saved is a register's place, relative to the frame's address.
type saved struct {
	register uint64
	offset   int64
}

// Walk calls visit for each frame with its address and its stack pointer, the innermost first, as Unwinder.Walk does. The registers are in DWARF's order, stack is
// a copy of the memory at base. It returns nil at the outermost frame, or when visit returns
// false.
func (s *Stacks) Walk(start *[17]uint64, base uint64, stack []byte, visit func(pc, sp uint64) bool) error {
	r := registers(*start)
	copied := &ptrace.Snapshot{Base: base, Stack: stack}
	exact := true
	for range framesMax {
		pc := r[regPC]
		if !exact {
			pc--
		}
		if !visit(pc, r[regSP]) {
			return nil
		}
		rule := s.rule(pc, r[regPC])
		exact = rule.signal
		err := rule.apply(&r, copied)
		if errors.Is(err, errOutermost) {
			return nil
		}
		if errors.Is(err, errShort) {
			return ErrCut
		}
		if err != nil {
			return err
		}
	}
	return errors.New("too many frames")
}

// apply moves r to the caller's frame.
func (l *rule) apply(r *registers, stack *ptrace.Snapshot) error {
	switch {
	case l.err != nil:
		return l.err
	case l.outer:
		return errOutermost
	case l.signal:
		return r.fromSignalFrame(stack)
	case l.odd != nil:
		return r.up(l.odd, stack)
	}
	frame := r[l.base] + uint64(l.offset)
	back, err := word(stack, frame+uint64(l.retAddr))
	if err != nil {
		return err
	}
	if frame <= r[regSP] {
		return fmt.Errorf("the stack does not grow: %#x after %#x", frame, r[regSP])
	}
	for _, s := range l.saved[:l.number] {
		if r[s.register], err = word(stack, frame+uint64(s.offset)); err != nil {
			return err
		}
	}
	r[regSP], r[regPC] = frame, back
	if back == 0 {
		return errOutermost
	}
	return nil
}

// rule returns the rule for an address in a function, whose next instruction is at next.
func (s *Stacks) rule(pc, next uint64) *rule {
	if r, known := s.rules[pc]; known {
		return r
	}
	if len(s.rules) >= rulesMax || s.odd >= oddRulesMax {
		s.forget()
	}
	r := s.find(target.Addr(pc), target.Addr(next))
	if r.odd != nil {
		s.odd++
	}
	s.rules[pc] = r
	return r
}

func (s *Stacks) find(pc, next target.Addr) *rule {
	image, ok := s.u.ImageAt(pc)
	_, returns := s.u.ImageAt(next) // the code that a signal handler returns to may be the first of its mapping
	if (ok || returns) && s.u.atSignalReturn(next) {
		return &rule{signal: true}
	}
	if !ok {
		return &rule{err: fmt.Errorf("%w at %#x", ErrNoCode, pc)}
	}
	entry, err := entryFor(s.u.mem, image, pc)
	if err != nil {
		return &rule{err: err}
	}
	context, err := establish(entry, uint64(pc))
	if err != nil {
		return &rule{err: err}
	}
	return ruleOf(context)
}

// ruleOf turns a row of an unwind table into a rule.
func ruleOf(c *frame.FrameContext) *rule {
	back, ok := c.Regs[c.RetAddrReg]
	if !ok || back.Rule == frame.RuleUndefined {
		return &rule{outer: true}
	}
	l := &rule{base: c.CFA.Reg, offset: c.CFA.Offset, retAddr: back.Offset}
	plain := c.CFA.Rule == frame.RuleCFA && c.CFA.Reg < regPC && back.Rule == frame.RuleOffset
	for n, r := range c.Regs {
		if n == c.RetAddrReg || n >= regPC || n == regSP {
			continue
		}
		switch r.Rule {
		case frame.RuleUndefined, frame.RuleSameVal: // as in registers.apply
		case frame.RuleOffset:
			if l.number == len(l.saved) {
				plain = false
				break
			}
			l.saved[l.number] = saved{n, r.Offset}
			l.number++
		default:
			plain = false
		}
	}
	if !plain {
		return &rule{odd: ofRegisters(c)}
	}
	return l
}

// ofRegisters returns the part of a row that up uses. A hostile table can have tens of thousands of registers, and as many
// remembered rows.
func ofRegisters(c *frame.FrameContext) *frame.FrameContext {
	part := &frame.FrameContext{CFA: c.CFA, RetAddrReg: c.RetAddrReg, Regs: map[uint64]frame.DWRule{}}
	for n, r := range c.Regs {
		if n <= regPC || n == c.RetAddrReg {
			part.Regs[n] = r
		}
	}
	return part
}
