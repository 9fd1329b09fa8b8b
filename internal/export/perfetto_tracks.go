package export

import (
	"fmt"
	"math"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// tracks remembers the tracks that have been described, by their content.
//
//	process                       (one for each process; sessions of it share it)
//	├ session 1                   what was recorded, and what was lost
//	├ stops of thread 41220       by rtl-attach
//	├ thread                      submits
//	├ engine 2983: state          running, ready, blocked
//	└ GPU 0
//	  ├ queue 3                   kernels, in lanes
//	  ├ queue 3: coverage         when it was recorded
//	  ├ queue 3: depth            submitted and not ended
//	  ├ copies host → GPU 0       in lanes
//	  └ memory allocated          bytes
//	GPU 0: kernels running        of all processes
//	processes recorded together   their common window, and the outcomes of processes that were not recorded to its end
type tracks struct {
	p     *packetWriter
	known map[trackKey]uint64
	owner map[int64]*traceread.Process // the process that has the pid in the export
}

// trackKey identifies a track by its content: kind and up to two ids.
type trackKey struct {
	kind string
	id   any
	lane int
}

// describe returns a track's number, and writes its description if it is new. The caller must
// not be inside an event: a description is a separate packet.
func (t *tracks) describe(key trackKey, fill func(message) (message, error)) (uint64, error) {
	if uuid, ok := t.known[key]; ok {
		return uuid, nil
	}
	if len(t.known) >= traceread.MostDefinitions {
		return 0, fmt.Errorf("over %d tracks: %w", traceread.MostDefinitions, traceread.ErrImpossible)
	}
	m, err := fill(nil)
	if err != nil {
		return 0, err
	}
	uuid := uint64(len(t.known) + 1)
	t.known[key] = uuid
	return uuid, t.p.write(timeless, packetTrack, m.number(trackUUID, uuid))
}

// child describes a plain track below another.
func (t *tracks) child(key trackKey, parent func() (uint64, error), name, description string, rank int) (uint64, error) {
	return t.describe(key, func(m message) (message, error) {
		above, err := parent()
		m = m.number(trackParent, above).text(trackName, name).number(trackRank, uint64(rank))
		if description != "" {
			m = m.text(trackDescription, description)
		}
		return m, err
	})
}

// ofProcess returns the track of a session's process. If several processes have one pid, only
// the first gets a process track; the others get named tracks, because Perfetto would merge
// them with the first.
func (t *tracks) ofProcess(s *traceread.Session) (uint64, error) {
	who := s.Process
	return t.describe(trackKey{"process", who, 0}, func(m message) (message, error) {
		if !t.ownsPID(s) {
			return m.text(trackName, fmt.Sprintf("%s %d on %s", sanitize.Text(s.Process.Title()), s.Process.ID.PID, sanitize.Text(s.Process.ID.Host))), nil
		}
		return m.message(trackProcess, message(nil).signed(processPID, s.Process.ID.PID).text(processName, sanitize.Text(s.Process.Title()))), nil
	})
}

// ownsPID reports whether the pid is possible, and belongs to this process in the export.
func (t *tracks) ownsPID(s *traceread.Session) bool {
	if s.Process.ID.PID <= 0 || s.Process.ID.PID > math.MaxInt32 {
		return false
	}
	owner, taken := t.owner[s.Process.ID.PID]
	if !taken {
		owner = s.Process
		t.owner[s.Process.ID.PID] = owner
	}
	return owner == s.Process
}

func (t *tracks) ofSession(s *traceread.Session) (uint64, error) {
	if s.Scheduled {
		return t.child(trackKey{"schedule", s.Process, 0}, func() (uint64, error) { return t.ofProcess(s) },
			"recording by schedule", "the windows in which kernels were recorded, and what is missing there", 0)
	}
	return t.child(trackKey{"session", s.ID, 0}, func() (uint64, error) { return t.ofProcess(s) },
		fmt.Sprintf("recording (session %d)", s.ID), "when kernels were recorded, and what is missing", 0)
}

func (t *tracks) ofLosses(s *traceread.Session) (uint64, error) {
	return t.child(trackKey{"losses", s.ID, 0}, func() (uint64, error) { return t.ofProcess(s) },
		fmt.Sprintf("lost records (session %d)", s.ID), "meanwhile kernels are missing: counters and gaps say nothing", 0)
}

// ofPauses returns the track of one thread's stops: stops of several threads may overlap.
func (t *tracks) ofPauses(s *traceread.Session, tid int64) (uint64, error) {
	return t.child(trackKey{"pauses", part{s.Process, tid}, 0}, func() (uint64, error) { return t.ofProcess(s) },
		fmt.Sprintf("stops of thread %d", tid), "by rtl-attach", 1)
}

// A part of a process: a thread, a GPU.
type part struct {
	of *traceread.Process
	id int64
}

func (t *tracks) ofThread(th *thread) (uint64, error) {
	s := th.session
	return t.describe(trackKey{"thread", part{s.Process, th.tid}, 0}, func(m message) (message, error) {
		above, err := t.ofProcess(s)
		name := th.title()
		if !t.ownsPID(s) || th.tid <= 0 || th.tid > math.MaxInt32 {
			return m.number(trackParent, above).text(trackName, name), err
		}
		return m.message(trackThread, message(nil).signed(threadPID, s.Process.ID.PID).signed(threadTID, th.tid).text(threadName, name)), err
	})
}

// unknownThread is the track of submits of unknown threads.
func (t *tracks) unknownThread(s *traceread.Session) (uint64, error) {
	return t.child(trackKey{"thread", s.Process, 0}, func() (uint64, error) { return t.ofProcess(s) }, "unknown thread", "", 2)
}

func (t *tracks) ofGPU(a *traceread.Agent) (uint64, error) {
	return t.describe(trackKey{"gpu", part{a.Session.Process, a.GPU}, 0}, func(m message) (message, error) {
		above, err := t.ofProcess(a.Session)
		name := fmt.Sprintf("GPU %d %s", a.GPU, sanitize.Text(a.Name))
		return m.number(trackParent, above).text(trackName, name).number(trackOrdering, orderExplicit).number(trackRank, 3), err
	})
}

// ofQueue returns one lane of a queue. All lanes have the same name: readers merge them.
func (t *tracks) ofQueue(q *queue, lane int) (uint64, error) {
	return t.child(trackKey{"queue", q.row, lane}, func() (uint64, error) { return t.ofGPU(q.Agent) },
		q.name, "kernels; those that overlap are drawn below each other", 1)
}

// ofEvents returns one lane of a track of events.
func (t *tracks) ofEvents(of *kind.Track, lane int) (uint64, error) {
	above := func() (uint64, error) { return t.ofProcess(of.Session) }
	if of.GPU != nil {
		above = func() (uint64, error) { return t.ofGPU(of.GPU) }
	}
	return t.child(trackKey{of.Kind, of, lane}, above, of.Name, of.About, of.Rank)
}

func (t *tracks) ofCoverage(q *queue) (uint64, error) {
	return t.child(trackKey{"coverage", q.row, 0}, func() (uint64, error) { return t.ofGPU(q.Agent) },
		q.name+": coverage", "when this queue was recorded; elsewhere nothing is known of it", 0)
}

// ofFiltered returns the track of the times in which filtered kernels of a queue ran.
func (t *tracks) ofFiltered(q *queue) (uint64, error) {
	return t.child(trackKey{"filtered", q.ID, 0}, func() (uint64, error) { return t.ofGPU(q.Agent) },
		q.name+": filtered kernels", "kernels that filters left out ran: the GPU was busy; the counters do not have them", 0)
}

func (t *tracks) ofTogether() (uint64, error) {
	return t.describe(trackKey{"together", 0, 0}, func(m message) (message, error) {
		return m.text(trackName, "processes recorded together").
			text(trackDescription, "the time in which all were recorded; outside of it some of them were not"), nil
	})
}

func (t *tracks) ofDepth(q *queue) (uint64, error) {
	return t.counter(trackKey{"depth", q.row, 0}, unitCount, func() (uint64, error) { return t.ofGPU(q.Agent) },
		q.name+": depth", "timed dispatches submitted and not ended; where the queue was not recorded, 0 says nothing")
}

func (t *tracks) ofBusy(gpu int64) (uint64, error) {
	return t.counter(trackKey{"busy", gpu, 0}, unitCount, nil, fmt.Sprintf("GPU %d: recorded kernels running", gpu),
		"0 does not say idle: see the coverage of the GPU's queues")
}

// ofCounter returns the track of a counter of another kind.
func (t *tracks) ofCounter(c *kind.Counter) (uint64, error) {
	above := func() (uint64, error) { return t.ofProcess(c.Session) }
	if c.GPU != nil {
		above = func() (uint64, error) { return t.ofGPU(c.GPU) }
	}
	return t.counter(trackKey{"counter", c, 0}, unitBytes, above, c.Name, c.About)
}

func (t *tracks) counter(key trackKey, unitOf uint64, parent func() (uint64, error), name, description string) (uint64, error) {
	return t.describe(key, func(m message) (message, error) {
		var err error
		if parent != nil {
			var above uint64
			above, err = parent()
			m = m.number(trackParent, above).number(trackRank, 2)
		}
		unit := message(nil).number(counterUnit, unitOf)
		return m.text(trackName, name).text(trackDescription, description).message(trackCounter, unit).number(trackMerge, mergeNever), err
	})
}
