package session

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// groupWarnings keeps the warnings of a group.
type groupWarnings struct {
	quietGroup
	texts []string
}

func (w *groupWarnings) Warn(text string) { w.texts = append(w.texts, text) }

// joiner is the group of pair, to which a late worker is joining.
func joiner(t *testing.T) (j *joins, ui *groupWarnings, late *joining, end context.CancelFunc) {
	t.Helper()
	g, _, one, other := pair(t)
	ui = &groupWarnings{}
	g.ui, g.privileges.keep = ui, true
	for _, m := range []*member{one, other} {
		m.conclude(failure.OK, 0)
	}
	window, end := context.WithCancel(context.Background())
	g.choice = &discover.Choice{}
	g.joins = newJoins(g, window)
	worker := discover.LateWorker{Process: discover.Process{PID: -3, StartTicks: 5, Command: "serve"}}
	g.lateWorkers = []discover.LateWorker{worker}
	g.joins.note(worker)
	return g.joins, ui, g.joins.waiting[0], end
}

// tryOnce makes an attach that ends with that failure.
func tryOnce(j *joins, late *joining, f *failure.Error) {
	j.mu.Lock()
	j.waiting = nil
	j.mu.Unlock()
	late.tries++
	m := j.group.newMember(late.Process)
	m.late, j.current = late, m
	j.group.add(m)
	m.fail(tracedb.OutcomeRefused, f)
	m.letGo()
	j.conclude(false)
}

var tooEarly = &failure.Error{What: "cannot trace pid -3", Cause: "it has no ROCm runtime", Code: failure.Unsuitable}

// TestJoinTriesAgain: a worker that cannot be attached to is tried again after a while, and then named with the reason. It does not
// change the exit code.
func TestJoinTriesAgain(t *testing.T) {
	j, ui, late, end := joiner(t)
	defer end()
	for try := 1; try < joinTries; try++ {
		tryOnce(j, late, tooEarly)
		if len(j.waiting) != 1 || !j.isBusy() || len(j.group.members) != 2 || time.Until(late.next) <= 0 || len(ui.texts) > 0 {
			t.Fatalf("after %d tries %d wait, of %d members; %q", try, len(j.waiting), len(j.group.members), ui.texts)
		}
		if j.step(); j.current != nil {
			t.Fatal("tried at once")
		}
	}
	tryOnce(j, late, tooEarly)
	const want = "worker -3 (serve) came to hold a GPU during the recording: it is not in the trace: cannot trace pid -3: it has no ROCm runtime"
	if j.isBusy() || len(ui.texts) != 1 || ui.texts[0] != want || len(ui.failed) > 0 {
		t.Errorf("%q, %v", ui.texts, ui.failed)
	}
	targets := j.group.outcomes()
	if n := len(targets); n != 3 || targets[2].Outcome != tracedb.OutcomeLateWorker || !strings.HasSuffix(want, targets[2].Detail) || j.group.code() != failure.OK {
		t.Errorf("%+v, exit code %d", targets, j.group.code())
	}
}

// TestJoinRemains: if something remains in a worker, it is not tried again, and the exit code says so.
func TestJoinRemains(t *testing.T) {
	j, ui, late, end := joiner(t)
	defer end()
	tryOnce(j, late, &failure.Error{What: "cannot attach", Cause: "it hangs", Code: failure.Remains})
	if j.isBusy() || j.group.code() != failure.Remains || len(ui.failed) != 1 {
		t.Errorf("exit code %d, %v", j.group.code(), ui.failed)
	}
}

// TestJoinAtTheEnd: workers that are not attached to when the window ends are named, and so are those that come later.
func TestJoinAtTheEnd(t *testing.T) {
	j, ui, late, end := joiner(t)
	end()
	j.end()
	j.note(late.LateWorker)
	const want = "worker -3 (serve) came to hold a GPU during the recording: it is not in the trace"
	if len(ui.texts) != 2 || ui.texts[0] != want || ui.texts[1] != want {
		t.Errorf("%q", ui.texts)
	}
	tryOnce(j, late, &failure.Error{Code: failure.Failed, Err: context.Canceled})
	if len(j.waiting) > 0 || len(ui.texts) != 3 || ui.texts[2] != want || len(ui.failed) > 0 {
		t.Errorf("%q, %v", ui.texts, ui.failed)
	}
}

// TestJoinedFails: a worker whose recording fails after it has joined is reported as any other.
func TestJoinedFails(t *testing.T) {
	j, ui, late, end := joiner(t)
	defer end()
	j.waiting = nil
	m := j.group.newMember(late.Process)
	m.late = late
	j.group.add(m)
	m.joinedNS.Store(j.group.startNS + uint64(2*time.Second))
	m.fail(tracedb.OutcomeFailed, &failure.Error{What: "the trace is not complete", Cause: "taken over", Code: failure.Failed})
	targets := j.group.outcomes()
	const want = "came to hold a GPU during the recording, recorded from 2.0 s into the common window; the trace is not complete: taken over"
	if n := len(targets); n != 3 || targets[2].Outcome != tracedb.OutcomeFailed || targets[2].Detail != want || j.group.code() != failure.SomeFailed || len(ui.failed) != 1 {
		t.Errorf("%+v, exit code %d, %v", targets, j.group.code(), ui.failed)
	}
}
