package markers

import (
	"github.com/rtl-attach/rtl-attach/tracedb"
)

var (
	table = tracedb.Table{Name: "rtl_marker", Columns: []string{
		"form", "thread_id", "end_thread_id", "level", "name_id", "number", "missing", "start_ns", "end_ns",
	}}
	libraryTable = tracedb.Table{Name: "rtl_marker_library", Columns: []string{"library", "way"}}
)

// describe writes how the markers of each library come.
func describe(w tracedb.KindWriter, l Libraries) error {
	for i, way := range []Way{l.ROCTx64, l.SDK} {
		if err := w.Add(&libraryTable, int64(i), int64(way)); err != nil {
			return err
		}
	}
	return nil
}

// Store writes markers into a session.
func Store(w tracedb.KindWriter, batch []Marker) error {
	for i := range batch {
		if err := store(w, &batch[i]); err != nil {
			return err
		}
	}
	return nil
}

func store(w tracedb.KindWriter, m *Marker) error {
	thread, err := w.Thread(m.TID)
	if err != nil {
		return err
	}
	end, err := w.Thread(m.EndTID)
	if err != nil {
		return err
	}
	var name, level, number int64 = tracedb.Null, tracedb.Null, tracedb.Null
	if m.HasText {
		if name, err = w.String(m.Text); err != nil {
			return err
		}
	}
	if m.Level != NoLevel {
		level = m.Level
	}
	if m.Form == ProcessRange {
		number = int64(m.Number)
	}
	return w.Add(&table, int64(m.Form), thread, end, level, name, number, int64(m.Missing), known(m.StartNS), known(m.EndNS))
}

func known(ns uint64) int64 {
	if ns == 0 {
		return tracedb.Null
	}
	return int64(ns)
}
