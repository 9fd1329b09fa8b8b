package truth

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// commandTo sends a command to a recorder, and returns its answer.
func commandTo(t *testing.T, socket, command string) string {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintln(c, command); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), `{"state":`) {
			return lines.Text()
		}
	}
	t.Fatalf("no answer to %s: %v", command, lines.Err())
	return ""
}

// Commands switch a recording: each time between enable and disable is a window, and off is as detached.
func TestSwitch(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Stress(3, 2, 64, "--pace", "50"))
	p.RecordShortly(t, 50*time.Millisecond)
	before := p.Snapshot(t)
	socket := filepath.Join(t.TempDir(), "c.sock")
	r := p.Begin(t, "--control", "unix:"+socket)
	r.Drains(t)
	harness.Until(t, "the first window has begun", func() bool { return p.Status(t).State == "active" })
	const windows = 3
	for n := range windows {
		harness.Until(t, "it has dispatched for a while", p.Dispatches(t, 300))
		for _, command := range []string{"flush", "disable", "disable", "flush"} {
			if answer := commandTo(t, socket, command); answer != `{"ack":"`+command+`"}` {
				t.Errorf("%s: %s", command, answer)
			}
		}
		if st := p.Status(t); st.State != off || st.Inventory.HooksPatched != 0 {
			t.Errorf("switched off: %s, %d hooks", st.State, st.Inventory.HooksPatched)
		}
		harness.Until(t, "it dispatches meanwhile", p.Dispatches(t, 300))
		if n == windows-1 {
			break
		}
		if answer := commandTo(t, socket, "enable"); answer != `{"ack":"enable"}` {
			t.Error(answer)
		}
		if st := p.Status(t); st.State != "active" {
			t.Errorf("switched on: %s", st.State)
		}
	}
	if answer := commandTo(t, socket, "stop"); answer != `{"ack":"stop"}` {
		t.Error(answer)
	}
	run := r.Wait(t)
	run.MustBe(t, failure.OK)
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	p.NothingLeft(t, before)
	p.StillAlive(t)
	if n := harness.CheckPeriods(t, harness.ReadPeriods(t, run.Trace)); n != windows {
		t.Errorf("%d windows, expected %d", n, windows)
	}
	p.Quit(t)
	c := harness.Compare(t, p.Truth(t))
	c.Add(harness.ReadTrace(t, run.Trace))
	c.Finish(nil)
	c.MustHaveRecorded(300)
}

// A schedule that is switched off leaves its windows out, and says so.
func TestSwitchSchedule(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Stress(2, 2, 64, "--pace", "50"))
	socket := filepath.Join(t.TempDir(), "c.sock")
	r := p.Begin(t, append(inPeriods(20, 20, 0), "--control", "unix:"+socket)...)
	r.Drains(t)
	harness.Until(t, "it takes commands", func() bool { return commandTo(t, socket, "disable") == `{"ack":"disable"}` })
	from := p.Status(t).Sessions
	harness.Until(t, "it dispatches meanwhile", p.Dispatches(t, 2000))
	if n := p.Status(t).Sessions; n != from {
		t.Errorf("%d sessions began meanwhile", n-from)
	}
	if answer := commandTo(t, socket, "enable"); answer != `{"ack":"enable"}` {
		t.Error(answer)
	}
	harness.Until(t, "windows begin again", func() bool { return p.Status(t).Sessions > from+1 })
	commandTo(t, socket, "stop")
	run := r.Wait(t)
	if run.Code != failure.OK && run.Code != failure.NothingSeen { // a busy machine may miss windows
		t.Errorf("exit code %d\n%s", run.Code, run.Stderr)
	}
	periods := harness.ReadPeriods(t, run.Trace)
	harness.CheckPeriods(t, periods)
	switched := 0
	for _, one := range periods {
		if one.Reason == "switched off by a command" {
			switched++
		}
	}
	if switched == 0 {
		t.Errorf("no window was left out: %+v", periods)
	}
}
