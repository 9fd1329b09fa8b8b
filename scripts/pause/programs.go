package main

import (
	"errors"
	"os"

	"github.com/cilium/ebpf/asm"
)

// Places on the programs' stack. An event is tid, padding, began, ended.
const (
	atEvent  = -24
	atTID    = atEvent
	atBegan  = atEvent + 8
	atEnded  = atEvent + 16
	atKey    = -32
	atTGID   = -40
	eventLen = 24
)

// ours leaves unless the task in R7 belongs to the watched process, and puts
// its thread id at atTID.
func (m *Meter) ours(o offsets) asm.Instructions {
	return asm.Instructions{
		asm.StoreImm(asm.RFP, atKey, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.config.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atKey),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.LoadMem(asm.R9, asm.R0, 0, asm.Word), // the watched process
		asm.JEq.Imm(asm.R9, 0, "exit"),

		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, atTGID),
		asm.Mov.Imm(asm.R2, 4),
		asm.Mov.Reg(asm.R3, asm.R7),
		asm.Add.Imm(asm.R3, o.tgid),
		asm.FnProbeReadKernel.Call(),
		asm.LoadMem(asm.R1, asm.RFP, atTGID, asm.Word),
		asm.JNE.Reg(asm.R1, asm.R9, "exit"),

		asm.StoreImm(asm.RFP, atTID, 0, asm.Word),
		asm.StoreImm(asm.RFP, atTID+4, 0, asm.Word),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, atTID),
		asm.Mov.Imm(asm.R2, 4),
		asm.Mov.Reg(asm.R3, asm.R7),
		asm.Add.Imm(asm.R3, o.pid),
		asm.FnProbeReadKernel.Call(),
	}
}

func leave() asm.Instructions {
	return asm.Instructions{
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	}
}

// onSwitch: sched_switch(preempt, prev, next, prev_state): notes when a thread
// is switched out traced.
func (m *Meter) onSwitch(o offsets) asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(asm.R7, asm.R1, 8, asm.DWord),
		asm.LoadMem(asm.R8, asm.R1, 24, asm.DWord),
		asm.And.Imm(asm.R8, taskTraced),
		asm.JEq.Imm(asm.R8, 0, "exit"),
	}
	code = append(code, m.ours(o)...)
	code = append(code,
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, atBegan, asm.R0, asm.DWord),
		asm.LoadMapPtr(asm.R1, m.stopped.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atTID),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, atBegan),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
	)
	return append(code, leave()...)
}

// onWaking: sched_waking(task): the end of a noted stop.
func (m *Meter) onWaking(o offsets) asm.Instructions {
	code := asm.Instructions{asm.LoadMem(asm.R7, asm.R1, 0, asm.DWord)}
	code = append(code, m.ours(o)...)
	code = append(code,
		asm.LoadMapPtr(asm.R1, m.stopped.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atTID),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.StoreMem(asm.RFP, atBegan, asm.R1, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, atEnded, asm.R0, asm.DWord),
		asm.LoadMapPtr(asm.R1, m.stopped.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atTID),
		asm.FnMapDeleteElem.Call(),
		asm.LoadMapPtr(asm.R1, m.events.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atEvent),
		asm.Mov.Imm(asm.R3, eventLen),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
	)
	return append(code, leave()...)
}

func isDeadline(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
