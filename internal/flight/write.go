package flight

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

var errBusy = errors.New("too many requests at once")

// mostSamples is how many times the counters are kept.
const (
	mostSamples  = 128
	leastSampled = 50 * time.Millisecond
)

// sample keeps the counters, so that a trace can have those of its window.
func (r *Recorder) sample() {
	now := boottimeNS()
	step := max(uint64(r.store.keep)/(mostSamples-2), uint64(leastSampled))
	if n := len(r.counters); n > 0 && now-r.counters[n-1].ns < step {
		return
	}
	if len(r.counters) == mostSamples {
		r.counters = slices.Delete(r.counters, 0, 1)
	}
	r.counters = append(r.counters, sample{now, r.host.Counters()})
}

// counted returns the counters of the time from fromNS until now: of queues all, of other things the change.
func (r *Recorder) counted(fromNS uint64) []tracedb.Counter {
	before := map[string]uint64{}
	for _, s := range r.counters {
		if s.ns > fromNS {
			break
		}
		for _, c := range s.counters {
			before[c.Name] = c.Value
		}
	}
	now := r.host.Counters()
	for i, c := range now {
		if !strings.HasPrefix(c.Name, "queues_") {
			now[i].Value -= min(before[c.Name], c.Value)
		}
	}
	return now
}

// write cuts the window of a trigger out of the records, and writes it while the recorder goes on.
func (r *Recorder) write(p *pending) {
	fromNS := p.AtNS - min(uint64(r.config.KeepLast), p.AtNS)
	w := &writing{
		part:   part{cut: r.store.cut(fromNS), definitions: r.definitions.log},
		host:   r.host,
		names:  maps.Clone(r.names),
		markNS: r.markNS,
		endNS:  min(p.AtNS+uint64(r.config.KeepAfter), max(r.markNS, p.AtNS)),
		begun:  r.begun,
	}
	w.counters = r.counted(w.fromNS)
	trigger := tracedb.Trigger{
		Number: p.number, Expression: p.Expression, Value: p.Value, FiredNS: p.AtNS,
		FromNS: w.fromNS, LimitedBy: w.limit, Older: w.older, Ignored: p.ignored,
	}
	r.busy.Store(p)
	r.group.Add(1)
	r.host.Run(func() {
		defer r.group.Done()
		defer w.release()
		began := time.Now()
		o := Outcome{Trigger: trigger}
		o.Path, o.Records, o.Err = w.write(r, trigger)
		o.Took = time.Since(began)
		if o.Err == nil {
			r.config.files.Add(1)
		}
		r.host.Written(o)
		for _, done := range p.waiting {
			done <- o
		}
		r.config.done.Add(1)
		r.busy.Store(nil)
	})
}

// writing is a part of a session on its way into a trace.
type writing struct {
	part
	host     Host
	names    map[uint32]string
	counters []tracedb.Counter
	markNS   uint64
	endNS    uint64 // of the declared window
	begun    uint64
}

// write makes the trace. It leaves none after an error.
func (w *writing) write(r *Recorder, t tracedb.Trigger) (path string, records uint64, err error) {
	db, closed, err := w.host.Create(t.Number)
	if err != nil {
		return "", 0, err
	}
	defer closed()
	path = db.Path()
	records, err = w.fill(db, r, t)
	if err = errors.Join(err, db.Close()); err != nil {
		return "", 0, errors.Join(fmt.Errorf("%s: %w", path, err), os.Remove(path), removeIfThere(path+"-journal"))
	}
	return path, records, nil
}

func (w *writing) fill(db *tracedb.DB, r *Recorder, t tracedb.Trigger) (records uint64, err error) {
	info := w.host.Info()
	info.BegunNS, info.WindowNS = w.begun, w.fromNS
	find := info.ThreadName
	info.ThreadName = func(tid uint32) string {
		if name := w.names[tid]; name != "" {
			return name
		}
		return find(tid)
	}
	s, err := db.Begin(info)
	if err != nil {
		return 0, err
	}
	if err := s.Trigger(t); err != nil {
		return 0, err
	}
	result, err := collector.Replay(collector.Part{
		Each: w.each, Holes: w.holes(), Reason: tracedb.EndTriggered, WindowEndNS: w.endNS, UntilNS: w.markNS,
	}, s, r.kinds)
	err = errors.Join(err, s.Counters(w.counters))
	for _, p := range w.host.Pauses {
		if p.StartNS >= w.fromNS {
			err = errors.Join(err, s.Pause(p))
		}
	}
	return result.Records, err
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
