package collector

import (
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Counters returns the payload's counters for the trace, with their names in abi.h; the
// name of a kind's counter begins with the kind's name.
func Counters(c ring.Counters, kinds []*kind.Kind) []tracedb.Counter {
	out := []tracedb.Counter{
		{Name: "packets", Value: c.Packets},
		{Name: "dispatches", Value: c.Kind[ring.KindDispatch].Begun},
		{Name: "timed_pool", Value: c.TimedPool},
		{Name: "timed_app", Value: c.TimedApp},
		{Name: "records", Value: c.Records},
		{Name: "records_lost", Value: c.RecordsLost},
		{Name: tracedb.CounterQueuesSeen, Value: c.QueuesSeen},
		{Name: tracedb.CounterQueuesForeign, Value: c.QueuesForeign},
		{Name: tracedb.CounterQueuesExcluded, Value: c.QueuesExcluded},
		{Name: "queues_refused", Value: c.QueuesRefused},
		{Name: tracedb.CounterRawClaims, Value: c.RawClaims},
		{Name: "flips", Value: c.Flips},
		{Name: "flip_aborts", Value: c.FlipAborts},
		{Name: "kicks", Value: c.Kicks},
		{Name: "bells_unindexed", Value: c.BellsUnindexed},
		{Name: "signals_created", Value: c.SignalsCreated},
		{Name: "signals_quarantined", Value: c.SignalsQuarantined},
		{Name: "names_resolved", Value: c.NamesResolved},
		{Name: "names_unresolved", Value: c.NamesUnresolved},
		{Name: "worker_rounds", Value: c.WorkerRounds},
		{Name: "lane_rounds", Value: c.LaneRounds},
		{Name: "worker_cpu_ns", Value: c.WorkerCPUNS},
		{Name: "grace_ns", Value: c.GraceNS},
		{Name: "grace_threads", Value: c.GraceThreads},
		{Name: "grace_waited", Value: c.GraceWaited},
		{Name: "grace_asked", Value: c.GraceAsked},
		{Name: "drain_ns", Value: c.DrainNS},
	}
	for reason, r := range tracedb.Reasons {
		out = append(out, tracedb.Counter{Name: "untimed_" + r.Name, Value: c.Kind[ring.KindDispatch].Untimed[reason]})
	}
	for _, k := range kinds {
		out = append(out, kindCounters(k, &c)...)
	}
	return out
}

func kindCounters(k *kind.Kind, c *ring.Counters) []tracedb.Counter {
	prefix, counted := strings.ReplaceAll(k.ID.String(), "-", "_")+"_", &c.Kind[k.ID]
	out := []tracedb.Counter{{Name: prefix + "begun", Value: counted.Begun}, {Name: prefix + "timed", Value: counted.Timed}}
	for reason, r := range tracedb.Reasons {
		out = append(out, tracedb.Counter{Name: prefix + "untimed_" + r.Name, Value: counted.Untimed[reason]})
	}
	return out
}
