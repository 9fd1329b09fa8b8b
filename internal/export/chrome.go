package export

import (
	"errors"
	"fmt"
	"math"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// chrome writes the Trace Event Format. Times are microseconds with three decimals since
// base, the begin of the first declared window, as in a report: readers hold times in 53
// bits, which BOOTTIME in ns can exceed.
type chrome struct {
	*export
	base   int64 // ns
	line   jsonLine
	begun  bool
	names  *escaped
	pids   map[*traceread.Process]int64
	owners map[int64]*traceread.Process
	rows   map[chromeRow]int64
	kinds  map[string]int64 // of tracks, in the order in which they come
}

func writeChrome(e *export) error {
	c := &chrome{
		export: e, names: newEscaped(appendJSON),
		pids: map[*traceread.Process]int64{}, owners: map[int64]*traceread.Process{}, rows: map[chromeRow]int64{},
		kinds: map[string]int64{},
	}
	for _, step := range []func() error{c.head, c.together, c.threads, c.coverage, c.filteredKernels, c.pauses, c.kernels, c.others, c.counters, c.states, c.tail} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *chrome) head() error {
	l := append(jsonLine(nil), '{').text("displayTimeUnit", "ns")
	l = append(l.key("otherData"), '{').text("clock", "CLOCK_BOOTTIME")
	c.base = c.trace.ZeroNS()
	l = l.text("base_ns", fmt.Sprint(c.base)).text("note", "where nothing was recorded, nothing is known: see the rows named coverage")
	l = append(l.key("coverage"), '[')
	for i, s := range c.trace.sessions {
		if i > 0 {
			l = append(l, ',')
		}
		l = append(append(l, '{').int("index", int64(i)).coverage("coverage", *c.trace.coverage[s]), '}')
	}
	l = append(l, "]},\n"...)
	_, err := c.w.Write(append(l, `"traceEvents":[`...))
	return err
}

// together shows the common window of several processes, and at its begin the outcomes of
// processes that were not recorded to its end. It shows them as process 0, a pid that no
// process has.
func (c *chrome) together() error {
	const pid, windows, outcomes = 0, firstRow - 2, firstRow - 1
	together := togetherOf(c.trace)
	if len(together.windows) == 0 {
		return nil
	}
	err := errors.Join(c.name("process", pid, 0, "processes recorded together", 0),
		c.name("thread", pid, windows, "common window", 0), c.name("thread", pid, outcomes, "not recorded to its end", 1))
	if err != nil {
		return err
	}
	return together.each(func(w traceread.Span) error {
		return c.slice(pid, windows, w.BeginNS, w.EndNS, commonWindow)
	}, func(atNS int64, outcome string) error {
		return c.slice(pid, outcomes, atNS, atNS, outcome)
	})
}

func (c *chrome) tail() error {
	_, err := c.w.Write([]byte("\n]}\n"))
	return err
}

// event begins an event in c.line.
func (c *chrome) event(phase string, pid, tid, atNS int64) jsonLine {
	l := append(c.line[:0], '{').text("ph", phase).int("pid", pid).int("tid", tid)
	if phase != "M" {
		l = l.micros("ts", atNS-c.base)
	}
	return l
}

// write ends an event and writes it.
func (c *chrome) write(l jsonLine) error {
	c.line = append(l, '}')
	separator := ",\n"
	if !c.begun {
		separator, c.begun = "\n", true
	}
	if _, err := c.w.Write([]byte(separator)); err != nil {
		return err
	}
	_, err := c.w.Write(c.line)
	return err
}

// offTimes shows the times between the windows of a schedule: they are not idle times.
func (c *chrome) offTimes() error {
	return c.trace.eachOff(func(s *traceread.Session, one traceread.Span) error {
		pid, tid, err := c.row(s, "schedule", 0, 0, "recording by schedule", ofLosses)
		if err != nil {
			return err
		}
		return c.slice(pid, tid, one.BeginNS, one.EndNS, off)
	})
}

func (c *chrome) coverage() error {
	if err := c.offTimes(); err != nil {
		return err
	}
	err := c.trace.eachSpan(func(q *queue, one coverageSpan) error {
		pid, tid, err := c.coverageRow(q)
		if err != nil {
			return err
		}
		return c.slice(pid, tid, one.BeginNS, one.EndNS, one.what)
	})
	if err != nil {
		return err
	}
	err = c.trace.eachUntimed(c.ctx, func(u untimed) error {
		pid, tid, err := c.coverageRow(u.queue)
		if err != nil {
			return err
		}
		return c.slice(pid, tid, u.submitNS, u.submitNS, u.String())
	})
	if err != nil {
		return err
	}
	return c.trace.eachLoss(func(l traceread.Loss) error {
		pid, tid, err := c.row(l.Session, "lost", l.Session.ID, 0, fmt.Sprintf("lost records (session %d)", l.Session.ID), ofLosses)
		if err != nil {
			return err
		}
		return c.slice(pid, tid, l.BeginNS, l.EndNS, lossText(l))
	})
}

func (c *chrome) pauses() error {
	return c.trace.eachPause(c.ctx, func(p pause) error {
		pid, tid, err := c.row(p.session, "stops", p.tid, 0, fmt.Sprintf("stops of thread %d by rtl-attach", p.tid), ofStops)
		if err != nil {
			return err
		}
		return c.slice(pid, tid, p.startNS, p.startNS+p.durationNS, "stopped: "+p.purpose)
	})
}

// slice writes a slice with a name that the tool chooses. Perfetto drops times below 0: a
// slice that began before base, such as a stop of the attach, is at base, and its name says
// so.
func (c *chrome) slice(pid, tid, fromNS, untilNS int64, name string) error {
	if fromNS < 0 || untilNS < fromNS || untilNS > traceread.LatestNS {
		return nil
	}
	if fromNS < c.base {
		name += fmt.Sprintf(" (for %s, from %s before the recording)", duration(untilNS-fromNS), duration(c.base-fromNS))
		fromNS, untilNS = c.base, max(c.base, untilNS)
	}
	return c.write(c.event("X", pid, tid, fromNS).micros("dur", untilNS-fromNS).text("name", name))
}

// kernels writes a slice for each kernel, a slice without length for its submit, and an
// arrow between them. If the call of HIP that submitted it is known, the arrow begins at the call.
func (c *chrome) kernels() error {
	places := newLanes[*queue]()
	return c.trace.dispatches(c.ctx, byStart, func(d *dispatch) error {
		c.result.Dispatches++
		lane, err := places.place(d.queue, d.startNS, d.endNS)
		if err != nil {
			return err
		}
		return c.kernel(d, lane)
	})
}

func (c *chrome) kernel(d *dispatch, lane int) error {
	pid, tid, err := c.row(d.queue.Agent.Session, "queue", d.queue.row, lane, d.queue.rowName, ofGPU(d.queue.Agent.GPU, 1, d.queue.row))
	if err != nil {
		return err
	}
	if d.submitKnown {
		if err := c.submit(d); err != nil {
			return err
		}
	}
	l := c.event("X", pid, tid, d.startNS).micros("dur", d.endNS-d.startNS).text("cat", "kernel").raw("name", c.names.name(d.launch))
	l = append(l.key("args"), '{').int("dispatch", d.id).int("packet", d.packetIndex).text("launch", d.launch.geometry)
	if l = c.related(l, d.call, d.queue.Agent, d.startNS, d.endNS); d.stream != 0 {
		l = l.int("stream_ID", d.stream)
	}
	if err := c.write(append(l, '}')); err != nil || !d.submitKnown {
		return err
	}
	// After its kernel: Perfetto ends an arrow at a slice that it has already read.
	return c.arrowEnd(pid, tid, d.startNS, item{id: d.id})
}

// submit marks the submit of a kernel on the thread's row.
func (c *chrome) submit(d *dispatch) error {
	pid, tid, err := c.submitter(d)
	if err != nil {
		return err
	}
	if err := c.write(c.event("X", pid, tid, d.submitNS).micros("dur", 0).text("cat", "submit").text("name", "submit")); err != nil || d.call != 0 {
		return err
	}
	return c.arrow(pid, tid, d.submitNS, item{id: d.id})
}

// arrow begins an arrow to what was submitted.
func (c *chrome) arrow(pid, tid, atNS int64, to item) error {
	return c.write(c.event("s", pid, tid, atNS).flow(to))
}

func (c *chrome) arrowEnd(pid, tid, atNS int64, at item) error {
	return c.write(c.event("f", pid, tid, atNS).text("bp", "e").flow(at))
}

// flow appends what the two ends of an arrow have in common: readers match all three.
func (l jsonLine) flow(to item) jsonLine {
	category := "submit"
	if to.kind > 0 {
		category = "submit " + all.Kinds[to.kind-1].Thing
	}
	return l.text("cat", category).text("name", "submit").int("id", flowID(to.id))
}

// others writes a slice for each event of other kinds.
func (c *chrome) others() error {
	return c.events(func(one event) error {
		t := one.Track
		pid, tid, err := c.row(t.Session, t.Kind, t.Number, one.lane, t.Name, c.ofTrack(t))
		if err != nil {
			return err
		}
		l := c.event("X", pid, tid, one.StartNS).micros("dur", one.EndNS-one.StartNS).text("cat", one.Category).text("name", one.Name)
		l = append(l.key("args"), '{')
		for _, a := range one.Args {
			if a.Text != "" {
				l = l.text(a.Name, a.Text)
			} else {
				l = l.int(a.Name, a.Value)
			}
		}
		if err := c.write(append(c.relatedEvent(l, &one), '}')); err != nil {
			return err
		}
		if one.from != (item{}) {
			if err := c.arrowEnd(pid, tid, one.StartNS, one.from); err != nil {
				return err
			}
		}
		return one.submits.ofCall(one.Event, func(submitted item, atNS int64) error {
			// Readers take an arrow at the end of a slice for one behind it.
			return c.arrow(pid, tid, min(atNS, max(one.StartNS, one.EndNS-1)), submitted)
		})
	})
}

// counters writes the counters of other kinds.
func (c *chrome) counters() error {
	return c.levels(func(of *kind.Counter, atNS, bytes int64) error {
		pid, err := c.pid(of.Session)
		if err != nil {
			return err
		}
		name := of.Name
		if of.GPU != nil {
			name = fmt.Sprintf("GPU %d: %s", of.GPU.GPU, name)
		}
		l := append(c.event("C", pid, 0, atNS).text("name", name).key("args"), '{').int("bytes", bytes)
		return c.write(append(l, '}'))
	})
}

// states shows when each thread ran, was ready and was blocked.
func (c *chrome) states() error {
	return c.threadStates(func(s *threadState) error {
		pid, tid, err := c.row(s.thread.session, "state", s.thread.tid, 0, s.thread.stateTitle(), ofThread(s.thread.tid, rowsOfThread-1))
		if err != nil {
			return err
		}
		l := c.event("X", pid, tid, s.BeginNS).micros("dur", s.EndNS-s.BeginNS).text("cat", "thread state").text("name", s.name)
		if s.waker != "" {
			l = append(append(l.key("args"), '{').text("woken by", s.waker), '}')
		}
		return c.write(l)
	})
}

// flowID returns an item's id, reduced to the numbers that readers accept.
func flowID(id int64) int64 { return id & math.MaxUint32 }
