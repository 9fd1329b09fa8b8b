package session

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// Options of one recording.
type Options struct {
	PID      int
	Duration time.Duration // 0: until the context is done, or another tool says detach
	Output   string        // may hold %p (pid), %h (host), %t (time)
	Append   bool          // a trace that is there gets a further session
	Force    bool          // a file that is there is replaced by the trace, once that is complete

	BufferSizeBytes  uint64 // 0: the payload's default
	WatermarkPercent uint64
	BufferPolicy     string
	MaxSizeBytes     uint64 // of the trace; 0: no limit
	MemoryCopies     bool   // recorded, too

	Library []byte       // the payload; nil: the one that is built in
	Extra   []envbuf.Var // further settings; the last one of a name wins
	Version string       // of this tool
}

// DefaultOutput is where a trace goes unless told otherwise.
const DefaultOutput = "trace-%p-%t.db"

func (o *Options) environment() ([]byte, error) { return envbuf.Encode(o.settings()) }

// ringBytes is the size of the ring that the payload is told to make: what the
// control block says later may be anything.
func (o *Options) ringBytes() (uint64, error) {
	settings, err := envbuf.Resolve(o.settings())
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(settings["RTL_BUFFER_SIZE"], 10, 64)
}

// heldBytes is what a payload with a ring of that size holds at most, its private
// buffer included.
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
	if o.MemoryCopies {
		add(envbuf.Trace, ring.KindMemoryCopy.String())
	}
	if !tscIsClock() {
		add("RTL_STAMP", "boottime")
	}
	return append(vars, o.Extra...)
}

// tscIsClock says whether the time-stamp counters of all CPUs agree: the
// kernel then uses them itself, or its hypervisor does.
func tscIsClock() bool {
	b, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	switch strings.TrimSpace(string(b)) {
	case "tsc", "kvm-clock", "hyperv_clocksource_tsc_page":
		return err == nil
	}
	return false
}

// placeholders are what stands behind a % in a template of a trace's name.
const placeholders = "pht%"

// UnknownPlaceholder returns the first placeholder of a template that has no meaning,
// such as %q, or a % at its end; "": it has none.
func UnknownPlaceholder(template string) string {
	for {
		_, rest, found := strings.Cut(template, "%")
		if !found {
			return ""
		}
		name, size := utf8.DecodeRuneInString(rest)
		if size == 0 || !strings.ContainsRune(placeholders, name) {
			return "%" + rest[:size]
		}
		template = rest[size:]
	}
}

// outputPath fills the template in.
func outputPath(template string, pid int, now time.Time) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("host name: %w", err)
	}
	return strings.NewReplacer(
		"%%", "%",
		"%p", strconv.Itoa(pid),
		"%h", strings.ReplaceAll(host, "/", "_"),
		"%t", now.Format("20060102-150405"),
	).Replace(template), nil
}
