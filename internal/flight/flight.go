// Package flight keeps the last records of a session, in bounded memory, and writes them to a trace of
// their own when something triggers it. The records are kept as they came out of the ring, and a trigger
// passes them through a collector of their own: the trace is written by the same code as any other.
package flight

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/trigger"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Config is what a flight recorder keeps and when it writes. The recordings of one command share it.
type Config struct {
	KeepLast    time.Duration // before a trigger
	KeepAfter   time.Duration // behind it
	SizeBytes   uint64        // of the kept records of all processes; while a trace is written, twice as much
	Conditions  []trigger.Condition
	MaxTriggers uint64

	written atomic.Uint64 // triggers with a trace, or with one that failed
	files   atomic.Uint64
	done    atomic.Uint64
}

// Limits of a configuration.
const (
	LeastKeep = 100 * time.Millisecond
	MostKeep  = 24 * time.Hour
	LeastSize = 1 << 20
	MostSize  = 1 << 40
	MostAfter = time.Minute
)

// IsSpent reports whether no further trigger may write a trace.
func (c *Config) IsSpent() bool { return c.written.Load() >= c.MaxTriggers }

// IsDone reports whether all triggers have written their traces.
func (c *Config) IsDone() bool { return c.done.Load() >= c.MaxTriggers }

// Triggers returns how many triggers have fired.
func (c *Config) Triggers() uint64 { return c.written.Load() }

// Files returns how many traces were written.
func (c *Config) Files() uint64 { return c.files.Load() }

// Errors of requests for a trace.
var (
	ErrSpent = errors.New("as many triggers as --max-triggers allows have written their traces")
	ErrEnded = errors.New("the session has ended")
)

// Outcome is the outcome of a trigger.
type Outcome struct {
	tracedb.Trigger
	Path    string
	Records uint64
	Took    time.Duration // from the end of its window to the complete file
	Late    []int         // processes whose records did not come in time: the trace is without them
	Err     error
}

// Host is the recording to which a flight recorder belongs. Several goroutines call its functions.
type Host struct {
	PID      int
	Info     func() tracedb.SessionInfo // of the session
	Counters func() []tracedb.Counter   // of the payload, now
	Idle     func() bool                // no kernel runs, or waits to run
	Pauses   []tracedb.Pause            // of the target, before the session
	Joined   bool                       // other processes were recorded before: a trace goes back to before this one was
}

// GroupHost is the command to which the flight recorders of a group belong. Several goroutines call its functions.
type GroupHost struct {
	Create  func(number uint64) (*tracedb.DB, func(), error) // a trace; the function is called when it is closed
	Targets func(State) []tracedb.Target                     // of several processes; nil: there is one
	Joining bool                                             // processes join while others are recorded: a trace goes back to before they did
	Run     func(work func())                                // runs work with low priority, and does not wait for it
	Written func(Outcome)                                    // a trigger has written its trace, or failed
	Filter  *filter.Filter                                   // of the traces; nil: they have all kernels
	Filters []tracedb.FilterSetting                          // its settings
}

// State is what a group knows of its processes, by pid, when it writes a trace.
type State struct {
	Gone    map[int]string // that have ended, and how
	Late    map[int]bool   // whose records did not come in time: the trace is without them
	InTrace map[int]bool   // that have a session in the trace
}
