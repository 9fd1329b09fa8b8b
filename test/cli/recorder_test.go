package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// TestRecorderDies: without a recorder the payload detaches by itself, after
// an injection as after a reattach.
func TestRecorderDies(t *testing.T) {
	s := serve(t)
	before := s.inventory(t)
	for _, how := range []string{"payload loaded", "re-attached"} {
		r := s.record(t, hang.Limit, quickly)
		r.Says(t, how)
		began := time.Now()
		r.Kill()
		s.atRest(t)
		t.Logf("%s: detached by itself %v after the recorder's death", how, time.Since(began))
		if st := s.status(t); !strings.Contains(st.LastEnd, "no sign of life") {
			t.Errorf("status does not say why it ended: %+v", st)
		}
		s.unharmed(t)
		s.onlyDormant(t, before)
	}
	end(t, s)
}

// TestRecorderStopped: a recorder that sleeps for longer than the time-out
// finds its session ended, saves what there is, and says so. In the second case its
// own window is over, too.
func TestRecorderStopped(t *testing.T) {
	for _, window := range []time.Duration{hang.Limit, 20 * time.Second} {
		t.Run(window.String(), func(t *testing.T) {
			t.Parallel() // they wait for most of the time
			s := serve(t)
			before := s.inventory(t)
			r := s.record(t, window, "--set=RTL_RECORDER_TIMEOUT_MS=3000") // a starved recorder lives
			r.Says(t, "attached")
			recorded(t, s)
			r.Signal(t, unix.SIGSTOP)
			stopped := time.Now()
			s.atRest(t)
			s.unharmed(t)
			if window < hang.Limit {
				time.Sleep(time.Until(stopped.Add(window)))
			}
			r.Signal(t, unix.SIGCONT)
			r.MustExit(t, 0)
			if said := r.Stderr.String(); !strings.Contains(said, "no sign of life") {
				t.Errorf("the recorder does not say what happened:\n%s", said)
			}
			sum := r.ReadSummary(t)
			if reason := sum.Sessions[0].EndReason; !strings.Contains(reason, "recorder") {
				t.Errorf("the trace says %q of its end", reason)
			}
			if sum.Coverage.Timed == 0 {
				t.Errorf("nothing in the trace: %+v", sum.Coverage)
			}
			s.onlyDormant(t, before)
			s.again(t)
			end(t, s)
		})
	}
}

// TestRecorderStoppedEarly: the same, before it has the ring that goes with the session.
func TestRecorderStoppedEarly(t *testing.T) {
	s := serve(t)
	before := s.inventory(t)
	trace := filepath.Join(t.TempDir(), "t.db")
	r := newRun(t, trace, "-p", strconv.Itoa(s.pid), "-o", trace, quickly)
	r.Cmd.Path = testenv.Artefact(t, "rtl-attach-fault")
	r.Cmd.Env = append(os.Environ(), "RTL_FAULT=stop@"+string(testpoint.Attached))
	r.Start(t)
	r.Says(t, "made to stop")
	progresses(t, s)
	s.atRest(t)
	r.Signal(t, unix.SIGCONT)
	r.MustExit(t, int(failure.NothingSeen))
	sum := r.ReadSummary(t)
	if len(sum.Sessions) != 1 || !strings.Contains(sum.Sessions[0].EndReason, "no sign of life") {
		t.Errorf("the trace says of its end: %+v", sum.Sessions)
	}
	if len(sum.Losses) != 1 || sum.Losses[0].Cause != session.CauseMissed || sum.Losses[0].Records == 0 {
		t.Errorf("the trace says of what is missing: %+v", sum.Losses)
	}
	s.onlyDormant(t, before)
	s.again(t)
	end(t, s)
}

// progresses waits until the target has done some work.
func progresses(t testing.TB, s *subject) {
	t.Helper()
	from := s.launches(t)
	if !hang.Eventually(func() bool { return s.launches(t) > from+200 }) {
		t.Error("the target makes no progress")
	}
}

// recorded waits until the target has done some work under the recorder, and some of it is timed.
func recorded(t testing.TB, s *subject) {
	t.Helper()
	timed := func() uint64 { c := s.status(t).Counters; return c["timed_pool"] + c["timed_app"] }
	from := timed()
	progresses(t, s)
	if !hang.Eventually(func() bool { return timed() > from }) {
		t.Error("nothing is recorded")
	}
}

// TestTwoRecorders at once: one wins, the other names it.
func TestTwoRecorders(t *testing.T) {
	s := serve(t)
	before := s.inventory(t)
	for range testenv.Times(3, 20) {
		won, lost := s.record(t, hang.Limit), s.record(t, hang.Limit) // neither ends before the other has begun
		if !hang.Eventually(func() bool { return won.HasSaid("attached  ") || lost.HasSaid("attached  ") }) {
			t.Error("neither attaches")
		}
		if lost.HasSaid("attached  ") {
			won, lost = lost, won
		}
		lost.MustExit(t, 3)
		won.Signal(t, unix.SIGINT)
		won.MustExit(t, 0, 7)
		if said := lost.Stderr.String(); !strings.Contains(said, strconv.Itoa(won.Cmd.Process.Pid)) {
			t.Errorf("the loser does not name pid %d:\n%s", won.Cmd.Process.Pid, said)
		}
		s.unharmed(t)
		s.onlyDormant(t, before)
	}
	end(t, s)
}

// TestDetachWhileAttaching: another terminal is faster than the recorder. All
// exit codes are documented ones, and in the end nothing is active.
func TestDetachWhileAttaching(t *testing.T) {
	for range testenv.Times(4, 50) {
		s := serve(t)
		before := s.inventory(t)
		r := s.record(t, hang.Limit)
		codes := map[int]int{}
		for ended := false; !ended; {
			d := tool(t, "", "detach", strconv.Itoa(s.pid))
			codes[d.Exit(t)]++
			if d.Code != 0 && d.Code != 3 {
				t.Errorf("detach: exit code %d\n%s", d.Code, d.Stderr.String())
				ended = true
			}
			ended = ended || d.Code == 0
		}
		if code := r.Exit(t); code != 0 && code != 7 {
			t.Errorf("the recorder: exit code %d\n%s", code, r.Stderr.String())
		}
		t.Logf("detach: exit codes %v, recorder: %d", codes, r.Code)
		s.onlyDormant(t, before)
		s.unharmed(t)
		s.again(t)
		end(t, s)
	}
}

// TestTwoDetaches at once, of a session whose recorder has died.
func TestTwoDetaches(t *testing.T) {
	s := serve(t)
	before := s.inventory(t)
	for range testenv.Times(3, 50) {
		r := s.record(t, hang.Limit)
		r.Says(t, "attached")
		r.Kill()
		a, b := tool(t, "", "detach", strconv.Itoa(s.pid)), tool(t, "", "detach", strconv.Itoa(s.pid))
		if a.Exit(t) != 0 && b.Exit(t) != 0 {
			t.Errorf("both failed:\n%s%s", a.Stderr.String(), b.Stderr.String())
		}
		b.Exit(t)
		if st := s.status(t); st.State != "dormant" {
			t.Errorf("still there: %+v", st)
		}
		s.onlyDormant(t, before)
	}
	end(t, s)
}
