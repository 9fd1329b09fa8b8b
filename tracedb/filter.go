package tracedb

import (
	_ "embed"
)

//go:embed filter.sql
var filterSchema string

// FilterSetting is a filter of a recording: its flag's name and value.
type FilterSetting struct{ Name, Value string }

// Filtered is a time in which filtered kernels of a queue ran, without a pause.
type Filtered struct {
	Queue     uint32
	Index     uint64 // of the kernel that started first
	LastIndex uint64 // the highest
	StartNS   uint64
	EndNS     uint64
	SubmitNS  uint64 // of the first
	Kernels   uint64
}

// FilteredKernel is how often a filtered kernel ran, so far.
type FilteredKernel struct {
	Symbol  string // as in the code object; empty: unresolved
	Kernels uint64
	TotalNS uint64
}

// Filters writes the filters of the session.
func (s *Session) Filters(settings []FilterSetting) error {
	return s.add(func() error {
		for _, f := range settings {
			if err := s.db.exec("INSERT INTO rtl_filter VALUES(?,?,?)", s.id, f.Name, f.Value); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Session) filtered(f *Filtered) error {
	queue, err := s.queue(f.Queue)
	if err != nil {
		return err
	}
	queuedNS := null
	if f.SubmitNS != 0 {
		queuedNS = int64(f.StartNS - f.SubmitNS)
	}
	full := s.db.filtered.add(queue, int64(f.Index), int64(f.LastIndex-f.Index), int64(f.StartNS), int64(f.EndNS-f.StartNS), queuedNS, int64(f.Kernels))
	if full {
		return s.db.filtered.flush()
	}
	return nil
}

// filteredKernel adds to the count of a kernel.
func (s *Session) filteredKernel(k FilteredKernel) error {
	name, err := s.db.kernelName(k.Symbol)
	if err != nil {
		return err
	}
	return s.db.exec(`INSERT INTO rtl_filtered_kernel VALUES(?1,?2,?3,?4)
		ON CONFLICT(session_id, name_id) DO UPDATE SET kernels = kernels + ?3, total_ns = total_ns + ?4`,
		s.id, name, int64(k.Kernels), int64(k.TotalNS))
}
