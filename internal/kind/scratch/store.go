package scratch

import (
	"math"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

var (
	table = tracedb.Table{Name: "rtl_scratch", Columns: []string{
		"thread_id", "queue_address", "operation", "bytes", "slots", "dispatch", "flags", "start_ns", "end_ns",
	}}
	coverageTable = tracedb.Table{Name: "rtl_scratch_coverage", Columns: []string{"events", "buried"}}
)

// describe writes what the payload says of the runtime.
func describe(w tracedb.KindWriter, c *Coverage) error {
	return w.Add(&coverageTable, int64(c.Events), int64(c.Buried))
}

// Store writes operations into a session.
func Store(w tracedb.KindWriter, batch []Span) error {
	for i := range batch {
		if err := store(w, &batch[i]); err != nil {
			return err
		}
	}
	return nil
}

func store(w tracedb.KindWriter, o *Span) error {
	thread, err := w.Thread(o.TID)
	if err != nil {
		return err
	}
	var bytes, slots, dispatch int64 = tracedb.Null, tracedb.Null, tracedb.Null
	if o.Operation == Allocate {
		dispatch = int64(min(o.Dispatch, math.MaxInt64))
		if o.EndNS != 0 {
			bytes, slots = int64(o.Bytes), int64(o.Slots)
		}
	}
	return w.Add(&table, thread, known(o.Queue), int64(o.Operation), bytes, slots, dispatch, int64(o.Flags), known(o.StartNS), known(o.EndNS))
}

// known returns an address or a time as SQLite has it; 0 is none.
func known(n uint64) int64 {
	if n == 0 {
		return tracedb.Null
	}
	return int64(n)
}
