package collector

import (
	"maps"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// coverage keeps the account of each queue. At the close of a window the
// payload says how many dispatches it published; each must have arrived here as
// a dispatch or in an untimed run. What does not add up stays visible.
type coverage map[uint32]*account

type account struct {
	tracedb.Coverage
	open    *tracedb.Window
	crooked bool // the payload's own numbers contradict each other
}

func (cs coverage) of(queue uint32) *account {
	a := cs[queue]
	if a == nil {
		a = &account{Coverage: tracedb.Coverage{Queue: queue}}
		cs[queue] = a
	}
	return a
}

// window takes one end of a window. The sink gets whole windows.
func (c *Collector) window(w *ring.Window) error {
	kind := ring.WindowKind(w.Kind)
	if (kind != ring.WindowOpen && kind != ring.WindowClose) || !soundTime(w.TimeNS) || !soundIndex(w.Index) ||
		max(w.Dispatches, w.Others, w.After, w.Raw) > maxRun {
		c.tally.refused++
		return nil
	}
	queue := c.known(c.tables.queues.has(w.Queue), w.Queue)
	a := c.coverage.of(queue)
	if kind == ring.WindowOpen {
		if err := c.leaveOpen(a); err != nil {
			return err
		}
		a.Windows++
		a.RawBefore = w.Raw // since the session's start: the latest holds them all
		a.open = &tracedb.Window{Queue: queue, OpenNS: w.TimeNS, Index: w.Index, RawBefore: w.Raw, QueuedBefore: w.Others}
		return nil
	}
	if a.open == nil { // its opening was lost
		a.Windows++
		a.crooked = true
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
		a.crooked = true
	}
	return c.sink.Window(closed)
}

// leaveOpen gives up on a window whose close never came.
func (c *Collector) leaveOpen(a *account) error {
	if a.open == nil {
		return nil
	}
	w := *a.open
	a.open = nil
	a.WindowsOpen++
	return c.sink.Window(w)
}

// settle closes the accounts, in the order of the queues' ids.
func (c *Collector) settle() ([]tracedb.Coverage, error) {
	var out []tracedb.Coverage
	for _, queue := range slices.Sorted(maps.Keys(c.coverage)) {
		a := c.coverage[queue]
		if err := c.leaveOpen(a); err != nil {
			return nil, err
		}
		// In a window that never closed it is not known how many were published.
		if a.WindowsOpen == 0 {
			a.Unexplained = int64(a.Dispatches) - int64(a.Timed) - int64(a.Untimed)
		}
		if a.crooked {
			c.tally.crooked++
		}
		out = append(out, a.Coverage)
	}
	return out, nil
}
