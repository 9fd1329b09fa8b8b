package export

import (
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ranks"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// collectives yields the kernels of collectives as events of a track of each GPU, with the time for which each waited for
// other ranks. An arrow leads through the kernels of one collective.
func (e *export) collectives(visit func(event) error) error {
	window := traceread.Always
	if shared, ok := e.trace.Shared(); ok && shared.EndNS > shared.BeginNS {
		window = shared
	}
	a, err := ranks.Find(e.ctx, e.trace.Trace, ranks.Options{Window: window, Patterns: e.patterns})
	if errors.Is(err, traceread.ErrImpossible) {
		return nil // kernels that cannot be compared, which the export itself leaves out, or refuses
	}
	if err != nil || a == nil {
		return err
	}
	d := collectiveDrawer{e: e, a: a, visit: visit, names: map[int64]string{}, places: newLanes[*kind.Track]()}
	for n, r := range a.Ranks {
		track := e.collectiveTrack(n, r)
		if track == nil {
			continue
		}
		err := a.EachByStart(n, func(name int64, k *ranks.Kernel) error { return d.draw(track, name, k) })
		if err != nil {
			return err
		}
	}
	return nil
}

// collectiveTrack returns the track of a rank; nil: it is not exported.
func (e *export) collectiveTrack(number int, r *ranks.Rank) *kind.Track {
	for _, s := range r.Process.Sessions {
		for _, agent := range e.trace.Agents {
			if agent.Session == s && agent.GPU == r.GPU && e.trace.isExported(s) {
				return &kind.Track{
					Kind: "collectives", Number: int64(number), Session: s, GPU: agent, Name: "collectives", Rank: 2,
					About: "kernels of collectives, and how long each waited for other ranks; an arrow joins the kernels of one collective",
				}
			}
		}
	}
	return nil
}

// collectiveDrawer makes events of collectives.
type collectiveDrawer struct {
	e      *export
	a      *ranks.Analysis
	visit  func(event) error
	names  map[int64]string
	places *lanes[*kind.Track]
	event  kind.Event
}

// collectiveFlows is in the numbers of arrows through collectives, which no item's arrow has.
const collectiveFlows = 0xff << 56

func (d *collectiveDrawer) draw(t *kind.Track, nameID int64, k *ranks.Kernel) error {
	if !d.e.trace.inWindow(k.StartNS) {
		return nil
	}
	name, err := d.name(nameID)
	if err != nil {
		return err
	}
	d.event = kind.Event{Track: t, StartNS: k.StartNS, EndNS: k.EndNS, Name: name, Category: "collective", Args: d.event.Args[:0]}
	joins := uint64(0)
	if k.Collective >= 0 {
		joins = collectiveFlows | uint64(k.Collective)
		d.describe(k)
	} else {
		d.event.Args = append(d.event.Args, kind.Arg{Name: "matched", Text: "with no other rank"})
	}
	lane, err := d.places.place(t, k.StartNS, k.EndNS)
	if err != nil {
		return err
	}
	return d.visit(event{&d.event, lane, nil, item{}, joins})
}

// describe adds the arguments of a kernel of a collective.
func (d *collectiveDrawer) describe(k *ranks.Kernel) {
	c := &d.a.Collectives[k.Collective]
	args := append(d.event.Args, kind.Arg{Name: "collective", Value: int64(k.Collective) + 1}, kind.Arg{Name: "ranks", Value: int64(c.Kernels)})
	if c.Whole {
		last := "not known: the skew is within the clocks' uncertainty"
		if d.a.Called(c) {
			r := d.a.Ranks[c.Last]
			last = fmt.Sprintf("GPU %d (pid %d)", r.GPU, r.Process.ID.PID)
		}
		args = append(args, kind.Arg{Name: "skew_ns", Value: c.SkewNS()}, kind.Arg{Name: "wait_ns", Value: d.a.WaitNS(k)}, kind.Arg{Name: "last_rank", Text: last})
	} else {
		args = append(args, kind.Arg{Name: "matched", Text: "not with all ranks of its group"})
	}
	d.event.Args = args
}

func (d *collectiveDrawer) name(id int64) (string, error) {
	name, known := d.names[id]
	if !known {
		err := d.e.trace.DB.QueryRowContext(d.e.ctx, "SELECT coalesce(max(substr(string, 1, ?)), '') FROM rocpd_string WHERE id = ?", traceread.LongestWord, id).Scan(&name)
		if err != nil {
			return "", err
		}
		name = sanitize.Text(name)
		d.names[id] = name
	}
	return name, nil
}
