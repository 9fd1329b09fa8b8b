package harness

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/report"
)

// SaysOfRCCL returns what a summary says of RCCL's calls; nil: nothing.
func SaysOfRCCL(t testing.TB, s report.Summary) *calls.Report {
	t.Helper()
	said := s.Kinds[calls.RCCL.ID.String()]
	if said == nil {
		return nil
	}
	text, err := json.Marshal(said)
	all := &calls.Report{}
	if err := errors.Join(err, json.Unmarshal(text, all)); err != nil {
		t.Fatal(err)
	}
	return all
}

// transferPlaces has the words of RCCL's functions with the count and the type.
var transferPlaces = map[string][2]int{
	"ncclAllReduce": {2, 3}, "ncclBroadcast": {2, 3}, "ncclReduceScatter": {2, 3}, "ncclAllGather": {2, 3}, "ncclSend": {1, 2}, "ncclRecv": {1, 2},
}

// transferBytes has the sizes of the types that rcclranks uses, by ncclDataType_t.
var transferBytes = map[uint64]uint64{0: 1, 6: 2, 7: 4, 9: 2}

// RCCLTruth is what a report must say of a recording, whose calls may go on a little after the last kernel in its window.
type RCCLTruth struct {
	Calls, Bytes int64
	Lateness     calls.RankLateness
	Last         map[int64]int64 // by thread
}

// ReadRCCLTruth computes it from a trace, and from the program's log, which knows the number of each operation.
func ReadRCCLTruth(t testing.TB, tr *APITrace, log map[int64][]*APICall) RCCLTruth {
	t.Helper()
	truth := RCCLTruth{Last: map[int64]int64{}}
	begins := map[int64]map[int]int64{} // by thread and number of the operation
	next := map[int64]int{}             // of the thread's log
	for i := range tr.Calls {
		r := &tr.Calls[i]
		place, moves := transferPlaces[r.Function]
		if !moves {
			continue
		}
		truth.Calls++
		truth.Bytes += int64(r.Words[place[0]] * transferBytes[low(r.Words[place[1]], 32)])
		if place[0] == 1 {
			continue // a send or a receive
		}
		operations := collectivesOf(log[r.TID])
		n := slices.IndexFunc(operations[next[r.TID]:], func(c *APICall) bool { return c.Function == r.Function && c.covers(r) })
		if n < 0 {
			t.Fatalf("%+v was not called", *r)
		}
		next[r.TID] += n + 1
		if begins[r.TID] == nil {
			begins[r.TID] = map[int]int64{}
		}
		begins[r.TID][next[r.TID]] = r.StartNS
	}
	truth.compare(begins)
	return truth
}

func collectivesOf(all []*APICall) []*APICall {
	return slices.DeleteFunc(slices.Clone(all), func(c *APICall) bool { return transferPlaces[c.Function][0] != 2 })
}

// compare compares the operations that all ranks began.
func (truth *RCCLTruth) compare(begins map[int64]map[int]int64) {
	ranks := slices.Sorted(maps.Keys(begins))
	if len(ranks) == 0 {
		return
	}
	var late []int64
	for n := range begins[ranks[0]] {
		if slices.ContainsFunc(ranks, func(tid int64) bool { return begins[tid][n] == 0 }) {
			continue
		}
		order := slices.SortedFunc(slices.Values(ranks), func(a, b int64) int { return cmp.Compare(begins[a][n], begins[b][n]) })
		last := order[len(order)-1]
		truth.Last[last]++
		late = append(late, begins[last][n]-begins[order[0]][n])
	}
	if slices.Sort(late); len(late) > 0 {
		truth.Lateness = calls.RankLateness{
			Operations: int64(len(late)), P50NS: late[len(late)*50/100], P99NS: late[len(late)*99/100], MaxNS: late[len(late)-1],
		}
	}
}
