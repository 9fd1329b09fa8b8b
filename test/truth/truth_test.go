package truth

import (
	"strconv"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

var check = harness.Check

func TestServe(t *testing.T) {
	p := harness.Start(t, harness.Workload{Program: "serve", Args: []string{"--threads", "4", "--streams", "6"}})
	run := p.RecordLast(t, 1500*time.Millisecond, 4000)
	check(t, p, p.TIDs(), run).MustHaveRecorded(1000)
	db, err := tracedb.Open(run.Trace)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var threads, named int
	if err := db.QueryRow("SELECT count(*), count(*) FILTER (WHERE name = 'serve') FROM rtl_thread").Scan(&threads, &named); err != nil {
		t.Fatal(err)
	}
	if threads == 0 || named != threads {
		t.Errorf("%d of %d threads have their name", named, threads)
	}
}

func TestStress(t *testing.T) {
	for _, c := range []struct{ threads, queues, ring int }{
		{4, 2, 64}, {8, 2, 256}, {8, 3, 64}, {16, 3, 64}, {16, 2, 1024},
	} {
		name := strconv.Itoa(c.threads) + "threads-" + strconv.Itoa(c.queues) + "queues-ring" + strconv.Itoa(c.ring)
		t.Run(name, func(t *testing.T) {
			p := harness.Start(t, harness.Stress(c.threads, c.queues, c.ring))
			run := p.RecordLast(t, 700*time.Millisecond, 8000)
			check(t, p, p.TIDs(), run).MustHaveRecorded(2000)
		})
	}
}

// Packets queued before the attach run unrecorded during the recording: the trace must count
// them, or the comparison fails.
func TestQueuedBefore(t *testing.T) {
	p := harness.Start(t, harness.Stress(8, 2, 1024))
	if c := check(t, p, p.TIDs(), p.Reattach(t, 8)...); c.QueuedBefore == 0 {
		t.Error("nothing was queued, eight times: this shows nothing")
	}
}
