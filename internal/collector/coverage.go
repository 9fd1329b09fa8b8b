package collector

import (
	"maps"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// coverage keeps the account of each queue. When a window closes, the payload reports how
// many dispatches it published; each must have arrived as a dispatch or in an untimed run.
// The account shows every difference.
type coverage map[uint32]*account

type account struct {
	tracedb.Coverage
	open         *tracedb.Window
	inconsistent bool // the payload's own numbers contradict each other
	changed      bool // since the last mark
}

func (cs coverage) of(queue uint32) *account {
	a := cs[queue]
	if a == nil {
		a = &account{Coverage: tracedb.Coverage{Queue: queue}}
		cs[queue] = a
	}
	return a
}

// window processes the opening or the close of a window. The sink gets each window twice:
// when it opens, and when it closes.
func (c *Collector) window(w *ring.Window) error {
	end := ring.WindowKind(w.Kind)
	if (end != ring.WindowOpen && end != ring.WindowClose) || !kind.SoundTime(w.TimeNS) || !soundIndex(w.Index) ||
		max(w.Dispatches, w.Others, w.After, w.Raw) > kind.MostCount {
		c.tally.refused++
		return nil
	}
	queue := c.known(c.tables.queues.has(w.Queue), w.Queue)
	a := c.coverage.of(queue)
	a.changed = true
	if end == ring.WindowOpen {
		a.leaveOpen()
		a.Windows++
		a.RawBefore = w.Raw // cumulative since the session's start
		a.open = &tracedb.Window{Queue: queue, OpenNS: w.TimeNS, Index: w.Index, RawBefore: w.Raw, QueuedBefore: w.Others}
		return c.sink.Window(*a.open)
	}
	if a.open == nil { // its opening was lost
		a.Windows++
		a.inconsistent = true
		a.open = &tracedb.Window{Queue: queue, OpenNS: w.TimeNS, Index: w.Index}
	}
	closed := *a.open
	a.open = nil
	closed.Closed = true
	closed.CloseNS, closed.EndIndex = w.TimeNS, w.Index
	closed.Dispatches, closed.Others, closed.After = w.Dispatches, w.Others, w.After
	a.Dispatches += w.Dispatches
	a.Others += w.Others
	a.After += w.After
	a.RawBefore = max(a.RawBefore, w.Raw)
	if w.Index-closed.Index != w.Dispatches+w.Others+w.After {
		a.inconsistent = true
	}
	return c.sink.Window(closed)
}

// leaveOpen counts a window whose close never arrived.
func (a *account) leaveOpen() {
	if a.open != nil {
		a.open = nil
		a.WindowsOpen++
	}
}

// soFar returns the accounts that have changed since its last call. It counts an open
// window as one that never closes.
func (cs coverage) soFar() (out []tracedb.Coverage) {
	for _, a := range cs {
		if !a.changed {
			continue
		}
		a.changed = false
		one := a.Coverage
		if a.open != nil {
			one.WindowsOpen++
		}
		out = append(out, one)
	}
	return out
}

// settle closes the accounts, in the order of the queues' ids.
func (c *Collector) settle() []tracedb.Coverage {
	var out []tracedb.Coverage
	for _, queue := range slices.Sorted(maps.Keys(c.coverage)) {
		a := c.coverage[queue]
		a.leaveOpen()
		// For a window that never closed, the number of published dispatches is unknown.
		if a.WindowsOpen == 0 {
			a.Unexplained = int64(a.Dispatches) - int64(a.Timed) - int64(a.Untimed) - int64(a.Filtered)
		}
		if a.inconsistent {
			c.tally.inconsistent++
		}
		out = append(out, a.Coverage)
	}
	return out
}
