package cputrace

import "github.com/rtl-attach/rtl-attach/tracedb"

var (
	windowTable = &tracedb.Table{Name: "rtl_cpu_window", Columns: []string{"begun_ns", "method_id", "cpu_hz", "wall_hz", "scheduling", "least_wait_ns"}}
	endTable    = &tracedb.Table{Name: "rtl_cpu_window", Columns: []string{"ended_ns", "detail_id"}}
	lockTable   = &tracedb.Table{Name: "rtl_cpu_lock", Columns: []string{"kind", "address", "bytes"}}
	lossTable   = &tracedb.Table{Name: "rtl_cpu_loss", Columns: []string{"cause_id", "events"}}
	threadTable = &tracedb.Table{Name: "rtl_cpu_thread", Columns: []string{"thread_id", "short_waits", "short_ns"}}
	frameTable  = &tracedb.Table{Name: "rtl_cpu_frame", Columns: []string{"id", "kind", "name_id", "file_id", "line", "offset", "object_id"}}
	nameTable   = &tracedb.Table{Name: "rtl_cpu_frame", Columns: []string{"name_id", "file_id", "line", "offset", "object_id"}}
	stackTable  = &tracedb.Table{Name: "rtl_cpu_stack", Columns: []string{"id", "parent_id", "frame_id", "cut"}}
	sampleTable = &tracedb.Table{Name: "rtl_cpu_sample", Columns: []string{"thread_id", "time_ns", "clock", "state", "processor", "stack_id"}}
	waitTable   = &tracedb.Table{Name: "rtl_cpu_wait", Columns: []string{
		"thread_id", "out_ns", "woken_ns", "in_ns", "state", "syscall", "argument0", "argument1", "waker_thread_id", "waker_pid", "waker_tid", "stack_id",
	}}
)

// mostThreads limits the threads of a window. The session has room for twice as many: the other half is for those that use
// GPUs.
const mostThreads = 1 << 15

// Writer writes the rows of one window into a session of a trace.
type Writer struct {
	session *tracedb.Session
	threads map[uint32]bool // that have rows
	window  int64
	omitted uint64 // rows of threads that the trace has no room for
}

// NewWriter returns a writer for a session. Begin comes first.
func NewWriter(s *tracedb.Session) *Writer { return &Writer{session: s, threads: map[uint32]bool{}} }

// id makes an id of a recording one of the file, in which sessions have numbers of their own.
func (w *Writer) id(own uint32) int64 {
	if own == 0 {
		return tracedb.Null
	}
	return w.session.ID()<<32 | int64(own)
}

// Begin writes the window and its locks.
func (w *Writer) Begin(o Window) error {
	return w.session.Rows(1+len(o.Locks), func(k tracedb.KindWriter) error {
		method, err := k.String(o.Method)
		if err != nil {
			return err
		}
		for _, l := range o.Locks {
			if err := k.Add(lockTable, int64(l.Kind), int64(l.Address), int64(l.Bytes)); err != nil {
				return err
			}
		}
		w.window, err = k.Define(windowTable, int64(o.BegunNS), method, int64(o.CPUHz), int64(o.WallHz), flag(o.Scheduling), int64(o.LeastWaitNS))
		return err
	})
}

// Write writes rows.
func (w *Writer) Write(b *Batch) error {
	if b.Rows() == 0 {
		return nil
	}
	return w.session.Rows(b.Rows(), func(k tracedb.KindWriter) error {
		for _, write := range []func(tracedb.KindWriter, *Batch) error{w.frames, w.stacks, w.samples, w.waits, w.shorts} {
			if err := write(k, b); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *Writer) frames(k tracedb.KindWriter, b *Batch) error {
	for _, f := range b.Frames {
		v, err := describe(k, f)
		if err != nil {
			return err
		}
		if err := k.Add(frameTable, w.id(f.ID), int64(f.Kind), v[0], v[1], v[2], v[3], v[4]); err != nil {
			return err
		}
	}
	return nil
}

// Name replaces the descriptions of frames.
func (w *Writer) Name(frames []Frame) error {
	if len(frames) == 0 {
		return nil
	}
	return w.session.Rows(0, func(k tracedb.KindWriter) error {
		for _, f := range frames {
			v, err := describe(k, f)
			if err != nil {
				return err
			}
			if err := k.Update(nameTable, w.id(f.ID), v[:]...); err != nil {
				return err
			}
		}
		return nil
	})
}

// describe returns the values of a frame's name, file, line, offset and ELF file.
func describe(k tracedb.KindWriter, f Frame) (v [5]int64, err error) {
	if v[0], err = k.String(f.Name); err != nil {
		return v, err
	}
	if v[1], err = k.String(f.File); err != nil {
		return v, err
	}
	v[2], v[3] = orNull(int64(f.Line)), tracedb.Null
	if f.HasOffset {
		v[3] = int64(f.Offset)
	}
	if v[4] = tracedb.Null; f.Object != "" {
		v[4], err = k.String(f.Object)
	}
	return v, err
}

func (w *Writer) stacks(k tracedb.KindWriter, b *Batch) error {
	for _, s := range b.Stacks {
		if err := k.Add(stackTable, w.id(s.ID), w.id(s.Parent), w.id(s.Frame), flag(s.Cut)); err != nil {
			return err
		}
	}
	return nil
}

// thread returns the row of a thread; Null, and it counts one more row that is left out: there is none.
func (w *Writer) thread(k tracedb.KindWriter, tid uint32) (int64, error) {
	row, err := w.threadIfRoom(k, tid)
	if row == tracedb.Null {
		w.omitted++
	}
	return row, err
}

func (w *Writer) threadIfRoom(k tracedb.KindWriter, tid uint32) (int64, error) {
	if !w.threads[tid] {
		if len(w.threads) >= mostThreads {
			return tracedb.Null, nil
		}
		w.threads[tid] = true
	}
	return k.Thread(tid)
}

func (w *Writer) samples(k tracedb.KindWriter, b *Batch) error {
	for _, s := range b.Samples {
		thread, err := w.thread(k, s.TID)
		if err != nil {
			return err
		}
		if thread == tracedb.Null {
			continue
		}
		processor := int64(s.Processor)
		if s.Processor < 0 {
			processor = tracedb.Null
		}
		if err := k.Add(sampleTable, thread, int64(s.TimeNS), int64(s.Clock), int64(s.State), processor, w.id(s.Stack)); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) waits(k tracedb.KindWriter, b *Batch) error {
	for _, x := range b.Waits {
		thread, err := w.thread(k, x.TID)
		if err != nil {
			return err
		}
		if thread == tracedb.Null {
			continue
		}
		waker, err := w.threadIfRoom(k, x.WakerTID)
		if err != nil {
			return err
		}
		number, argument0, argument1 := int64(x.Syscall), int64(x.Arguments[0]), int64(x.Arguments[1])
		if x.Syscall < 0 {
			number, argument0, argument1 = tracedb.Null, tracedb.Null, tracedb.Null
		}
		if err := k.Add(waitTable, thread, int64(x.OutNS), orNull(int64(x.WokenNS)), orNull(int64(x.InNS)), int64(x.State),
			number, argument0, argument1, waker, orNull(int64(x.OtherPID)), orNull(int64(x.OtherTID)), w.id(x.Stack)); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) shorts(k tracedb.KindWriter, b *Batch) error {
	for _, s := range b.Shorts {
		thread, err := w.thread(k, s.TID)
		if err != nil {
			return err
		}
		if thread == tracedb.Null {
			continue
		}
		if err := k.Add(threadTable, thread, int64(s.Waits), int64(s.NS)); err != nil {
			return err
		}
	}
	return nil
}

// Omitted returns how many rows were left out because their threads are not known.
func (w *Writer) Omitted() uint64 { return w.omitted }

// End writes the end of the window, what is missing, and what could not be observed; detail "": nothing.
func (w *Writer) End(endedNS uint64, losses []Loss, detail string) error {
	return w.session.Rows(len(losses), func(k tracedb.KindWriter) error {
		text := int64(tracedb.Null)
		if detail != "" {
			var err error
			if text, err = k.String(detail); err != nil {
				return err
			}
		}
		for _, l := range losses {
			cause, err := k.String(l.Cause)
			if err != nil {
				return err
			}
			if err := k.Add(lossTable, cause, int64(l.Events)); err != nil {
				return err
			}
		}
		return k.Update(endTable, w.window, int64(endedNS), text)
	})
}

func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// orNull returns Null for 0, which means "not known".
func orNull(v int64) int64 {
	if v == 0 {
		return tracedb.Null
	}
	return v
}
