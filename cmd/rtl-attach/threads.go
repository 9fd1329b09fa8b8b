package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/cpusample"
)

// threadFlags are the flags that say what to record of the threads beside their GPUs.
type threadFlags struct {
	samples []string
	sched   bool
}

func (f *threadFlags) addTo(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.samples, "sample", nil, "record stacks of threads, `CLOCK:HZ[,delay=DURATION][,duration=DURATION]`: cpu (threads that run) or wall (all threads), so often a second; may be given once for each clock")
	flags.BoolVar(&f.sched, "sched", false, "record when threads wait, in which system call, and who wakes them")
}

// chosen returns what is recorded of the threads.
func (f *threadFlags) chosen() (cpusample.Options, error) {
	o := cpusample.Options{Scheduling: f.sched}
	for _, text := range f.samples {
		if err := o.Sample(text, parseDuration); err != nil {
			return o, fmt.Errorf("--sample %s: %w", text, err)
		}
	}
	return o, nil
}
