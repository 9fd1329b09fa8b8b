package session

import (
	"fmt"
	"os"
	"sync"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/pausemeter"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// meter measures the stops of all recordings by the kernel's scheduling events. It is open
// while the tool has privileges, from the first possible stop on: a recording without stops
// does not open it. If it cannot be opened, the tool has only its own clock. A nil meter
// measures nothing.
type meter struct {
	mu   sync.Mutex
	open *pausemeter.Meter
	sums map[int]pausemeter.Sum // by process
	err  error                  // why it measures nothing any more
}

func newMeter() *meter { return &meter{sums: map[int]pausemeter.Sum{}} }

// watch starts to measure a process. The caller calls it before the first stop.
func (m *meter) watch(pid int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil && m.err == nil {
		m.open, m.err = pausemeter.Open()
	}
	if m.err == nil {
		m.err = m.open.Watch(pid)
	}
}

// seen returns the stops of a process since its last session ended.
func (m *meter) seen(pid int) (pausemeter.Sum, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drain()
	return m.sums[pid], m.err
}

// counters returns the counters of a session that ends; none: the stops are not known.
func (m *meter) counters(pid int) []tracedb.Counter {
	if m == nil {
		return nil
	}
	sum, err := m.seen(pid)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sums, pid)
	if err != nil {
		return nil
	}
	return []tracedb.Counter{
		{Name: tracedb.CounterSchedulerStops, Value: uint64(sum.Stops)},
		{Name: tracedb.CounterSchedulerTotal, Value: uint64(sum.Total)},
		{Name: tracedb.CounterSchedulerWorst, Value: uint64(sum.Worst)},
	}
}

func (m *meter) drain() {
	if m.open == nil || m.err != nil {
		return
	}
	stops, err := m.open.Take()
	m.note(stops)
	m.err = err
}

// note adds stops. It ignores stops that other processes made.
func (m *meter) note(stops []pausemeter.Stop) {
	for _, s := range stops {
		if int(s.By) == os.Getpid() {
			sum := m.sums[int(s.PID)]
			sum.Add(s.Duration)
			m.sums[int(s.PID)] = sum
		}
	}
}

// close closes the meter, and keeps the sums.
func (m *meter) close() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drain()
	if m.open != nil {
		m.open.Close()
		m.open = nil
	}
}

// measurePauses returns the stops of the attach by the kernel's clock or, if not known, by
// the tool's own clock (own). It prints both and the difference: the time in which threads
// waited for a processor before they could stop.
func (r *recording) measurePauses(own pausemeter.Sum) pausemeter.Sum {
	if r.meter == nil || own.Stops == 0 {
		return own
	}
	seen, err := r.meter.seen(r.o.PID)
	if err != nil {
		r.ui.Debug(fmt.Sprintf("pauses: %v (tool's clock; the kernel's is not known: %s)", own, failure.FirstLine(err)))
		return own
	}
	r.ui.Debug(fmt.Sprintf("pauses: %v (kernel's clock); until they stopped, waiting for a processor: %s; %v (tool's clock)",
		seen, humanize.Duration(max(own.Total-seen.Total, 0)), own))
	return seen
}
