package session

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// quietGroup keeps count of who failed.
type quietGroup struct {
	quiet
	mu     sync.Mutex
	failed []*failure.Error
}

func (*quietGroup) PassedOver(string)  {}
func (*quietGroup) AllAttached(string) {}
func (*quietGroup) Joined(string)      {}

func (q *quietGroup) Failed(f *failure.Error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed = append(q.failed, f)
}

// pair is a group of two that do not exist: nobody has such pids.
func pair(t *testing.T) (g *group, ui *quietGroup, one, other *member) {
	t.Helper()
	ui = &quietGroup{}
	g = &group{ui: ui, privileges: &privileges{needed: 1}}
	one, other = g.newMember(discover.Process{PID: -1}), g.newMember(discover.Process{PID: -2})
	g.members = []*member{one, other}
	return g, ui, one, other
}

// TestHangIsItsOwn: who hangs is given up, and nobody else.
func TestHangIsItsOwn(t *testing.T) {
	g, ui, one, other := pair(t)
	before := watchdog.Limit
	watchdog.Limit = -stallGrace // at the first look
	defer func() { watchdog.Limit = before }()
	read := (&target.Target{PID: one.PID}).BeginRead(target.Memory)
	defer target.EndRead(read)

	waited := make(chan struct{})
	go func() {
		defer close(waited)
		other.wait()
	}()
	one.wait()
	if f := other.stall(0); f != nil {
		t.Errorf("the other: %v", f)
	}
	other.conclude(failure.OK, 0)
	close(other.done)
	<-waited
	if !one.abandoned.Load() || one.exit != failure.Failed || !strings.Contains(one.failure.What, "pid -1") {
		t.Errorf("the one that hangs: abandoned %v, %+v", one.abandoned.Load(), one.result)
	}
	if other.abandoned.Load() || other.failure != nil || other.outcome != tracedb.OutcomeRecorded {
		t.Errorf("the other: abandoned %v, %+v", other.abandoned.Load(), other.result)
	}
	if len(ui.failed) != 1 || g.stalled() != one {
		t.Errorf("%d failures told; held up by %+v", len(ui.failed), g.stalled())
	}
}

// TestHangInAStop: the kernel is about to end this process, so that nobody is waited
// for; the cause has its name.
func TestHangInAStop(t *testing.T) {
	g, _, one, other := pair(t)
	defer one.tracer.Close()
	err := one.tracer.Do(func() error {
		f := other.stall(0)
		if f == nil || !errors.Is(f, watchdog.ErrStalled) || !strings.Contains(f.What, "pid -1 holds this tool up") {
			t.Errorf("the other: %v", f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	other.abandon()
	if g.stalled() != one {
		t.Errorf("held up by pid %d", g.stalled().PID)
	}
}

// TestVerdictHolds: an abandoned member that comes to an end all the same changes nothing.
func TestVerdictHolds(t *testing.T) {
	_, ui, one, _ := pair(t)
	one.abandon()
	one.fail(tracedb.OutcomeFailed, watchdog.Failure(one.PID))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		one.fail(tracedb.OutcomeFailed, &failure.Error{What: "late", Code: failure.Remains})
		one.conclude(failure.OK, 7)
	}()
	if one.exit != failure.Failed || one.endNS != 0 || one.failure.What == "late" { // not ordered: the race detector looks on
		t.Errorf("%+v", one.result)
	}
	<-ended
	if one.exit != failure.Failed || len(ui.failed) != 1 {
		t.Errorf("%+v, %d failures told", one.result, len(ui.failed))
	}
}

// TestRevokedGuard: what an abandoned member writes does not reach the others' trace.
func TestRevokedGuard(t *testing.T) {
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "trace.db"), 0)
	if err != nil {
		t.Fatal(err)
	}
	db, err := tracedb.Make(place)
	if err != nil {
		t.Fatal(err)
	}
	_, _, one, other := pair(t)
	s, err := db.Begin(tracedb.SessionInfo{PID: 1, Guard: &one.trace.guard})
	if err != nil {
		t.Fatal(err)
	}
	one.abandon()
	bad := []tracedb.Dispatch{{Queue: 99, Launch: 99}} // would fail, and the file with it
	if err := s.Dispatches(bad); !errors.Is(err, tracedb.ErrRevoked) {
		t.Errorf("a batch: %v", err)
	}
	if err := s.Counters(nil); !errors.Is(err, tracedb.ErrRevoked) {
		t.Errorf("its counters: %v", err)
	}
	if _, err := db.Begin(tracedb.SessionInfo{PID: 1, Guard: &one.trace.guard}); !errors.Is(err, tracedb.ErrRevoked) {
		t.Errorf("a further session: %v", err)
	}
	if _, err := db.Begin(tracedb.SessionInfo{PID: 2, Guard: &other.trace.guard}); err != nil {
		t.Errorf("the other: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
