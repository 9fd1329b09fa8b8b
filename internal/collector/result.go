package collector

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// The causes of losses in a trace.
const (
	CauseRingFull  = "ring full: records discarded by the payload"
	CauseUnheard   = "records that the payload's worker never got, or had no time to write"
	CauseHole      = "holes in the sequence of records"
	CauseBadTimes  = "dispatches with impossible times"
	CauseUndefined = "references to names, agents, queues or launches that were never defined"
	CauseRefused   = "records refused: out of bounds or defined twice"
	CauseUnknown   = "records of types that this version of rtl-attach does not know"
	CauseAfterEnd  = "records after the session's last one"
	CauseCrooked   = "queues whose windows contradict themselves"
	CauseCorrupt   = "the ring was found corrupt: nothing was read beyond"
	CauseNoEnd     = "the session's last record never came"
)

// tally counts what went by.
type tally struct {
	timed     uint64
	untimed   [ring.ReasonCount]uint64
	lost      uint64
	newestNS  uint64 // end of the latest dispatch
	badTimes  uint64
	undefined uint64
	refused   uint64
	unknown   uint64
	afterEnd  uint64
	crooked   uint64
	copies    tracedb.CopyCoverage // its sums are made at the end
}

func (t *tally) refusedIf(refused bool) {
	if refused {
		t.refused++
	}
}

func (t *tally) untimedTotal() (n uint64) {
	for _, count := range t.untimed {
		n += count
	}
	return n
}

// A Result is what a session came to.
type Result struct {
	Timed    uint64
	Untimed  [ring.ReasonCount]uint64
	Lost     uint64 // records that the payload discarded
	Holes    uint64 // records that never came and that the payload did not own up to
	Ended    bool   // the session's last record was read
	End      ring.End
	Coverage []tracedb.Coverage
	Copies   *tracedb.CopyCoverage // nil: not recorded
}

// NoTimes are the dispatches that were published while recording and have none in
// the trace: untimed, lost, or unexplained.
func (r Result) NoTimes() (n uint64) {
	for _, c := range r.Coverage {
		n += max(c.Untimed, c.Dispatches-min(c.Dispatches, c.Timed))
	}
	return n
}

func (c *Collector) result() Result {
	r := Result{Timed: c.tally.timed, Untimed: c.tally.untimed, Lost: c.tally.lost, Copies: c.copyCoverage()}
	if c.end != nil {
		r.Ended, r.End = true, ring.End(c.end.End)
		if c.end.RecordsLost <= maxRun {
			r.Lost = max(r.Lost, c.end.RecordsLost)
		}
	}
	// A record that finds no room leaves a hole, too; one that was never made does not.
	r.Holes = c.reader.Holes() - min(c.reader.Holes(), c.tally.lost)
	return r
}

// finish closes the session: accounts, losses not said in band, the end.
func (c *Collector) finish(broken error) (Result, error) {
	result := c.result()
	var err error
	if result.Coverage, err = c.settle(); err != nil {
		return result, err
	}
	for _, loss := range c.losses(result, broken) {
		if err := c.sink.Lost(loss); err != nil {
			return result, err
		}
	}
	end := tracedb.End{Reason: reason(c.end, broken), Coverage: result.Coverage, Copies: result.Copies}
	if c.end != nil && soundTime(c.end.ArmedNS) && soundTime(c.end.DetachedNS) {
		end.ArmedNS, end.DetachedNS = c.end.ArmedNS, c.end.DetachedNS
	}
	if err := c.sink.End(end); err != nil {
		return result, err
	}
	return result, nil
}

// losses are those that the collector itself noticed.
func (c *Collector) losses(r Result, broken error) []tracedb.Loss {
	var out []tracedb.Loss
	for _, l := range []tracedb.Loss{
		{Cause: CauseUnheard, Records: r.Lost - c.tally.lost}, // the rest was said in band
		{Cause: CauseHole, Records: r.Holes},
		{Cause: CauseBadTimes, Records: c.tally.badTimes},
		{Cause: CauseUndefined, Records: c.tally.undefined + c.tables.undefinedAgents()},
		{Cause: CauseRefused, Records: c.tally.refused},
		{Cause: CauseUnknown, Records: c.tally.unknown},
		{Cause: CauseAfterEnd, Records: c.tally.afterEnd},
		{Cause: CauseCrooked, Records: c.tally.crooked},
	} {
		if l.Records > 0 {
			out = append(out, l)
		}
	}
	if broken != nil {
		out = append(out, tracedb.Loss{Cause: CauseCorrupt})
	}
	if c.end == nil {
		out = append(out, tracedb.Loss{Cause: CauseNoEnd, FromNS: c.tally.newestNS})
	}
	return out
}

var endNames = map[ring.End]string{
	ring.EndNone:         "none",
	ring.EndDetach:       "detached",
	ring.EndOtherTool:    "detached by another rtl-attach",
	ring.EndRecorderDead: "the recorder's heartbeat stopped",
	ring.EndShutDown:     "the application called hsa_shut_down",
	ring.EndExit:         "the process exited",
	ring.EndArmFailed:    "arming failed and was undone",
}

func reason(end *ring.EndRecord, broken error) string {
	switch {
	case broken != nil:
		return "the ring was found corrupt"
	case end == nil:
		return "the process ended or stopped answering"
	}
	if name, ok := endNames[ring.End(end.End)]; ok {
		return name
	}
	return fmt.Sprintf("unknown (%d)", end.End)
}
