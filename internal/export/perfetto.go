package export

import (
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// perfetto writes a trace as Perfetto's protobuf: packets of one sequence.
type perfetto struct {
	*export
	packets packetWriter
	tracks  tracks
}

// writePerfetto writes the coverage, then the kernels in the order of their starts, the depths
// of the queues in the order of submits, then the events of other kinds. Readers sort them.
func writePerfetto(e *export) error {
	p := &perfetto{export: e}
	p.packets.w, p.packets.sequence = e.w, sequenceID
	p.packets.names.reset()
	p.tracks = tracks{p: &p.packets, known: map[trackKey]uint64{}, owner: map[int64]*traceread.Process{}}
	for _, step := range []func() error{p.clocks, p.together, p.coverage, p.filteredKernels, p.losses, p.pauses, p.kernels, p.depths, p.others, p.counters, p.states, p.samples} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// clocks relates CLOCK_BOOTTIME, the clock of all times, to the other clocks, at the begin of
// the first session's window. Other sessions may be of another boot.
func (p *perfetto) clocks() error {
	if len(p.trace.sessions) == 0 {
		return nil
	}
	s := p.trace.sessions[0]
	at := s.FromNS()
	m := message(nil).number(snapshotPrimary, boottime)
	for _, c := range []struct {
		id     uint64
		timeNS int64
	}{{boottime, at}, {monotonic, at + s.MonotonicOffset}, {realtime, at + s.RealtimeOffset}} {
		if at <= 0 || at > traceread.LatestNS || c.timeNS <= 0 {
			continue
		}
		m = m.message(snapshotClock, message(nil).number(clockID, c.id).signed(clockTime, c.timeNS))
	}
	return p.packets.write(timeless, packetClockSnapshot, m)
}

// together shows the common window of several processes, and their outcomes at its begin.
func (p *perfetto) together() error {
	together := togetherOf(p.trace)
	if len(together.windows) == 0 {
		return nil
	}
	track, err := p.tracks.ofTogether()
	if err != nil {
		return err
	}
	return together.each(func(w traceread.Span) error {
		return p.slice(track, w.BeginNS, w.EndNS, commonWindow)
	}, func(atNS int64, outcome string) error {
		return p.instant(track, atNS, outcome)
	})
}

// coverage shows when each queue was recorded, and when it was not.
func (p *perfetto) coverage() error {
	for _, s := range p.trace.sessions {
		track, err := p.tracks.ofSession(s)
		if err != nil {
			return err
		}
		if err := p.slice(track, s.FromNS(), untilNS(s), p.trace.coverage[s].String()); err != nil {
			return err
		}
	}
	if err := p.offTimes(); err != nil {
		return err
	}
	err := p.trace.eachSpan(func(q *queue, one coverageSpan) error {
		track, err := p.tracks.ofCoverage(q)
		if err != nil {
			return err
		}
		return p.slice(track, one.BeginNS, one.EndNS, one.what)
	})
	if err != nil {
		return err
	}
	return p.trace.eachUntimed(p.ctx, func(u untimed) error {
		track, err := p.tracks.ofCoverage(u.queue)
		if err != nil {
			return err
		}
		return p.instant(track, u.submitNS, sanitize.Text(u.String()))
	})
}

// offTimes shows the times between the windows of a schedule: they are not idle times.
func (p *perfetto) offTimes() error {
	return p.trace.eachOff(func(s *traceread.Session, one traceread.Span) error {
		track, err := p.tracks.ofSession(s)
		if err != nil {
			return err
		}
		return p.slice(track, one.BeginNS, one.EndNS, off)
	})
}

// losses shows the times in which records may be missing. It draws overlapping losses one
// after the other, because a track cannot have overlapping slices.
func (p *perfetto) losses() error {
	drawn := map[*traceread.Session]int64{} // end of the last drawn loss
	return p.trace.eachLoss(func(l traceread.Loss) error {
		track, err := p.tracks.ofLosses(l.Session)
		if err != nil {
			return err
		}
		from := max(l.BeginNS, drawn[l.Session])
		if l.EndNS < from {
			return p.instant(track, l.BeginNS, sanitize.Text(lossText(l)))
		}
		drawn[l.Session] = l.EndNS
		return p.slice(track, from, l.EndNS, sanitize.Text(lossText(l)))
	})
}

func (p *perfetto) pauses() error {
	return p.trace.eachPause(p.ctx, func(one pause) error {
		track, err := p.tracks.ofPauses(one.session, one.tid)
		if err != nil {
			return err
		}
		return p.slice(track, one.startNS, one.startNS+one.durationNS, "stopped: "+sanitize.Text(one.purpose))
	})
}

// slice writes a slice with a name that the tool chooses. It omits impossible ones, which come
// from the trace's accounts, not from dispatches.
func (p *perfetto) slice(track uint64, fromNS, untilNS int64, name string) error {
	if fromNS < 0 || untilNS < fromNS || untilNS > traceread.LatestNS {
		return nil
	}
	if err := p.named(track, fromNS, name, typeBegin); err != nil {
		return err
	}
	return p.packets.write(untilNS, packetTrackEvent, p.newEvent(typeEnd, track))
}

func (p *perfetto) instant(track uint64, atNS int64, name string) error {
	if atNS < 0 || atNS > traceread.LatestNS {
		return nil
	}
	return p.named(track, atNS, name, typeInstant)
}

func (p *perfetto) named(track uint64, atNS int64, name string, kind uint64) error {
	p.packets.names.makeRoom()
	id := p.packets.names.fixedName(internedEventNames, name)
	return p.packets.write(atNS, packetTrackEvent, p.newEvent(kind, track).number(eventNameID, id))
}

func (p *perfetto) newEvent(kind, track uint64) message {
	return p.packets.event[:0].number(eventType, kind).number(eventTrack, track)
}

// kernels writes kernels, their submits, and the number of running kernels on each GPU.
func (p *perfetto) kernels() error {
	places, running := newLanes[*queue](), newLevels()
	err := p.trace.dispatches(p.ctx, byStart, func(d *dispatch) error {
		p.result.Dispatches++
		p.packets.names.makeRoom()
		lane, err := places.place(d.queue, d.startNS, d.endNS)
		if err != nil {
			return err
		}
		if err := p.submit(d); err != nil {
			return err
		}
		if err := p.kernel(d, lane); err != nil {
			return err
		}
		gpu := d.queue.Agent.GPU
		return running.add(gpu, d.startNS, d.endNS, p.counterValue(func() (uint64, error) { return p.tracks.ofBusy(gpu) }))
	})
	if err != nil {
		return err
	}
	return p.finish(running, p.tracks.ofBusy)
}

// submit marks the submit of the kernel on the thread's track. The flow to the kernel has the
// dispatch's id. If the call of HIP that submitted it is known, it begins at the call.
func (p *perfetto) submit(d *dispatch) error {
	if !d.submitKnown {
		return nil
	}
	track, err := p.submitTrack(d)
	if err != nil {
		return err
	}
	name := p.packets.names.fixedName(internedEventNames, "submit")
	event := p.newEvent(typeInstant, track).number(eventNameID, name)
	if d.call == 0 {
		event = event.fixed(eventFlow, item{id: d.id}.flow())
	}
	p.packets.event = event
	return p.packets.write(d.submitNS, packetTrackEvent, event)
}

func (p *perfetto) submitTrack(d *dispatch) (uint64, error) {
	if d.thread == nil {
		return p.tracks.unknownThread(d.queue.Agent.Session)
	}
	return p.tracks.ofThread(d.thread)
}

func (p *perfetto) kernel(d *dispatch, lane int) error {
	track, err := p.tracks.ofQueue(d.queue, lane)
	if err != nil {
		return err
	}
	names := &p.packets.names
	event := p.newEvent(typeBegin, track).number(eventNameID, names.kernel(d.launch))
	if d.submitKnown {
		event = event.fixed(eventFlowEnd, item{id: d.id}.flow())
	}
	event = names.annotateInt(event, "dispatch", d.id)
	event = names.annotateInt(event, "packet", d.packetIndex)
	event = names.annotateLaunch(event, d.launch)
	p.packets.event = event
	if err := p.packets.write(d.startNS, packetTrackEvent, event); err != nil {
		return err
	}
	return p.packets.write(d.endNS, packetTrackEvent, p.newEvent(typeEnd, track))
}

func (in *interned) kernel(l *launch) uint64 {
	id, ok := in.events[l.nameID]
	if !ok {
		id = in.add(internedEventNames, sanitize.Text(l.name))
		in.events[l.nameID] = id
	}
	return id
}

func (in *interned) annotateInt(event message, name string, v int64) message {
	var room [32]byte
	return event.message(eventAnnotation, message(room[:0]).
		number(annotationNameID, in.fixedName(internedAnnotationNames, name)).signed(annotationInt, v))
}

func (in *interned) annotateText(event message, name, text string) message {
	var room [64]byte
	return event.message(eventAnnotation, message(room[:0]).
		number(annotationNameID, in.fixedName(internedAnnotationNames, name)).text(annotationString, text))
}

func (in *interned) annotateLaunch(event message, l *launch) message {
	id, ok := in.launches[l.id]
	if !ok {
		id = in.add(internedStrings, l.geometry)
		in.launches[l.id] = id
	}
	var room [32]byte
	return event.message(eventAnnotation, message(room[:0]).
		number(annotationNameID, in.fixedName(internedAnnotationNames, "launch")).number(annotationStringID, id))
}

// depths writes for every queue how many of its timed dispatches were submitted and not ended.
func (p *perfetto) depths() error {
	waiting := newLevels()
	err := p.trace.dispatches(p.ctx, bySubmit, func(d *dispatch) error {
		if !d.submitKnown {
			return nil
		}
		q := d.queue
		return waiting.add(q.ID, d.submitNS, d.endNS, p.counterValue(func() (uint64, error) { return p.tracks.ofDepth(q) }))
	})
	if err != nil {
		return err
	}
	return p.finish(waiting, func(id int64) (uint64, error) { return p.tracks.ofDepth(p.trace.queues[id]) })
}

// others writes a slice for each event of other kinds.
func (p *perfetto) others() error {
	return p.events(func(one event) error {
		names := &p.packets.names
		names.makeRoom()
		track, err := p.tracks.ofEvents(one.Track, one.lane)
		if err != nil {
			return err
		}
		event := p.newEvent(typeBegin, track).number(eventNameID, names.fixedName(internedEventNames, one.Name))
		event = event.text(eventCategory, one.Category)
		for _, a := range one.Args {
			if a.Text != "" {
				event = names.annotateText(event, a.Name, a.Text)
			} else {
				event = names.annotateInt(event, a.Name, a.Value)
			}
		}
		if one.from != (item{}) {
			event = event.fixed(eventFlowEnd, one.from.flow())
		}
		if one.joins != 0 {
			event = event.fixed(eventFlow, one.joins)
		}
		if event, err = flows(event, one); err != nil {
			return err
		}
		p.packets.event = event
		if err := p.packets.write(one.StartNS, packetTrackEvent, event); err != nil {
			return err
		}
		return p.packets.write(one.EndNS, packetTrackEvent, p.newEvent(typeEnd, track))
	})
}

// mostFlows limits the items that one call can be linked with: more than a graph has.
const mostFlows = 1 << 16

// flows adds a flow for each item that a call submitted.
func flows(made message, call event) (message, error) {
	n := 0
	err := call.submits.ofCall(call.Event, func(submitted item, _ int64) error {
		if n++; n <= mostFlows {
			made = made.fixed(eventFlow, submitted.flow())
		}
		return nil
	})
	return made, err
}

// counters writes the counters of other kinds.
func (p *perfetto) counters() error {
	return p.levels(func(c *kind.Counter, atNS, bytes int64) error {
		return p.counterValue(func() (uint64, error) { return p.tracks.ofCounter(c) })(atNS, int(bytes))
	})
}

type trackFunc func() (uint64, error)

func (p *perfetto) finish(ls *levels, track func(id int64) (uint64, error)) error {
	for _, id := range sortedKeys(ls.byID) {
		if err := ls.byID[id].finish(p.counterValue(func() (uint64, error) { return track(id) })); err != nil {
			return err
		}
	}
	return nil
}

func (p *perfetto) counterValue(track trackFunc) levelFunc {
	return func(atNS int64, value int) error {
		uuid, err := track()
		if err != nil {
			return err
		}
		p.packets.event = p.newEvent(typeCounter, uuid).signed(eventCounter, int64(value))
		return p.packets.write(atNS, packetTrackEvent, p.packets.event)
	}
}
