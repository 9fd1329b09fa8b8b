package export

import "strconv"

// csvHeader has the column names of rocprofv3 (ROCm 7), without the columns for registers,
// which a trace does not have, and two more columns at the end.
const csvHeader = `"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",` +
	`"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size",` +
	`"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z",` +
	`"Process_Id","Session_Id"` + "\n"

// writeCSV writes a line for each dispatch, in the order of the trace.
func writeCSV(e *export) error {
	if _, err := e.w.WriteString(csvHeader); err != nil {
		return err
	}
	names := newEscaped(appendCSV)
	var line []byte
	return e.trace.dispatches(e.ctx, asRecorded, func(d *dispatch) error {
		e.result.Dispatches++
		line = appendCSVLine(line[:0], d, names.name(d.launch))
		_, err := e.w.Write(line)
		return err
	})
}

func appendCSVLine(b []byte, d *dispatch, name []byte) []byte {
	agent, l := d.queue.Agent, d.launch
	numbers := func(values ...int64) {
		for _, v := range values {
			b = strconv.AppendInt(append(b, ','), v, 10)
		}
	}
	b = append(b, `"KERNEL_DISPATCH","Agent `...)
	b = append(strconv.AppendInt(b, agent.GPU, 10), '"')
	numbers(d.queue.ID, d.streamID(), d.tid(), d.id, l.symbolID)
	b = append(append(b, ','), name...)
	numbers(d.correlationID(), d.startNS, d.endNS, l.groupBytes, l.scratchByte)
	numbers(l.workgroup[:]...)
	numbers(l.grid[:]...)
	numbers(agent.Session.Process.ID.PID, agent.Session.ID)
	return append(b, '\n')
}

// tid is the submitting thread; 0: not known.
func (d *dispatch) tid() int64 {
	if d.thread == nil {
		return 0
	}
	return d.thread.tid
}
