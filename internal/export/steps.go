package export

import (
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/steps"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// OfSteps returns the format restricted to what starts in the time of some steps.
func (f Format) OfSteps(s steps.Selection) Format {
	f.steps = &s
	return f
}

// steps yields the steps of each thread, and their repeated parts, as events of tracks of their own.
func (e *export) steps(visit func(event) error) error {
	begins := 0 // two: SQLite has to sort the trace, and then the first steps are passed on twice
	found, err := steps.Find(e.ctx, e.trace.Trace, steps.Options{Window: traceread.Always, Begin: func() func(steps.Step) error {
		begins++
		return func(steps.Step) error { return nil }
	}})
	if errors.Is(err, traceread.ErrImpossible) {
		return nil // kernels that cannot be compared, which the export itself leaves out, or refuses
	}
	if err != nil || len(found) == 0 {
		return err
	}
	d := stepDrawer{e: e, visit: visit, tracks: map[int64]*stepTracks{}, names: map[int64]string{}, places: newLanes[*kind.Track]()}
	for _, t := range found {
		if s := e.trace.Session(t.Session); s != nil && e.trace.isExported(s) {
			d.add(t, s)
		}
	}
	_, err = steps.Find(e.ctx, e.trace.Trace, steps.Options{Window: traceread.Always, Begin: func() func(steps.Step) error {
		begins--
		return func(s steps.Step) error {
			if begins > 0 {
				return nil
			}
			return d.draw(&s)
		}
	}})
	return err
}

// stepTracks are the tracks of a thread.
type stepTracks struct{ whole, parts *kind.Track }

// stepDrawer makes events of steps.
type stepDrawer struct {
	e      *export
	visit  func(event) error
	tracks map[int64]*stepTracks // by thread
	names  map[int64]string
	places *lanes[*kind.Track]
	event  kind.Event
}

func (d *stepDrawer) add(t *steps.Thread, s *traceread.Session) {
	title, tid := "", int64(0)
	if th := d.e.trace.threads[t.ID]; th != nil {
		title, tid = " of "+th.title(), th.tid
	}
	track := func(kindOf, what, about string) *kind.Track {
		return &kind.Track{Kind: kindOf, Number: t.ID, Session: s, TID: tid, Name: what + title, About: about, Rank: 2}
	}
	d.tracks[t.ID] = &stepTracks{
		track("steps", "steps", "sequences of kernels that the thread submits again and again, from the start of the first kernel to the end of the last"),
		track("step parts", "parts of steps", "the parts that are repeated in a step, such as layers"),
	}
}

func (d *stepDrawer) draw(s *steps.Step) error {
	tracks := d.tracks[s.Thread.ID]
	if tracks == nil || !d.e.trace.inWindow(s.StartNS) {
		return nil
	}
	name, err := d.name(s)
	if err != nil {
		return err
	}
	differs := int64(0)
	if s.Differs {
		differs = 1
	}
	args := []kind.Arg{{Name: "step", Value: s.Number}, {Name: "kernels", Value: int64(len(s.Kernels))}, {Name: "idle_ns", Value: s.IdleNS}, {Name: "differs", Value: differs}}
	if err := d.slice(tracks.whole, s.StartNS, s.EndNS, name, args); err != nil || s.Differs {
		return err
	}
	part := s.Kind.Part
	for i := range part.Times {
		of := s.Kernels[part.First+i*part.Kernels:][:part.Kernels]
		startNS, endNS := of[0].StartNS, of[0].EndNS
		for _, k := range of {
			startNS, endNS = min(startNS, k.StartNS), max(endNS, k.EndNS)
		}
		err := d.slice(tracks.parts, startNS, endNS, fmt.Sprintf("part %d of %d", i+1, part.Times), []kind.Arg{{Name: "step", Value: s.Number}})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *stepDrawer) slice(t *kind.Track, startNS, endNS int64, name string, args []kind.Arg) error {
	lane, err := d.places.place(t, startNS, endNS)
	if err != nil {
		return err
	}
	d.event = kind.Event{Track: t, StartNS: startNS, EndNS: endNS, Name: name, Category: "step", Args: args}
	return d.visit(event{&d.event, lane, nil, item{}, 0})
}

// name returns the marker's name, or the first kernel and the number of kernels.
func (d *stepDrawer) name(s *steps.Step) (string, error) {
	of := s.Thread.Marker
	if of == 0 {
		of = s.Kind.First
	}
	name, known := d.names[of]
	if !known {
		err := d.e.trace.DB.QueryRowContext(d.e.ctx, "SELECT coalesce(max(substr(string, 1, ?)), '') FROM rocpd_string WHERE id = ?", traceread.LongestWord, of).Scan(&name)
		if err != nil {
			return "", err
		}
		name = sanitize.Text(name)
		d.names[of] = name
	}
	if s.Thread.Marker != 0 {
		return name, nil
	}
	return fmt.Sprintf("step of %d kernels from %s", s.Kind.Kernels, name), nil
}
