package report

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// backlogTrace has one GPU, recorded from 1,000 to 101,000 ns. Of its two queues the
// first had packets in front of its window.
func backlogTrace(t *testing.T, before uint64, first, second []tracedb.Dispatch) string {
	t.Helper()
	db, path := create(t)
	s := begin(t, db, 41220, "server")
	must(t, s.Queue(tracedb.Queue{ID: 2, Agent: 1, HSAID: 4}))
	end := tracedb.End{Reason: "detached", ArmedNS: 1000, DetachedNS: 101000}
	for i, kernels := range [][]tracedb.Dispatch{first, second} {
		queue, n := uint32(i+1), uint64(len(kernels))
		for k := range kernels {
			kernels[k].Queue, kernels[k].Launch, kernels[k].Index = queue, 1, uint64(k)
		}
		w := tracedb.Window{Queue: queue, OpenNS: 1000, Closed: true, CloseNS: 101000, EndIndex: n, Dispatches: n}
		if queue == 1 {
			w.QueuedBefore = before
		}
		must(t, s.Window(w), s.Dispatches(kernels))
		end.Coverage = append(end.Coverage, tracedb.Coverage{Queue: queue, Windows: 1, Dispatches: n, Timed: n})
	}
	must(t, s.Counters([]tracedb.Counter{{Name: tracedb.CounterQueuesSeen, Value: 2}}), s.End(end), db.Close())
	return path
}

// What was queued before the attach may have kept the GPU busy: no idle time.
func TestQueuedBefore(t *testing.T) {
	kernel := func(startNS uint64) tracedb.Dispatch {
		return tracedb.Dispatch{StartNS: startNS, EndNS: startNS + 10000, SubmitNS: startNS - 500}
	}
	for name, c := range map[string]struct {
		before        uint64
		first, second []tracedb.Dispatch
		complete      bool
		causes        map[string]int64
	}{
		"nothing": {0, []tracedb.Dispatch{kernel(51000)}, nil, true, map[string]int64{"edge": 90000}},
		"until the first kernel": {
			5,
			[]tracedb.Dispatch{kernel(51000), kernel(71000)},
			nil, false,
			map[string]int64{"backlog": 50000, "host": 9500, "launch": 500, "edge": 20000},
		},
		"beside another queue's": {
			5,
			[]tracedb.Dispatch{kernel(51000)},
			[]tracedb.Dispatch{kernel(11000), kernel(31000), kernel(81000)},
			false,
			map[string]int64{"backlog": 10000 + 10000 + 10000, "host": 19500, "launch": 500, "edge": 10000},
		},
		"for all of the time":  {1, nil, []tracedb.Dispatch{kernel(11000)}, false, map[string]int64{"backlog": 10000 + 80000}},
		"for too short a time": {1, []tracedb.Dispatch{kernel(1040)}, nil, true, map[string]int64{"backlog": 40, "edge": 89960}},
	} {
		t.Run(name, func(t *testing.T) {
			path := backlogTrace(t, c.before, c.first, c.second)
			wantCauses(t, path, c.causes)
			r, err := Make(path, Options{})
			must(t, err)
			g, p := r.GPUs[0], r.PerProcess[0]
			if g.AtLeast == c.complete || p.Coverage.Complete != c.complete || r.Queues[0].Coverage.Complete != (c.complete && len(c.first) > 0) {
				t.Errorf("complete %v: GPU %+v, process %+v, queue %+v", c.complete, g.Coverage, p.Coverage, r.Queues[0].Coverage)
			}
			if r.Coverage.QueuedBefore != int64(c.before) {
				t.Errorf("%d queued before, want %d", r.Coverage.QueuedBefore, c.before)
			}
		})
	}
}

// A trace of an earlier version does not say what was queued.
func TestWithoutQueuedBefore(t *testing.T) {
	path := backlogTrace(t, 5, []tracedb.Dispatch{{StartNS: 51000, EndNS: 61000}}, nil)
	change(t, path, "ALTER TABLE rtl_window DROP COLUMN queued_before")
	if r, err := Make(path, Options{}); err != nil || r.Coverage.QueuedBefore != 0 || r.GPUs[0].AtLeast {
		t.Errorf("%v, %+v", err, r)
	}
}

// A target that died leaves no last record: it was recorded all the same, from the
// recorder's begin to the moment at which that saw its end.
func TestRecordedWithoutEnd(t *testing.T) {
	path := backlogTrace(t, 0, []tracedb.Dispatch{{StartNS: 51000, EndNS: 61000}}, nil)
	change(t, path, "UPDATE rtl_session SET begun_ns = 1500, armed_ns = NULL, detached_ns = NULL, ended_ns = 81500, window_start_ns = NULL, window_end_ns = NULL")
	r, err := Make(path, Options{})
	must(t, err)
	if g := r.GPUs[0]; g.RecordedNS != 80000 || g.BusyNS != 10000 {
		t.Errorf("%+v", g.Busy)
	}
}

// What one session has not seen, another's queues do not make up for.
func TestQueuesSeenBySession(t *testing.T) {
	path := backlogTrace(t, 0, nil, nil)
	appendTo(t, path, func(db *tracedb.DB) { begin(t, db, 7, "cut off") })
	change(t, path, "UPDATE rtl_counter SET value = 3 WHERE name = 'queues_seen'")
	s, err := Summarize(path, 1)
	must(t, err)
	if c := s.Coverage; c.QueuesRecorded != 3 || c.QueuesSeen != 4 {
		t.Errorf("%d of %d queues", c.QueuesRecorded, c.QueuesSeen)
	}
}

// A gap is told from where it was recorded, and asked for.
func TestLongestBeginInTheWindow(t *testing.T) {
	r, err := Make(causesTrace(t), Options{Window: &Span{FromNS: 3000, UntilNS: 4700}}) // 4,000 to 5,700
	must(t, err)
	if g := r.LongestGaps[0]; g.BeginNS != 4000 || g.LengthNS != 1000 {
		t.Errorf("%+v", g)
	}
	if r, err = Make(causesTrace(t), Options{}); err != nil {
		t.Fatal(err)
	}
	if g := r.LongestGaps[0]; g.BeginNS != 7500 || g.LengthNS != 10500 {
		t.Errorf("%+v", g)
	}
}
