package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// unfinished writes a session from 1,000 ns on: three kernels, between them barriers and a
// packet without times. It returns what the file holds when it is complete up to 20,000.
func unfinished(t *testing.T) (db *tracedb.DB, s *tracedb.Session, path string, soFar []byte) {
	t.Helper()
	db, path = create(t)
	s, err := db.Begin(tracedb.SessionInfo{PID: 41220, Command: "server", Host: "node", ArmedNS: 1000, Recorder: tracedb.Recorder{PID: 7}})
	must(t, err)
	must(t, s.Agent(tracedb.Agent{ID: 1, Name: "gfx942"}), s.Queue(tracedb.Queue{ID: 1, Agent: 1}),
		s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "_Z4gemmPf.kd"}),
		s.Window(tracedb.Window{Queue: 1, OpenNS: 1000}),
		s.Dispatches([]tracedb.Dispatch{
			{Queue: 1, Launch: 1, TID: 7, Index: 0, StartNS: 2000, EndNS: 3000, SubmitNS: 1500},
			{Queue: 1, Launch: 1, TID: 7, Index: 2, StartNS: 9000, EndNS: 10_000, SubmitNS: 8000},
			{Queue: 1, Launch: 1, TID: 7, Index: 5, StartNS: 19_000, EndNS: 21_000, SubmitNS: 9000},
		}),
		s.Untimed(tracedb.Untimed{Queue: 1, Reason: uint32(ring.ReasonNoSignal), Index: 3, Packets: 1}),
		s.Mark(tracedb.Mark{UntilNS: 20_000, Coverage: []tracedb.Coverage{{Queue: 1, Windows: 1, WindowsOpen: 1, Timed: 3, Untimed: 1}}}),
		s.Flush()) // a session that has begun is committed at once
	soFar, err = os.ReadFile(path)
	must(t, err)
	return db, s, path, soFar
}

// beside writes a trace to a file of its own.
func beside(t *testing.T, trace []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "t.db")
	must(t, os.WriteFile(path, trace, 0o600))
	return path
}

// asRecorder locks a trace as its recorder does, until the test ends.
func asRecorder(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	must(t, unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: 1 << 62, Len: 1}))
}

// A trace that a recorder is writing, one that it never ended, and one that ended on a full
// disk: each is complete up to a time, and idle times up to there have their causes.
func TestUnfinished(t *testing.T) {
	db, s, path, soFar := unfinished(t)
	written, killed, full := beside(t, soFar), beside(t, soFar), beside(t, soFar)
	asRecorder(t, written)
	change(t, full, "UPDATE rtl_session SET end_reason = 'disk full', detached_ns = 30000, window_end_ns = 30000")
	for trace, want := range map[string]string{
		written: "So far     pid 41220: still being recorded",
		killed:  "Cut off    pid 41220: the recorder was killed",
		full:    "Cut off    pid 41220: disk full",
	} {
		want += "; complete up to 19 µs after its begin, and idle times are of that\n"
		r, err := Make(trace, Options{})
		must(t, err)
		if g := r.GPUs[0]; g.BusyNS != 3000 || g.RecordedNS != 19_000 || !g.AtLeast {
			t.Errorf("%s: %+v", want, g)
		}
		if c := r.Coverage; c.Timed != 3 || c.Dispatches != 4 || c.QueuesRecorded != 1 || c.WindowsOpen != 1 || c.Complete() {
			t.Errorf("%s: %+v", want, c)
		}
		if r.Sessions[0].InProgress != (trace == written) || r.Sessions[0].Complete {
			t.Errorf("%+v", r.Sessions[0])
		}
		wantCauses(t, trace, map[string]int64{"host": 5000, "dependency": 1000, "unknown": 9000, "edge": 1000})
		var text bytes.Buffer
		must(t, r.WriteText(&text, false))
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.Bytes())
		}
	}
	must(t, s.End(tracedb.End{Reason: tracedb.EndElapsed, ArmedNS: 1000, DetachedNS: 41_000, WindowEndNS: 31_000}), db.Close())
	checkLateDetach(t, path)
}

// checkLateDetach: a detach that was late makes no declared window longer.
func checkLateDetach(t *testing.T, path string) {
	t.Helper()
	r, err := Make(path, Options{})
	must(t, err)
	if g := r.GPUs[0]; g.BusyNS != 4000 || g.RecordedNS != 30_000 {
		t.Errorf("%+v", g)
	}
	var text bytes.Buffer
	must(t, r.WriteText(&text, false))
	if strings.Contains(text.String(), "Ended") || strings.Contains(text.String(), "Cut off") {
		t.Errorf("it ended as asked:\n%s", text.Bytes())
	}
}
