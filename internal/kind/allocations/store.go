package allocations

import (
	"math"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

var table = tracedb.Table{Name: "rtl_allocation", Columns: []string{
	"thread_id", "operation", "agent_id", "address", "bytes", "pool", "status", "start_ns", "duration_ns",
}}

// Store writes allocations and releases into a session.
func Store(w tracedb.KindWriter, batch []Allocation) error {
	for i := range batch {
		if err := store(w, &batch[i]); err != nil {
			return err
		}
	}
	return nil
}

func store(w tracedb.KindWriter, a *Allocation) error {
	thread, err := w.Thread(a.TID)
	if err != nil {
		return err
	}
	agent, err := w.Agent(a.Agent)
	if err != nil {
		return err
	}
	bytes, pool := int64(min(a.SizeBytes, math.MaxInt64)), tracedb.Null
	if Operation(a.Operation).isRelease() {
		bytes = tracedb.Null
	}
	if a.Flags&FlagAgentKnown != 0 {
		pool = int64(a.Pool)
	}
	return w.Add(&table, thread, int64(a.Operation), agent, known(a.Address), bytes, pool,
		int64(a.Status), int64(a.StartNS), int64(a.EndNS-a.StartNS))
}

// known returns an address or a handle as SQLite has it; 0 is none.
func known(address uint64) int64 {
	if address == 0 {
		return tracedb.Null
	}
	return int64(address)
}
