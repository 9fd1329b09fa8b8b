package collector

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// The causes of losses in a trace.
const (
	CauseRingFull     = "ring full: records discarded by the payload"
	CauseUndelivered  = "records that the payload's worker never got, or had no time to write"
	CauseHole         = "holes in the sequence of records"
	CauseBadTimes     = "dispatches with impossible times"
	CauseUndefined    = "references to names, agents, queues or launches that were never defined"
	CauseRefused      = "records refused: out of bounds or defined twice"
	CauseUnknown      = "records of types that this version of rtl-attach does not know"
	CauseAfterEnd     = "records after the session's last one"
	CauseInconsistent = "queues whose windows contradict themselves"
	CauseCorrupt      = "the ring was found corrupt: nothing was read beyond"
	CauseNoEnd        = "the session's last record never came"
)

// tally counts the records of a session.
type tally struct {
	timed        uint64
	filtered     uint64
	untimed      [ring.ReasonCount]uint64
	lost         uint64
	records      uint64
	newestNS     uint64 // end of the latest dispatch
	badTimes     uint64
	undefined    uint64
	refused      uint64
	unknown      uint64
	afterEnd     uint64
	inconsistent uint64
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

// Result is the outcome of a session.
type Result struct {
	Timed    uint64
	Filtered uint64 // dispatches with times that the filter left out
	Untimed  [ring.ReasonCount]uint64
	Lost     uint64 // records that the payload discarded
	Holes    uint64 // missing records that the payload has not reported as lost
	Ended    bool   // the session's last record was read
	End      ring.End
	Coverage []tracedb.Coverage
	Kinds    []tracedb.KindCoverage // of the recorded kinds

	Records uint64         // read from the ring
	Losses  []tracedb.Loss // all; the losses that the payload reported are one entry

	Unavailable []tracedb.Unavailable // kinds that could not be recorded, once each
}

// Missing returns the number of lost records, or of unexplained dispatches if that is
// larger.
func (r Result) Missing() uint64 {
	var records, unexplained uint64
	for _, l := range r.Losses {
		records += l.Records
	}
	for _, c := range r.Coverage {
		unexplained += uint64(max(c.Unexplained, -c.Unexplained))
	}
	return max(records, unexplained)
}

// NoTimes returns the number of dispatches that were published while recording and have no
// times in the trace: untimed, lost, or unexplained.
func (r Result) NoTimes() (n uint64) {
	for _, c := range r.Coverage {
		n += max(c.Untimed, c.Dispatches-min(c.Dispatches, c.Timed+c.Filtered))
	}
	return n
}

func (c *Collector) result() Result {
	r := Result{Records: c.tally.records, Timed: c.tally.timed, Filtered: c.tally.filtered, Untimed: c.tally.untimed, Lost: c.tally.lost, Kinds: c.settleKinds(), Unavailable: c.missing}
	if c.end != nil {
		r.Ended, r.End = true, ring.End(c.end.End)
		if c.end.RecordsLost <= kind.MostCount {
			r.Lost = max(r.Lost, c.end.RecordsLost)
		}
	}
	// A record that did not fit leaves a hole, too; one that was never made does not.
	holes := c.holes()
	if c.periods != nil {
		holes -= c.periods.holes
	}
	r.Holes = holes - min(holes, c.tally.lost)
	return r
}

// finish closes the session: accounts, losses that no record reported, the end.
func (c *Collector) finish(broken error) (Result, error) {
	if err := errors.Join(c.number(math.MaxUint64), c.flushFiltered()); err != nil {
		return c.result(), err
	}
	result := c.result()
	if err := c.finishKinds(); err != nil {
		return result, err
	}
	result.Coverage = c.settle()
	if c.tally.lost > 0 {
		result.Losses = append(result.Losses, tracedb.Loss{Cause: CauseRingFull, Records: c.tally.lost})
	}
	for _, loss := range c.losses(result, broken) {
		if err := c.sink.Lost(loss); err != nil {
			return result, err
		}
		result.Losses = append(result.Losses, loss)
	}
	return result, c.sink.End(c.describeEnd(result, broken))
}

func (c *Collector) describeEnd(r Result, broken error) tracedb.End {
	if c.part != nil {
		return c.part.end(r)
	}
	ending := c.ending()
	end := tracedb.End{
		Reason: ending.reason(c.end, broken), WindowEndNS: ending.WindowEndNS, UntilNS: c.rounds.markNS,
		Coverage: r.Coverage, Kinds: r.Kinds,
	}
	if c.end != nil && kind.SoundTime(c.end.ArmedNS) && kind.SoundTime(c.end.DetachedNS) {
		end.ArmedNS, end.DetachedNS = c.end.ArmedNS, c.end.DetachedNS
		end.UntilNS = max(end.UntilNS, c.end.DetachedNS)
	}
	if end.WindowEndNS == 0 || end.DetachedNS != 0 && end.DetachedNS < end.WindowEndNS { // it ended by itself, or before
		end.WindowEndNS = cmp.Or(end.DetachedNS, end.UntilNS)
	}
	return end
}

// losses returns the losses that the collector itself noticed.
func (c *Collector) losses(r Result, broken error) []tracedb.Loss {
	var out []tracedb.Loss
	for _, l := range []tracedb.Loss{
		{Cause: CauseUndelivered, Records: r.Lost - c.tally.lost}, // LOST records report the rest
		{Cause: CauseHole, Records: r.Holes},
		{Cause: CauseBadTimes, Records: c.tally.badTimes},
		{Cause: CauseUndefined, Records: c.tally.undefined + c.tables.undefinedAgents()},
		{Cause: CauseRefused, Records: c.tally.refused},
		{Cause: CauseUnknown, Records: c.tally.unknown},
		{Cause: CauseAfterEnd, Records: c.tally.afterEnd},
		{Cause: CauseInconsistent, Records: c.tally.inconsistent},
	} {
		if l.Records > 0 {
			out = append(out, l)
		}
	}
	if broken != nil {
		out = append(out, tracedb.Loss{Cause: CauseCorrupt})
	}
	if c.end == nil && c.part == nil {
		out = append(out, tracedb.Loss{Cause: CauseNoEnd, FromNS: c.completeNS()})
	}
	return out
}

// completeNS returns the time up to which the trace of a target that ended without a last record has everything; 0: not
// known. Dispatches come in the order of their ends, but a thread's calls may come later than newer records.
func (c *Collector) completeNS() uint64 {
	if slices.ContainsFunc(c.decoders[:], func(d kind.Decoder) bool { return d != nil }) {
		return min(c.tally.newestNS, c.rounds.markNS, c.lanes.markNS)
	}
	return c.tally.newestNS
}

var endNames = map[ring.End]string{
	ring.EndNone:         "none",
	ring.EndDetach:       "detached",
	ring.EndOtherTool:    "detached by another rtl-attach",
	ring.EndRecorderDead: "the recorder's heartbeat stopped",
	ring.EndShutDown:     "the application called hsa_shut_down",
	ring.EndExit:         "the process exited",
	ring.EndArmFailed:    "arming failed and was undone",
	ring.EndPeriod:       tracedb.EndPeriod,
	ring.EndSchedule:     tracedb.EndSchedule,
}

// Ending is how the recorder ends a session.
type Ending struct {
	Reason      string // why it commands the detach
	WindowEndNS uint64 // of the declared window; CLOCK_BOOTTIME
}

// EndWith announces that the recorder is about to command the detach, and why. Any
// goroutine may call it, before the last record.
func (c *Collector) EndWith(e Ending) { c.asked.Store(&e) }

func (c *Collector) ending() Ending {
	if e := c.asked.Load(); e != nil {
		return *e
	}
	return Ending{}
}

// reason returns the end reason for the trace. The payload's reason takes precedence over
// the recorder's.
func (e Ending) reason(end *ring.EndRecord, broken error) string {
	switch {
	case broken != nil:
		return "the ring was found corrupt"
	case end == nil:
		return "the process ended or stopped answering"
	case ring.End(end.End) == ring.EndDetach && e.Reason != "":
		return e.Reason
	}
	if name, ok := endNames[ring.End(end.End)]; ok {
		return name
	}
	return fmt.Sprintf("unknown (%d)", end.End)
}
