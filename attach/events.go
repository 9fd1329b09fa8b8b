package attach

import (
	"cmp"
	"context"
	"iter"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Kernel is the Event.Kind of kernels. Further kinds have the names of Options.Kinds.
const Kernel = "kernel"

// Event is an item of a trace with its times: a kernel that ran, a copy, a call, a marker and so on.
type Event struct {
	Kind           string // Kernel, or a name of Options.Kinds
	Name           string // of the kernel (demangled), the function, the copy's direction; the target has chosen it: make it safe before you print it
	StartNS, EndNS int64  // CLOCK_BOOTTIME
	PID            int64
	TID            int64 // of the submitting or calling thread; 0: not known
	GPU            int64 // its number in the trace; -1: it is of no GPU
}

// Events iterates over the events of a complete trace, of all kinds, in the order of their starts:
//
//	for event, err := range result.Events(ctx) {
//		if err != nil {
//			return err
//		}
//		…
//	}
//
// An error is the last thing that it yields. Kernels without times, and those that a filter has left out, are no events.
// SQLite sorts the kernels, in temporary files if they are many; no more than one event of each kind is in memory.
func (r Result) Events(ctx context.Context) iter.Seq2[Event, error] {
	if r.Path == "" {
		return func(yield func(Event, error) bool) { yield(Event{}, errNoTrace) }
	}
	return Events(ctx, r.Path)
}

// Events iterates over the events of the complete trace at path, as Result.Events does.
func Events(ctx context.Context, path string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		tr, err := traceread.Open(ctx, path)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer tr.Close()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		sources := []source{kernels(ctx, tr)}
		for _, k := range all.Kinds {
			if k.Export.Events == nil {
				continue
			}
			is, err := k.IsIn(tr)
			if err != nil {
				yield(Event{}, err)
				return
			}
			if is {
				sources = append(sources, eventsOf(ctx, tr, k))
			}
		}
		merge(sources, yield)
	}
}

// source yields events in the order of their starts.
type source = iter.Seq2[Event, error]

// errStop ends a reading: the consumer wants no more.
var errStop = context.Canceled

// pushed makes a source of a function that visits events.
func pushed(read func(visit func(Event) error) error) source {
	return func(yield func(Event, error) bool) {
		stopped := false
		err := read(func(e Event) error {
			if stopped = !yield(e, nil); stopped {
				return errStop
			}
			return nil
		})
		if err != nil && !stopped {
			yield(Event{}, err)
		}
	}
}

// kernels yields the kernels with times.
func kernels(ctx context.Context, tr *traceread.Trace) source {
	return pushed(func(visit func(Event) error) error {
		return tr.Each(ctx, func(r traceread.Row) error {
			e := Event{Kind: Kernel}
			var durationNS int64
			if err := r.Scan(&e.Name, &e.GPU, &e.PID, &e.TID, &e.StartNS, &durationNS); err != nil {
				return err
			}
			if !traceread.Possible(e.StartNS, durationNS) {
				return nil
			}
			e.Name, e.EndNS = traceread.Cut(e.Name, traceread.LongestName), e.StartNS+durationNS
			return visit(e)
		}, `SELECT coalesce(name, ''), coalesce(gpu, -1), coalesce(pid, 0), coalesce(thread, 0), start_ns, duration_ns
			FROM kernel ORDER BY start_ns, id`)
	})
}

// eventsOf yields the events of a further kind.
func eventsOf(ctx context.Context, tr *traceread.Trace, k *kind.Kind) source {
	return pushed(func(visit func(Event) error) error {
		_, err := k.Export.Events(ctx, tr, func(one *kind.Event) error {
			e := Event{Kind: kindName(k), Name: one.Name, StartNS: one.StartNS, EndNS: one.EndNS, TID: one.TID, GPU: -1}
			e.PID = one.Track.Session.Process.ID.PID
			if one.Track.GPU != nil {
				e.GPU = one.Track.GPU.GPU
			}
			return visit(e)
		})
		return err
	})
}

// head is the next event of a source.
type head struct {
	Event
	next func() (Event, error, bool)
}

// merge yields the events of all sources in the order of their starts, until an error.
func merge(sources []source, yield func(Event, error) bool) {
	var heads []head
	for _, s := range sources {
		next, stop := iter.Pull2(s)
		defer stop()
		e, err, has := next()
		if err != nil {
			yield(Event{}, err)
			return
		}
		if has {
			heads = append(heads, head{e, next})
		}
	}
	for len(heads) > 0 {
		first := 0
		for i := range heads {
			if cmp.Less(heads[i].StartNS, heads[first].StartNS) {
				first = i
			}
		}
		h := &heads[first]
		if !yield(h.Event, nil) {
			return
		}
		e, err, has := h.next()
		switch {
		case err != nil:
			yield(Event{}, err)
			return
		case has:
			h.Event = e
		default:
			heads = append(heads[:first], heads[first+1:]...)
		}
	}
}
