package flight

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/trigger"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// hostOf returns the host of a process.
func hostOf(pid int) Host {
	return Host{
		PID: pid,
		Info: func() tracedb.SessionInfo {
			return tracedb.SessionInfo{PID: uint32(pid), ThreadName: func(uint32) string { return "worker" }}
		},
		Counters: func() []tracedb.Counter { return []tracedb.Counter{{Name: "packets", Value: 5}} },
		Idle:     func() bool { return false },
	}
}

// hostIn returns a host that makes its traces in a folder.
func hostIn(dir string) GroupHost {
	return GroupHost{
		Create: func(number uint64) (*tracedb.DB, func(), error) {
			place, err := tracedb.Check(filepath.Join(dir, fmt.Sprintf("t-%d.db", number)), 0)
			if err != nil {
				return nil, nil, err
			}
			db, err := tracedb.Create(place)
			return db, func() {}, err
		},
		Run:     func(work func()) { go work() },
		Written: func(Outcome) {},
	}
}

func newTestRecorder(t *testing.T, dir string, most uint64, conditions ...string) *Recorder {
	t.Helper()
	return newTestGroup(t, hostIn(dir), 1, most, conditions...).New(hostOf(7), all.Kinds, boottimeNS(), noHoles)
}

func noHoles() uint64 { return 0 }

func newTestGroup(t *testing.T, h GroupHost, processes int, most uint64, conditions ...string) *Group {
	t.Helper()
	c := &Config{KeepLast: time.Minute, SizeBytes: 4 << 20, MaxTriggers: most}
	for _, text := range conditions {
		one, err := trigger.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		c.Conditions = append(c.Conditions, one)
	}
	return NewGroup(c, h, processes)
}

// play records kernels, and completes them.
func play(t *testing.T, r *Recorder, from, n uint64) {
	t.Helper()
	for i := range n {
		r.Keep(dispatch(1, 1, from+i, boottimeNS()))
	}
	now := boottimeNS()
	b := tracedb.Batch{Dispatches: []tracedb.Dispatch{{Queue: 1, Launch: 1, StartNS: now - 1, EndNS: now, TID: 7}}}
	if err := errors.Join(r.Write(b), r.Mark(tracedb.Mark{UntilNS: now}), r.Flush()); err != nil {
		t.Fatal(err)
	}
}

// Requests get traces, with everything that was kept, up to the limit; the recorder goes on meanwhile.
func TestRequests(t *testing.T) {
	dir := t.TempDir()
	r := newTestRecorder(t, dir, 2)
	r.Keep(line(ring.TypeQueue, ring.Queue{}, func(q *ring.Queue) { q.ID = 1 }))
	r.Keep(line(ring.TypeLaunch, ring.Launch{}, func(l *ring.Launch) { l.ID = 1 }))
	r.Keep(window(ring.WindowOpen, 1, 0, boottimeNS()))
	total := uint64(0)
	for number := uint64(1); number <= 2; number++ {
		asked := r.Ask("a test")
		var o Outcome
		for done := false; !done; {
			select {
			case o = <-asked:
				done = true
			default:
				play(t, r, total, 10)
				total += 10
			}
		}
		if o.Err != nil || o.Number != number {
			t.Fatalf("%+v", o)
		}
		mustHave(t, o, total)
	}
	refused := r.Ask("one more")
	play(t, r, total, 1)
	if o := <-refused; !errors.Is(o.Err, ErrSpent) {
		t.Errorf("%+v", o)
	}
	if !r.config.IsDone() || r.config.Files() != 2 {
		t.Errorf("%d files", r.config.Files())
	}
	r.group.Close()
	if o := <-r.Ask("after the end"); !errors.Is(o.Err, ErrEnded) {
		t.Errorf("%+v", o)
	}
}

// mustHave checks a trace that has at most so many kernels.
func mustHave(t *testing.T, o Outcome, most uint64) {
	t.Helper()
	db, err := tracedb.Open(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	one, err := tracedb.TriggerOf(db, 1)
	if err != nil || one == nil || one.Expression != "a test" || one.Number != o.Number || one.LimitedBy != tracedb.LimitStart {
		t.Errorf("%+v, %v", one, err)
	}
	var kernels, first, last, losses uint64
	var thread, reason string
	err = db.QueryRow(`SELECT count(*), min(packet_index), max(packet_index), (SELECT count(*) FROM rtl_loss), (SELECT max(name) FROM rtl_thread),
		(SELECT end_reason FROM rtl_session) FROM rtl_dispatch`).Scan(&kernels, &first, &last, &losses, &thread, &reason)
	if err != nil {
		t.Fatal(err)
	}
	if kernels == 0 || kernels > most || first != 0 || last != kernels-1 || losses != 0 || thread != "worker" || reason != tracedb.EndTriggered {
		t.Errorf("%d kernels, packets %d to %d, %d losses, thread %q, %q", kernels, first, last, losses, thread, reason)
	}
}

// A trace that cannot be made is the trigger's outcome; nothing of it stays.
func TestNoTrace(t *testing.T) {
	r := newTestRecorder(t, filepath.Join(t.TempDir(), "none"), 1, "exit")
	play(t, r, 0, 5)
	outcomes := make(chan Outcome, 1)
	r.group.host.Written = func(o Outcome) { outcomes <- o }
	if err := r.End(tracedb.End{}); err != nil {
		t.Fatal(err)
	}
	r.TargetEnded("it was killed")
	r.group.Settle()
	if o := <-outcomes; !errors.Is(o.Err, tracedb.ErrUnwritable) || o.Expression != "exit" || o.Value != "it was killed" {
		t.Errorf("%+v", o)
	}
	r.group.Close()
	if r.config.Files() != 0 || !r.config.IsDone() {
		t.Error("a failed trigger counts as a file, or not as a trigger")
	}
}
