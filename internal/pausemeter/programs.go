package pausemeter

import "github.com/cilium/ebpf/asm"

// taskTraced is __TASK_TRACED of the kernel (include/linux/sched.h).
const taskTraced = 0x8

// Offsets on the programs' stack. The first fields of an event are known when the stop begins.
const (
	atEvent    = -56
	atBegan    = atEvent
	atWho      = atEvent + 8  // thread, process
	atLeft     = atEvent + 16 // the processor
	atEnded    = atEvent + 24
	atBy       = atEvent + 32 // thread, process
	atWoken    = atEvent + 40 // the processor
	atPriority = atEvent + 44
	atAllowed  = atEvent + 48 // on how many processors it may run
	stopBytes  = atEnded - atEvent
	eventBytes = 56

	atKey   = -64
	atState = -72
)

// onSwitch handles sched_switch, on the thread that is switched out. It notes the time if the
// thread belongs to a watched process and is in a traced stop. For a thread that is preempted on
// its way into a stop, it notes the later time.
func (m *Meter) onSwitch(f fields) asm.Instructions {
	code := asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, atWho, asm.R0, asm.DWord),
		asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, atKey, asm.R0, asm.Word),
	}
	code = append(code, find(m.watched.FD())...)
	code = append(code,
		asm.FnGetCurrentTask.Call(),
		asm.StoreMem(asm.RFP, atKey, asm.R0, asm.DWord),
	)
	code = append(code, readTask(f.state, atState)...)
	code = append(code,
		asm.LoadMem(asm.R1, asm.RFP, atState, asm.Word),
		asm.And.Imm(asm.R1, taskTraced),
		asm.JEq.Imm(asm.R1, 0, "exit"),

		asm.FnGetSmpProcessorId.Call(),
		asm.StoreMem(asm.RFP, atLeft, asm.R0, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, atBegan, asm.R0, asm.DWord),
		asm.LoadMapPtr(asm.R1, m.stopped.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atKey),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, atEvent),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
	)
	return append(code, m.leave()...)
}

// onWaking handles sched_waking(task), on the thread that wakes task: the end of a noted stop.
func (m *Meter) onWaking(f fields) asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.StoreMem(asm.RFP, atKey, asm.R1, asm.DWord),
	}
	code = append(code, find(m.stopped.FD())...)
	for at := int16(0); at < stopBytes; at += 8 {
		code = append(code,
			asm.LoadMem(asm.R1, asm.R0, at, asm.DWord),
			asm.StoreMem(asm.RFP, atEvent+at, asm.R1, asm.DWord),
		)
	}
	code = append(code,
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, atEnded, asm.R0, asm.DWord),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, atBy, asm.R0, asm.DWord),
		asm.FnGetSmpProcessorId.Call(),
		asm.StoreMem(asm.RFP, atWoken, asm.R0, asm.Word),
		asm.Mov.Imm(asm.R0, 0),
		asm.StoreMem(asm.RFP, atAllowed, asm.R0, asm.DWord),
	)
	for _, word := range []struct{ offset, to int32 }{{f.priority, atPriority}, {f.allowed, atAllowed}} {
		code = append(code, asm.FnGetCurrentTask.Call())
		code = append(code, readTask(word.offset, word.to)...)
	}
	code = append(code,
		asm.LoadMapPtr(asm.R1, m.stopped.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atKey),
		asm.FnMapDeleteElem.Call(),
		asm.LoadMapPtr(asm.R1, m.events.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atEvent),
		asm.Mov.Imm(asm.R3, eventBytes),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
	)
	return append(code, m.leave()...)
}

// find looks up the key at atKey, and ends the program if there is no entry.
func find(fd int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, fd),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atKey),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
	}
}

// readTask copies a word of the task in R0 to the stack.
func readTask(offset int32, to int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Add.Imm(asm.R3, offset),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, to),
		asm.Mov.Imm(asm.R2, 4),
		asm.FnProbeReadKernel.Call(),
	}
}

// leave ends a program, and counts events that did not fit.
func (m *Meter) leave() asm.Instructions {
	return asm.Instructions{
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.StoreImm(asm.RFP, atKey, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.missed.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atKey),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),

		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	}
}
