package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/flight"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/internal/trigger"
)

// flightFlags are the flags of a flight recorder.
type flightFlags struct {
	last, after durationFlag
	size        string
	triggers    []string
	most        uint64
}

func (f *flightFlags) addTo(flags *pflag.FlagSet) {
	f.after = durationFlag(200 * time.Millisecond)
	flags.Var(&f.last, "keep-last", "keep only the last `DURATION` in memory, and write it to a trace of its own at each trigger: --trigger, SIGUSR1, rtl-attach trigger PID")
	flags.StringVar(&f.size, "keep-size", "256MiB", "with --keep-last: memory for the kept records of all processes, of `SIZE`")
	flags.Var(&f.after, "keep-after", "with --keep-last: record for this `DURATION` after a trigger")
	flags.StringArrayVar(&f.triggers, "trigger", nil, "with --keep-last: write a trace when this `CONDITION` holds: "+trigger.Grammar+"; may be given again")
	flags.Uint64Var(&f.most, "max-triggers", 10, "with --keep-last: end after this `NUMBER` of traces")
}

// config returns the configuration of the flight recorder; nil: none is wanted.
func (f *flightFlags) config() (*flight.Config, error) {
	if f.last == 0 {
		if len(f.triggers) > 0 {
			return nil, errors.New("--trigger needs --keep-last: how much to write")
		}
		return nil, nil
	}
	c := &flight.Config{KeepLast: time.Duration(f.last), KeepAfter: time.Duration(f.after), MaxTriggers: f.most}
	switch {
	case c.KeepLast < flight.LeastKeep || c.KeepLast > flight.MostKeep:
		return nil, fmt.Errorf("--keep-last %v: from %v to %v", c.KeepLast, flight.LeastKeep, flight.MostKeep)
	case c.KeepAfter < 0 || c.KeepAfter > flight.MostAfter:
		return nil, fmt.Errorf("--keep-after %v: from 0 to %v", c.KeepAfter, flight.MostAfter)
	case f.most == 0:
		return nil, errors.New("--max-triggers 0: nothing would ever be written")
	}
	var err error
	if c.SizeBytes, err = parseSize(f.size); err != nil {
		return nil, fmt.Errorf("--keep-size: %w", err)
	}
	if c.SizeBytes < flight.LeastSize || c.SizeBytes > flight.MostSize {
		return nil, fmt.Errorf("--keep-size %s: from 1MiB to 1TiB", f.size)
	}
	for _, text := range f.triggers {
		condition, err := trigger.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--trigger %q: %w", text, err)
		}
		c.Conditions = append(c.Conditions, condition)
	}
	return c, nil
}

// nameTraces checks the name of the trace, or makes it one for each trigger of a flight recorder.
func (f *recordFlags) nameTraces(o *session.Options) error {
	if o.Flight == nil {
		return checkTraceName(f.output)
	}
	if f.append || f.force {
		return errors.New("--keep-last makes a new trace for each trigger: not with --append or --force")
	}
	if err := checkTraceName(strings.NewReplacer("%%", "%%", "%n", "1").Replace(f.output)); err != nil {
		return err
	}
	o.Output = flight.Numbered(f.output)
	return nil
}
