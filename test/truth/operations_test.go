package truth

import (
	"database/sql"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// operation is a recording with --operations, and what pointed to the payload meanwhile.
type operation struct {
	patterns []string
	run      harness.Run
	places   harness.Places
}

func (o *operation) wants(function string) bool {
	return slices.ContainsFunc(o.patterns, func(pattern string) bool {
		matches, _ := path.Match(pattern, function)
		return matches
	})
}

// hookedHIP returns how many of HIP's functions a trace says were intercepted, and in how many places.
func hookedHIP(t *testing.T, trace string) (functions, omitted, places int) {
	t.Helper()
	db, err := tracedb.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.QueryRow(`SELECT hooked, omitted, CASE way WHEN 2 THEN entries ELSE hooked END FROM rtl_call_coverage
		JOIN rocpd_string a ON a.id = api_id WHERE a.string = 'hip-runtime-api'`).Scan(&functions, &omitted, &places)
	if err == sql.ErrNoRows {
		return 0, 0, 0
	} else if err != nil {
		t.Fatal(err)
	}
	return functions, omitted, places
}

// Only the named functions are recorded, and only they are intercepted; each session may name others.
func TestOperations(t *testing.T) {
	t.Parallel()
	needCalls(t)
	p := harness.Start(t, harness.HIPCalls("--churn", "1"))
	got, slots := p.HIPByGOT(t), p.Slots(t)
	record := func(last bool, patterns ...string) *operation {
		o := &operation{patterns: patterns}
		r := p.Begin(t, "--buffer-policy", "lossless", "--operations", strings.Join(patterns, ","))
		r.Says(t, "✓ attached")
		o.places = p.Data(t).Places()
		harness.Until(t, "it calls while it is recorded", p.Dispatches(t, 5000))
		r.Interrupt(t)
		if last {
			o.run = p.MustRecordLast(t, r)
			return o
		}
		o.run = r.MustRecord(t)
		if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
			t.Errorf("%v: slots changed: %v", patterns, changed)
		}
		return o
	}
	all := []*operation{
		record(false, "hsa_signal_*"),
		record(false, "hipMalloc", "hipFree", "hsa_signal_*"),
		record(false, "hipGet*", "hipEventRecord", "hsa_agent_get_info"),
		record(false, "hsa_signal_*"),
		record(true, "hipMalloc", "hipFree", "hsa_signal_*"),
	}
	c := harness.NewCallComparison(t, p.APICalls(t), got)
	for _, o := range all {
		tr := harness.ReadAPICalls(t, o.run.Trace)
		tr.Only = o.wants
		for _, call := range tr.Calls {
			if !o.wants(call.Function) {
				t.Fatalf("%v: %s is recorded", o.patterns, call.Function)
			}
		}
		c.Add(tr)
	}
	c.Finish()
	c.MustHaveRecorded(5, "hipMalloc", "hipFree", "hipEventRecord", "hsa_agent_get_info", "hsa_signal_wait_scacquire", "hsa_signal_load_relaxed")

	functions, omitted, places := hookedHIP(t, all[1].run.Trace)
	if functions != 2 || omitted < 100 {
		t.Errorf("%d functions of HIP are intercepted, %d omitted", functions, omitted)
	}
	// The other slots and entries are as without HIP.
	if more := placesBeyond(all[1].places, all[0].places); len(more) != places {
		t.Errorf("%d more places point to the payload, expected %d", len(more), places)
	}
	if more := placesBeyond(all[3].places, all[0].places); len(more) > 0 || len(all[3].places) != len(all[0].places) {
		t.Errorf("%d places point to the payload when it is recorded again, %d the first time", len(all[3].places), len(all[0].places))
	}
	check(t, p, p.TIDs(), all[0].run, all[1].run, all[2].run, all[3].run, all[4].run)
}

// placesBeyond returns the places that are not in others.
func placesBeyond(places, others harness.Places) harness.Places {
	more := maps.Clone(places)
	maps.DeleteFunc(more, func(at, _ uint64) bool { return others[at] != 0 })
	return more
}
