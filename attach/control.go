package attach

import (
	"context"
	"path/filepath"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/flight"
	"github.com/rtl-attach/rtl-attach/internal/schedule"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/internal/trigger"
)

// Keep makes a recording a flight recorder: it keeps the last records in memory, and writes them into a trace of their own
// at each trigger (Session.Trigger, or a condition). The zero value is none.
type Keep struct {
	Last     time.Duration // how much before a trigger, from 100 ms to 24 h; 0: no flight recorder
	After    time.Duration // how much behind it, up to a minute
	Bytes    uint64        // of memory for the records of all processes, at least 1 MiB; 0: 256 MiB
	Triggers []string      // conditions, such as "gap>50ms", as the flag --trigger has them
	Most     uint64        // the recording ends after so many traces; 0: 10
}

const (
	defaultKeepBytes    = 256 << 20
	defaultKeepTriggers = 10
)

// config returns the engine's form; nil: no flight recorder.
func (k Keep) config() (*flight.Config, error) {
	if k.Last == 0 {
		if len(k.Triggers) > 0 {
			return nil, usage("triggers need a flight recorder: Keep.Last")
		}
		return nil, nil
	}
	c := &flight.Config{KeepLast: k.Last, KeepAfter: k.After, SizeBytes: k.Bytes, MaxTriggers: k.Most}
	if c.SizeBytes == 0 {
		c.SizeBytes = defaultKeepBytes
	}
	if c.MaxTriggers == 0 {
		c.MaxTriggers = defaultKeepTriggers
	}
	switch {
	case c.KeepLast < flight.LeastKeep || c.KeepLast > flight.MostKeep:
		return nil, usage("keep %s: from %s to %s", c.KeepLast, flight.LeastKeep, flight.MostKeep)
	case c.KeepAfter < 0 || c.KeepAfter > flight.MostAfter:
		return nil, usage("keep %s after a trigger: from 0 to %s", c.KeepAfter, flight.MostAfter)
	case c.SizeBytes < flight.LeastSize || c.SizeBytes > flight.MostSize:
		return nil, usage("keep %d bytes: from %d to %d", c.SizeBytes, uint64(flight.LeastSize), uint64(flight.MostSize))
	}
	for _, text := range k.Triggers {
		condition, err := trigger.Parse(text)
		if err != nil {
			return nil, usage("trigger %q: %v", text, err)
		}
		c.Conditions = append(c.Conditions, condition)
	}
	return c, nil
}

// control adds what commands a recording: its schedule, or its flight recorder.
func (o Options) control(e *session.Options) (err error) {
	if o.Schedule != "" {
		if e.Schedule, err = schedule.Parse(o.Schedule, time.ParseDuration); err != nil {
			return usage("schedule: %v", err)
		}
	} else if o.Switchable {
		e.Schedule = schedule.Switchable()
	}
	if e.Flight, err = o.Keep.config(); err != nil {
		return err
	}
	switch {
	case e.Flight != nil && len(e.Schedule) > 0:
		return usage("a flight recorder keeps all the time: without a schedule, and not switchable")
	case e.Flight != nil && (o.Append || o.Force):
		return usage("a flight recorder makes a new trace for each trigger: without append and force")
	case e.Threads.Any() && o.Schedule != "":
		return usage("samples and waits of threads are observed from the attach to the end: without a schedule")
	case e.Flight != nil:
		e.Output = flight.Numbered(e.Output)
	}
	return nil
}

// Trigger makes a flight recorder (Options.Keep) write its trace, and returns the trace's path when it is complete.
func (s *Session) Trigger(ctx context.Context) (path string, err error) {
	written, err := s.commands.Trigger(ctx, "Session.Trigger")
	if err != nil {
		return "", err
	}
	return filepath.Abs(written.Path)
}

// Disable ends the window, and lets no other begin before Enable. It returns when nothing of the runtime is redirected
// any more: the processes run as if nothing was attached to them. It needs Options.Switchable or Options.Schedule.
func (s *Session) Disable(ctx context.Context) error { return s.commands.Switch(ctx, false) }

// Enable begins the next window, or lets the schedule go on, and returns when that is done.
func (s *Session) Enable(ctx context.Context) error { return s.commands.Switch(ctx, true) }
