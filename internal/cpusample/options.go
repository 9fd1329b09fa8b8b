package cpusample

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LeastWait is the shortest wait that has a row of its own; shorter ones are counted by thread.
const LeastWait = 20 * time.Microsecond

// mostHZ limits the samples a second: a sample takes some 2 µs of the thread that it interrupts.
const mostHZ = 5000

// Clock is a clock of samples.
type Clock struct {
	HZ       int           // samples a second; 0: none
	Delay    time.Duration // from the begin of the recording
	Duration time.Duration // from then on; 0: to the end
}

// Options say what is recorded.
type Options struct {
	CPU        Clock // of threads that run
	Wall       Clock // of all threads
	Scheduling bool  // the waits of all threads
}

// Any reports whether anything is recorded.
func (o Options) Any() bool { return o.CPU.HZ > 0 || o.Wall.HZ > 0 || o.Scheduling }

// Sample adds the clock that text describes: CLOCK:HZ[,delay=DURATION][,duration=DURATION].
func (o *Options) Sample(text string, duration func(string) (time.Duration, error)) error {
	head, settings, _ := strings.Cut(text, ",")
	name, rate, ok := strings.Cut(head, ":")
	clock := map[string]*Clock{"cpu": &o.CPU, "wall": &o.Wall}[name]
	switch {
	case !ok:
		return errors.New("want CLOCK:HZ, such as cpu:99")
	case clock == nil:
		return fmt.Errorf("no clock %q: cpu or wall", name)
	case clock.HZ != 0:
		return fmt.Errorf("the clock %s is given twice", name)
	}
	var c Clock
	var err error
	if c.HZ, err = strconv.Atoi(rate); err != nil || c.HZ < 1 || c.HZ > mostHZ {
		return fmt.Errorf("%q samples a second: from 1 to %d", rate, mostHZ)
	}
	for settings != "" {
		var one string
		one, settings, _ = strings.Cut(settings, ",")
		if err := c.set(one, duration); err != nil {
			return err
		}
	}
	*clock = c
	return nil
}

func (c *Clock) set(setting string, duration func(string) (time.Duration, error)) error {
	name, value, _ := strings.Cut(setting, "=")
	to := map[string]*time.Duration{"delay": &c.Delay, "duration": &c.Duration}[name]
	if to == nil {
		return fmt.Errorf("no setting %q: delay=DURATION or duration=DURATION", name)
	}
	d, err := duration(value)
	if err == nil && d <= 0 {
		err = errors.New("it must be above 0")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*to = d
	return nil
}

// span returns when the clock counts, for a recording that begins at a time.
func (c Clock) span(begunNS uint64) (fromNS, untilNS uint64) {
	if c.HZ == 0 {
		return 0, 0
	}
	fromNS, untilNS = begunNS+uint64(c.Delay), ^uint64(0)
	if c.Duration > 0 {
		untilNS = fromNS + uint64(c.Duration)
	}
	return fromNS, untilNS
}
