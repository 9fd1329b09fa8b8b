package cli

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// control sends a command to a recorder.
func control(t *testing.T, socket, command string) {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintln(c, command); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), `{"state":`) {
			if want := `{"ack":"` + command + `"}`; lines.Text() != want {
				t.Errorf("%s: %s", command, lines.Text())
			}
			return
		}
	}
	t.Fatalf("no answer to %s", command)
}

// TestForkWhileOff: children that are forked while a recording is switched off are sane and know nothing of it, also while the
// next window is on, and the parent's windows go on.
func TestForkWhileOff(t *testing.T) {
	t.Parallel()
	f := startForker(t)
	before := f.inventory(t)
	socket := filepath.Join(t.TempDir(), "c.sock")
	r := f.record(t, hang.Limit, "--control", "unix:"+socket)
	r.Says(t, "attached")
	if !hang.Eventually(func() bool { return f.status(t).State == "active" }) {
		t.Fatalf("the first window does not begin: %s", r.Stderr.String())
	}
	from := f.ran(t)
	for range testenv.Times(3, 100) {
		control(t, socket, "disable")
		if st := f.status(t); st.State != "off" {
			t.Errorf("switched off: %+v", st)
		}
		for range 5 {
			if said := f.tell(t, "f"); said != "child 0" {
				t.Fatalf("a child that is forked while off ended: %s", said)
			}
		}
		child := f.keep(t)
		if st := child.status(t); st.Resident {
			t.Errorf("the child counts as attached: %+v", st)
		}
		control(t, socket, "enable") // the child stays in the next window
		if st := f.status(t); st.State != "active" {
			t.Errorf("switched on: %+v", st)
		}
		if n := child.count(t, "task"); n != 1 {
			t.Errorf("the child has %d threads", n)
		}
		if code := tool(t, "", "detach", strconv.Itoa(child.pid)).Exit(t); code != 3 {
			t.Errorf("detach from the child: exit code %d", code)
		}
		if said := f.tell(t, "e"); said != "child 0" {
			t.Errorf("the child that stayed ended: %s", said)
		}
	}
	control(t, socket, "stop")
	ran := f.ran(t) - from
	// Barrier packets carry no kernel: none is timed, and the tool says so.
	if code := r.Exit(t); code != 7 || ran == 0 {
		t.Errorf("exit code %d, %d packets ran\n%s", code, ran, r.Stderr.String())
	}
	f.onlyDormant(t, before)
	_ = f.in.Close()
	if status := f.ended(t); status != 0 {
		t.Errorf("the target ended with %#x", status)
	}
}
