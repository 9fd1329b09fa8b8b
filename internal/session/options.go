package session

import (
	"strconv"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/cpusample"
	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/flight"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/schedule"
)

// Options of one recording.
type Options struct {
	preflight.Request
	Duration time.Duration // 0: until the context is done, or another tool detaches

	BufferSizeBytes  uint64 // 0: the payload's default
	WatermarkPercent uint64
	BufferPolicy     string
	MaxSizeBytes     uint64       // of the trace; 0: no limit
	Kinds            []*kind.Kind // further kinds to record
	Schedule         schedule.Schedule
	Operations       string // functions of the recorded APIs, as RTL_OPERATIONS has them; "": all but the frequent ones

	members int // of the group; 0: none

	Filter   *filter.Filter    // nil: record everything
	Threads  cpusample.Options // what is recorded of the threads beside their GPUs
	Flight   *flight.Config    // keep the last records, and write them when something triggers it; nil: write all at once
	Commands *Commands         // requests while it records; nil: none

	Extra []envbuf.Var // further settings; the last one of a name wins

	// KeepPrivileges leaves the process's user and limits as they are, for a recording in a program that does more
	// than record. Otherwise all of its threads drop root's rights while they are not needed.
	KeepPrivileges bool

	MeasureCost time.Duration // how long to measure the target's rate of packets before and after; 0: do not

	Watch *Watch // gets the trace; nil: nobody watches
}

// together returns how many processes are recorded into one trace; 0 members: this one alone.
func (o *Options) together() int { return max(1, o.members) }

func (o *Options) environment() ([]byte, error) { return envbuf.Encode(o.settings()) }

// ringBytes returns the size of the ring that the payload must make. The size in the
// control block cannot be trusted.
func (o *Options) ringBytes() (uint64, error) {
	settings, err := envbuf.Resolve(o.settings())
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(settings["RTL_BUFFER_SIZE"], 10, 64)
}

// heldBytes returns the most bytes of records that a payload with a ring of that size can
// hold, with its private buffer.
func (o *Options) heldBytes(ring uint64) uint64 {
	settings, err := envbuf.Resolve(o.settings())
	if err != nil || settings["RTL_BUFFER_POLICY"] != "lossless" {
		return ring
	}
	limit, _ := strconv.ParseUint(settings[envbuf.BufferLimit], 10, 64)
	return ring + limit
}

func (o *Options) settings() []envbuf.Var {
	var vars []envbuf.Var
	add := func(name, value string) { vars = append(vars, envbuf.Var{Name: name, Value: value}) }
	if o.BufferSizeBytes != 0 {
		add("RTL_BUFFER_SIZE", strconv.FormatUint(o.BufferSizeBytes, 10))
	}
	if o.WatermarkPercent != 0 {
		add("RTL_BUFFER_WATERMARK", strconv.FormatUint(o.WatermarkPercent, 10))
	}
	if o.BufferPolicy != "" {
		add("RTL_BUFFER_POLICY", o.BufferPolicy)
	}
	if len(o.Kinds) > 0 {
		names := make([]string, len(o.Kinds))
		for i, k := range o.Kinds {
			names[i] = k.ID.String()
		}
		add(envbuf.Trace, strings.Join(names, ","))
	}
	if o.Operations != "" {
		add(envbuf.Operations, o.Operations)
	}
	if len(o.Schedule) > 0 {
		add(envbuf.Schedule, o.Schedule.Setting())
	}
	if gpus := o.Filter.GPUs(); gpus != "" {
		add(envbuf.GPUs, gpus)
	}
	if !preflight.TSCIsClock() {
		add("RTL_STAMP", "boottime")
	}
	return append(vars, o.Extra...)
}
