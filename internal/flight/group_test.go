package flight

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// begun returns a recorder of a process with a queue and a launch.
func begun(g *Group, pid int) *Recorder {
	r := g.New(hostOf(pid), all.Kinds, boottimeNS()-uint64(10*time.Second), noHoles)
	r.Keep(line(ring.TypeQueue, ring.Queue{}, func(q *ring.Queue) { q.ID = 1 }))
	r.Keep(line(ring.TypeLaunch, ring.Launch{}, func(l *ring.Launch) { l.ID = 1 }))
	r.Keep(window(ring.WindowOpen, 1, 0, boottimeNS()))
	return r
}

// A trace has the records of all processes, also of one that has ended, and one window.
func TestGroup(t *testing.T) {
	h := hostIn(t.TempDir())
	h.Targets = func(s State) []tracedb.Target {
		if len(s.Gone) != 1 || s.Gone[9] != "it was killed" || len(s.Late) != 0 {
			t.Errorf("%+v", s)
		}
		return []tracedb.Target{{PID: 7, Outcome: tracedb.OutcomeRecorded}, {PID: 8, Outcome: tracedb.OutcomeRecorded}, {PID: 9, Outcome: tracedb.OutcomeExited}}
	}
	g := newTestGroup(t, h, 3, 1)
	first, second, dead := begun(g, 7), begun(g, 8), begun(g, 9)
	play(t, dead, 0, 30)
	if err := dead.End(tracedb.End{Reason: "killed"}); err != nil {
		t.Fatal(err)
	}
	dead.TargetEnded("it was killed")
	dead.Release()
	play(t, first, 0, 10)
	play(t, second, 0, 20)
	asked := second.Ask("a test")
	play(t, first, 10, 1)
	select {
	case o := <-asked:
		t.Fatalf("a trace without the records of a process: %+v", o)
	default:
	}
	play(t, second, 20, 1)
	o := <-asked
	if o.Err != nil || o.Number != 1 {
		t.Fatalf("%+v", o)
	}
	db, err := tracedb.Open(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for pid, want := range map[int]int{7: 11, 8: 21, 9: 30} {
		var kernels, within int
		var reason string
		err := db.QueryRow(`SELECT count(d.id), max(s.window_start_ns >= c.start_ns OR s.pid = 9) + max(s.window_end_ns = c.end_ns OR s.pid = 9), s.end_reason FROM rtl_common c
			JOIN rtl_session s JOIN rtl_queue q ON q.session_id = s.id JOIN rtl_dispatch d ON d.queue_id = q.id WHERE s.pid = ?`, pid).Scan(&kernels, &within, &reason)
		if err != nil || kernels != want || within != 2 || (reason == "killed") != (pid == 9) {
			t.Errorf("pid %d: %d kernels, %d, %q: %v", pid, kernels, within, reason, err)
		}
	}
}

// The end of a process is a trigger of its own, also while another one waits; conditions meanwhile are counted.
func TestGroupExit(t *testing.T) {
	outcomes := make(chan Outcome, 2)
	h := hostIn(t.TempDir())
	h.Targets = func(State) []tracedb.Target { return nil }
	h.Written = func(o Outcome) { outcomes <- o }
	g := newTestGroup(t, h, 2, 5, "exit")
	living, dying := begun(g, 7), begun(g, 8)
	play(t, living, 0, 5)
	play(t, dying, 0, 5)
	asked := g.Ask("a test")
	if err := dying.End(tracedb.End{}); err != nil {
		t.Fatal(err)
	}
	dying.TargetEnded("it was killed")
	var number uint64
	for number < 2 {
		select {
		case o := <-outcomes:
			if number++; o.Err != nil || o.Number != number || number == 2 && (o.Expression != "exit" || o.Value != "pid 8: it was killed") {
				t.Fatalf("%+v", o)
			}
		default:
			play(t, living, 5, 1)
		}
	}
	<-asked
	if err := living.End(tracedb.End{}); err != nil {
		t.Fatal(err)
	}
	if o := <-g.Ask("no session goes on"); !errors.Is(o.Err, ErrEnded) {
		t.Errorf("%+v", o)
	}
	g.Close()
}

// TestGroupExitAfter: where the end of a process is the trigger, the windows of the others go on for KeepAfter.
func TestGroupExitAfter(t *testing.T) {
	outcomes := make(chan Outcome, 1)
	h := hostIn(t.TempDir())
	h.Targets = func(State) []tracedb.Target { return nil }
	h.Written = func(o Outcome) { outcomes <- o }
	g := newTestGroup(t, h, 2, 5, "exit")
	g.config.KeepAfter = time.Hour
	living, dying := begun(g, 7), begun(g, 8)
	play(t, living, 0, 5)
	play(t, dying, 0, 5)
	if err := dying.End(tracedb.End{}); err != nil {
		t.Fatal(err)
	}
	dying.TargetEnded("it was killed")
	g.mu.Lock()
	p := g.queue[0]
	living.markNS = p.AtNS + uint64(g.config.KeepAfter)
	p.add(living, nil)
	g.mu.Unlock()
	g.Close()
	o := <-outcomes
	db, err := tracedb.Open(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var common, survivor, dead int64
	err = db.QueryRow(`SELECT end_ns - ?1, (SELECT window_end_ns - ?1 FROM rtl_session WHERE pid = 7), (SELECT window_end_ns - ?1 FROM rtl_session WHERE pid = 8)
		FROM rtl_common`, o.FiredNS).Scan(&common, &survivor, &dead)
	if after := int64(g.config.KeepAfter); err != nil || common != after || survivor != after || dead != 0 {
		t.Errorf("the windows end %d, %d and %d ns after the trigger: %v", common, survivor, dead, err)
	}
}

// TestPrune: while a trigger waits until another one's trace is written, no session is forgotten that has ended.
func TestPrune(t *testing.T) {
	g := newTestGroup(t, hostIn(t.TempDir()), 2, 5)
	living, ended := begun(g, 7), begun(g, 8)
	if err := ended.End(tracedb.End{}); err != nil {
		t.Fatal(err)
	}
	ended.endedNS = 1
	g.writing, g.queue = &sync.WaitGroup{}, []*pending{{}}
	if g.wants(living); len(g.ended) != 1 {
		t.Error("forgotten")
	}
	g.queue = nil
	if g.wants(living); len(g.ended) != 0 {
		t.Error("kept, though no trigger waits")
	}
}

// TestJoinedAfter: a process that joined after the common window is not in the trace, and does not shorten the window: it joined before
// the records of the other end, after the trigger, and has none yet.
func TestJoinedAfter(t *testing.T) {
	g := newTestGroup(t, hostIn(t.TempDir()), 2, 5)
	g.config.KeepAfter = time.Hour
	first := begun(g, 7)
	play(t, first, 0, 5)
	g.Ask("a test")
	host := hostOf(8)
	host.Joined = true
	g.mu.Lock()
	p := g.queue[0]
	first.markNS = p.AtNS + uint64(time.Minute)
	g.mu.Unlock()
	joined := g.New(host, all.Kinds, p.AtNS+uint64(time.Second), noHoles)
	joined.Keep(window(ring.WindowOpen, 1, 0, p.AtNS))
	g.mu.Lock()
	p.add(first, nil)
	p.add(joined, nil)
	w := g.gather(p)
	g.mu.Unlock()
	if !w.state.InTrace[7] || w.state.InTrace[8] || w.endNS != first.markNS {
		t.Errorf("%+v; the window ends %d ns after the trigger", w.state, w.endNS-p.AtNS)
	}
	g.Close()
}

// A process whose records do not come does not hold up the trace for ever.
func TestGroupLate(t *testing.T) {
	h := hostIn(t.TempDir())
	late := make(chan State, 1)
	h.Targets = func(s State) []tracedb.Target { late <- s; return nil }
	g := newTestGroup(t, h, 2, 5)
	good, stuck := begun(g, 7), begun(g, 8)
	play(t, good, 0, 5)
	play(t, stuck, 0, 5)
	asked := g.Ask("a test")
	g.mu.Lock()
	g.queue[0].AtNS -= uint64(lateness + stalled + time.Second)
	g.mu.Unlock()
	play(t, good, 5, 1)
	if o := <-asked; o.Err != nil || len(o.Late) != 1 || o.Late[0] != 8 {
		t.Fatalf("%+v", o)
	}
	if s := <-late; !s.Late[8] || s.Late[7] {
		t.Errorf("%+v", s)
	}
	g.Close()
}

// The ended sessions of a process that restarts its runtime all the time take no more memory than its share.
func TestEndedAreBounded(t *testing.T) {
	g := newTestGroup(t, hostIn(t.TempDir()), 4, 5)
	for range 40 {
		r := begun(g, 7)
		play(t, r, 0, 3000)
		if err := r.End(tracedb.End{}); err != nil {
			t.Fatal(err)
		}
	}
	var bytes uint64
	for _, r := range g.ended {
		bytes += r.store.sizeOf()
	}
	if n := len(g.ended); n == 0 || n > 20 || bytes > g.share.Load() {
		t.Errorf("%d sessions are kept, with %d bytes; a share has %d", n, bytes, g.share.Load())
	}
}

// TestJoining: where processes begin meanwhile, a trace goes back to before the latest did, with what the earlier ones recorded.
func TestJoining(t *testing.T) {
	h := hostIn(t.TempDir())
	h.Joining = true
	h.Targets = func(s State) []tracedb.Target {
		if !s.InTrace[7] || !s.InTrace[8] || s.InTrace[9] {
			t.Errorf("%+v", s)
		}
		return nil
	}
	g := newTestGroup(t, h, 1, 5)
	first := begun(g, 7)
	play(t, first, 0, 10)
	if err := first.End(tracedb.End{}); err != nil {
		t.Fatal(err)
	}
	second := g.New(hostOf(8), all.Kinds, boottimeNS(), noHoles)
	second.Keep(window(ring.WindowOpen, 1, 0, boottimeNS()))
	play(t, second, 0, 5)
	asked := g.Ask("a test")
	play(t, second, 5, 1)
	o := <-asked
	if o.Err != nil || o.FromNS != first.fromNS || o.Records < 16 {
		t.Errorf("%+v, from %d, the first process's begin is %d", o, o.FromNS, first.fromNS)
	}
	g.Close()
}

// TestJoined: a trace goes back to before a process joined the others, and not to before the others began.
func TestJoined(t *testing.T) {
	g := newTestGroup(t, hostIn(t.TempDir()), 2, 5)
	first, second := begun(g, 7), begun(g, 8)
	play(t, first, 0, 10)
	play(t, second, 0, 10)
	host := hostOf(9)
	host.Joined = true
	joined := g.New(host, all.Kinds, boottimeNS(), noHoles)
	joined.Keep(window(ring.WindowOpen, 1, 0, boottimeNS()))
	play(t, joined, 0, 5)
	asked := g.Ask("a test")
	for _, r := range []*Recorder{first, second, joined} {
		play(t, r, 10, 1)
	}
	if o := <-asked; o.Err != nil || o.FromNS != max(first.fromNS, second.fromNS) || o.FromNS >= joined.fromNS {
		t.Errorf("%+v, from %d; they began at %d, %d and %d", o, o.FromNS, first.fromNS, second.fromNS, joined.fromNS)
	}
	g.Close()
}

// TestJoiningAreBounded: more processes than were expected share the memory, and those that have ended are dropped first. A trace does not
// claim the time of those.
func TestJoiningAreBounded(t *testing.T) {
	h := hostIn(t.TempDir())
	h.Joining, h.Targets = true, func(State) []tracedb.Target { return nil }
	g := newTestGroup(t, h, 1, 5)
	last := begun(g, 1000)
	for pid := range 12 {
		r := begun(g, pid+1)
		if n := g.share.Load(); n != g.config.SizeBytes/2 {
			t.Fatalf("a share of two has %d bytes", n)
		}
		for from := range uint64(4) {
			play(t, r, from*4000, 4000)
		}
		if err := r.End(tracedb.End{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := g.SizeBytes(); n > g.config.SizeBytes || len(g.ended) < 2 || len(g.ended) == 12 {
		t.Errorf("%d bytes of %d ended processes", n, len(g.ended))
	}
	asked := g.Ask("a test")
	play(t, last, 0, 1)
	if o := <-asked; o.Err != nil || o.FromNS != g.floorNS {
		t.Errorf("%+v, from %d; dropped is what ended until %d", o, o.FromNS, g.floorNS)
	}
	g.Close()
}
