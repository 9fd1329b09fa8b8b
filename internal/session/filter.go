package session

import (
	"sync"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// filterSettings returns the settings of a filter for the trace.
func filterSettings(f *filter.Filter) (all []tracedb.FilterSetting) {
	for _, s := range f.Settings() {
		all = append(all, tracedb.FilterSetting{Name: s.Name, Value: s.Value})
	}
	return all
}

// filterFrom returns a function that returns the begin of the declared window, from which on a
// filter counts the dispatches of each kernel; 0: it has not begun.
func (r *recording) filterFrom(armedNS uint64) func() uint64 {
	if r.declared.begun == nil {
		return func() uint64 { return armedNS }
	}
	return func() uint64 {
		if at := r.declared.begun(); at != 0 {
			return max(at, armedNS)
		}
		return 0
	}
}

// beginning is the begin of a window that several goroutines ask for.
type beginning struct {
	mu sync.Mutex
	ns uint64 // 0: not yet
}

// set begins the window now. It holds the lock while it reads the clock: a kernel that starts
// in the window is never examined before the begin is known.
func (b *beginning) set() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ns = boottimeNS()
	return b.ns
}

func (b *beginning) get() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ns
}
