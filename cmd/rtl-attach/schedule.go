package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/schedule"
)

// scheduleFlags are the flags that say when to record.
type scheduleFlags struct {
	delay    durationFlag
	periods  string
	unit     string
	schedule string
}

func (f *scheduleFlags) addTo(flags *pflag.FlagSet) {
	flags.Var(&f.delay, "delay", "attach, and begin to record `DURATION` later; --duration counts from then on")
	flags.StringVarP(&f.periods, "collection-period", "P", "", "record in windows, `START:ON:REPEAT[,...]`: wait for START, record for ON, and both REPEAT times, 0: until the end; then the next part")
	takesSeveralWords(flags.Lookup("collection-period"))
	flags.StringVar(&f.unit, "collection-period-unit", "sec", "`UNIT` of START and ON: "+strings.Join(schedule.Units, ", "))
	flags.StringVar(&f.schedule, "schedule", "", "the same by a clock, `CLOCK:DELAY:ON:REPEAT[,...]`, with durations: boottime, realtime, monotonic, or cputime (of the process)")
}

// chosen returns the schedule; none: record from the attach on.
func (f *scheduleFlags) chosen() (schedule.Schedule, error) {
	given := 0
	for _, is := range []bool{f.delay != 0, f.periods != "", f.schedule != ""} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, errors.New("--delay, --collection-period or --schedule, only one of them")
	case f.unit != "sec" && f.periods == "":
		return nil, errors.New("--collection-period-unit needs --collection-period")
	case f.periods != "":
		s, err := schedule.ParsePeriods(f.periods, f.unit)
		return s, explain("--collection-period", err)
	case f.schedule != "":
		s, err := schedule.Parse(f.schedule, parseDuration)
		return s, explain("--schedule", err)
	}
	s, err := schedule.Delayed(time.Duration(f.delay))
	return s, explain("--delay", err)
}

func explain(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", flag, err)
}
