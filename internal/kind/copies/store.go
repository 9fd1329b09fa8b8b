package copies

import (
	"github.com/rtl-attach/rtl-attach/tracedb"
)

var table = tracedb.Table{Name: "rtl_copy", Columns: []string{
	"thread_id", "from_agent_id", "to_agent_id", "direction", "bytes", "reason_id", "submit_ns", "start_ns", "duration_ns",
}}

// Store writes copies into a session.
func Store(w tracedb.KindWriter, batch []Copy) error {
	for i := range batch {
		if err := store(w, &batch[i]); err != nil {
			return err
		}
	}
	return nil
}

func store(w tracedb.KindWriter, c *Copy) error {
	thread, err := w.Thread(c.TID)
	if err != nil {
		return err
	}
	from, err := w.Agent(c.From)
	if err != nil {
		return err
	}
	to, err := w.Agent(c.To)
	if err != nil {
		return err
	}
	var start, duration, submit int64 = tracedb.Null, tracedb.Null, tracedb.Null
	if isTimed(c) {
		start, duration = int64(c.StartNS), int64(c.EndNS-c.StartNS)
	}
	if c.SubmitNS != 0 {
		submit = int64(c.SubmitNS)
	}
	return w.Add(&table, thread, from, to, int64(c.Direction), int64(c.Bytes), int64(c.Reason), submit, start, duration)
}
