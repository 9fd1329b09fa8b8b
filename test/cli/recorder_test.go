package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/test/hang"
)

// TestRecorderDies: without a recorder the payload detaches by itself, after
// an injection as after a reattach.
func TestRecorderDies(t *testing.T) {
	s := serve(t)
	before := s.inventory(t)
	for _, how := range []string{"payload loaded", "re-attached"} {
		r := s.record(t, hang.Limit, quickly)
		r.saying.await(t, how)
		began := time.Now()
		_ = r.cmd.Process.Kill()
		r.wait(t)
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
	for _, window := range []time.Duration{hang.Limit, 30 * time.Second} {
		t.Run(window.String(), func(t *testing.T) {
			s := serve(t)
			before := s.inventory(t)
			r := s.record(t, window, "--set=RTL_RECORDER_TIMEOUT_MS=3000") // a starved recorder lives
			r.saying.await(t, "attached")
			recorded(t, s)
			if err := r.cmd.Process.Signal(unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			stopped := time.Now()
			s.atRest(t)
			s.unharmed(t)
			if window < hang.Limit {
				time.Sleep(time.Until(stopped.Add(window)))
			}
			if err := r.cmd.Process.Signal(unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
			r.expect(t, 0)
			if said := r.stderr.String(); !strings.Contains(said, "no sign of life") {
				t.Errorf("the recorder does not say what happened:\n%s", said)
			}
			sum := r.summary(t)
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
	r.cmd.Path = artefact(t, "rtl-attach-fault")
	r.cmd.Env = append(os.Environ(), "RTL_FAULT=stop@"+string(session.PointAttached))
	r.start(t)
	r.saying.await(t, "made to stop")
	recorded(t, s)
	s.atRest(t)
	if err := r.cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.expect(t, int(session.NothingSeen))
	sum := r.summary(t)
	if len(sum.Sessions) != 1 || !strings.Contains(sum.Sessions[0].EndReason, "no sign of life") {
		t.Errorf("the trace says of its end: %+v", sum.Sessions)
	}
	if len(sum.Losses) != 1 || sum.Losses[0].Cause != session.CauseUnread || sum.Losses[0].Records == 0 {
		t.Errorf("the trace says of what is missing: %+v", sum.Losses)
	}
	s.onlyDormant(t, before)
	s.again(t)
	end(t, s)
}

// recorded waits until the target has done some work under the recorder.
func recorded(t testing.TB, s *subject) {
	t.Helper()
	from := s.launches(t)
	if !hang.Eventually(func() bool { return s.launches(t) > from+200 }) {
		t.Error("the target makes no progress")
	}
}

// TestTwoRecorders at once: one wins, the other names it.
func TestTwoRecorders(t *testing.T) {
	s := serve(t)
	before := s.inventory(t)
	for range times(3, 20) {
		won, lost := s.record(t, hang.Limit), s.record(t, hang.Limit) // neither ends before the other has begun
		if !hang.Eventually(func() bool { return won.saying.has("attached  ") || lost.saying.has("attached  ") }) {
			t.Error("neither attaches")
		}
		if lost.saying.has("attached  ") {
			won, lost = lost, won
		}
		lost.expect(t, 3)
		if err := won.cmd.Process.Signal(unix.SIGINT); err != nil {
			t.Fatal(err)
		}
		won.expect(t, 0, 7)
		if said := lost.stderr.String(); !strings.Contains(said, strconv.Itoa(won.cmd.Process.Pid)) {
			t.Errorf("the loser does not name pid %d:\n%s", won.cmd.Process.Pid, said)
		}
		s.unharmed(t)
		s.onlyDormant(t, before)
	}
	end(t, s)
}

// TestDetachWhileAttaching: another terminal is faster than the recorder. All
// exit codes are documented ones, and in the end nothing is active.
func TestDetachWhileAttaching(t *testing.T) {
	for range times(4, 50) {
		s := serve(t)
		before := s.inventory(t)
		r := s.record(t, hang.Limit)
		codes := map[int]int{}
		for ended := false; !ended; {
			d := tool(t, "", "detach", strconv.Itoa(s.pid))
			codes[d.wait(t)]++
			if d.code != 0 && d.code != 3 {
				t.Errorf("detach: exit code %d\n%s", d.code, d.stderr.String())
				ended = true
			}
			ended = ended || d.code == 0
		}
		if code := r.wait(t); code != 0 && code != 7 {
			t.Errorf("the recorder: exit code %d\n%s", code, r.stderr.String())
		}
		t.Logf("detach: exit codes %v, recorder: %d", codes, r.code)
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
	for range times(3, 50) {
		r := s.record(t, hang.Limit)
		r.saying.await(t, "attached")
		_ = r.cmd.Process.Kill()
		r.wait(t)
		a, b := tool(t, "", "detach", strconv.Itoa(s.pid)), tool(t, "", "detach", strconv.Itoa(s.pid))
		if a.wait(t) != 0 && b.wait(t) != 0 {
			t.Errorf("both failed:\n%s%s", a.stderr.String(), b.stderr.String())
		}
		b.wait(t)
		if st := s.status(t); st.State != "dormant" {
			t.Errorf("still there: %+v", st)
		}
		s.onlyDormant(t, before)
	}
	end(t, s)
}
