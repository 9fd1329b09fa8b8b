// Package schedule has the schedules of a recording: when its windows begin and end.
package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// Rule is one part of a schedule: wait for Delay, record for On, both Repeat times.
type Rule struct {
	Clock  ring.Clock
	Delay  time.Duration
	On     time.Duration // 0: until the end of the recording
	Repeat uint64        // 0: until the end of the recording
}

// Schedule is a list of rules that follow each other. An empty one records from the attach on.
type Schedule []Rule

// Limits of a schedule; the payload has the same.
const (
	MostRules = 16
	LeastOn   = time.Millisecond
	mostTime  = 365 * 24 * time.Hour
	most      = 1 << 32 // repetitions
)

// clocks are the names of the clocks, for users and for the payload.
var clocks = [ring.Clocks]string{"boottime", "realtime", "monotonic", "cputime"}

// ClockName returns the name of a clock.
func ClockName(c ring.Clock) string {
	if c < ring.Clocks {
		return clocks[c]
	}
	return fmt.Sprintf("clock %d", c)
}

// Setting returns the schedule as RTL_SCHEDULE has it.
func (s Schedule) Setting() string {
	rules := make([]string, len(s))
	for i, r := range s {
		rules[i] = fmt.Sprintf("%s:%d:%d:%d", ClockName(r.Clock), r.Delay.Nanoseconds(), r.On.Nanoseconds(), r.Repeat)
	}
	return strings.Join(rules, ",")
}

// FirstDelay returns when the first window begins, after the begin of the schedule; 0 if its clock
// is the process's CPU time, which says nothing about that.
func (s Schedule) FirstDelay() time.Duration {
	if len(s) == 0 || s[0].Clock == ring.ClockCPUTime {
		return 0
	}
	return s[0].Delay
}

// IsOfProcess reports whether a rule follows a clock that each process has of its own.
func (s Schedule) IsOfProcess() bool {
	return slices.ContainsFunc(s, func(r Rule) bool { return r.Clock == ring.ClockCPUTime })
}

// Delayed returns the schedule that records from the given time after the attach on.
func Delayed(delay time.Duration) (Schedule, error) {
	if delay < 0 || delay > mostTime {
		return nil, fmt.Errorf("%s: from 0 to a year", delay)
	}
	if delay == 0 {
		return nil, nil
	}
	return Schedule{{Clock: ring.ClockBoottime, Delay: delay, Repeat: 1}}, nil
}

// Switchable returns the schedule that records from the attach on, and can be switched by commands.
func Switchable() Schedule { return Schedule{{Clock: ring.ClockBoottime, Repeat: 1}} }

// Units are the units of a collection period, as rocprofv3 names them.
var Units = []string{"hour", "min", "sec", "msec", "usec", "nsec"}

var unitTimes = []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond, time.Microsecond, time.Nanosecond}

// ParsePeriods parses rocprofv3's START:ON:REPEAT, several with commas or blanks between them.
func ParsePeriods(text, unit string) (Schedule, error) {
	at := slices.Index(Units, unit)
	if at < 0 {
		return nil, fmt.Errorf("unit %q: one of %s", unit, strings.Join(Units, ", "))
	}
	inUnit := func(s string) (time.Duration, error) {
		n, err := strconv.ParseFloat(s, 64)
		if ns := n * float64(unitTimes[at]); err == nil && ns >= 0 && ns <= float64(mostTime) {
			return time.Duration(ns), nil
		}
		return 0, fmt.Errorf("%q is not a number of %s from 0 to a year", s, unit)
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }), ",")
	return parse(text, "START:ON:REPEAT", func(fields []string) (Rule, error) {
		return parseRule(ring.ClockBoottime, fields, inUnit)
	})
}

// Parse parses CLOCK:DELAY:ON:REPEAT[,...]; duration parses DELAY and ON.
func Parse(text string, duration func(string) (time.Duration, error)) (Schedule, error) {
	return parse(text, "CLOCK:DELAY:ON:REPEAT", func(fields []string) (Rule, error) {
		clock := slices.Index(clocks[:], fields[0])
		if clock < 0 {
			return Rule{}, fmt.Errorf("clock %q: one of %s", fields[0], strings.Join(clocks[:], ", "))
		}
		return parseRule(ring.Clock(clock), fields[1:], duration)
	})
}

func parse(text, form string, rule func(fields []string) (Rule, error)) (Schedule, error) {
	var s Schedule
	for one := range strings.SplitSeq(text, ",") {
		fields := strings.Split(one, ":")
		if len(fields) != strings.Count(form, ":")+1 {
			return nil, fmt.Errorf("%q is not of the form %s", one, form)
		}
		r, err := rule(fields)
		if err != nil {
			return nil, err
		}
		s = append(s, r)
	}
	return s, s.check()
}

func parseRule(clock ring.Clock, fields []string, duration func(string) (time.Duration, error)) (r Rule, err error) {
	r.Clock = clock
	if r.Delay, err = duration(fields[0]); err != nil {
		return r, err
	}
	if r.On, err = duration(fields[1]); err != nil {
		return r, err
	}
	if r.Repeat, err = strconv.ParseUint(fields[2], 10, 64); err != nil || r.Repeat > most {
		return r, fmt.Errorf("%q is not a number of repetitions; 0: until the end", fields[2])
	}
	return r, nil
}

func (s Schedule) check() error {
	if len(s) > MostRules {
		return fmt.Errorf("%d parts: at most %d", len(s), MostRules)
	}
	for i, r := range s {
		switch {
		case r.Delay < 0 || r.Delay > mostTime || r.On > mostTime:
			return errors.New("times from 0 to a year")
		case r.On < LeastOn:
			return fmt.Errorf("a window of %s: at least %s", r.On, LeastOn)
		case r.Repeat == 0 && i < len(s)-1:
			return errors.New("a part that repeats until the end must be the last one")
		}
	}
	return nil
}
