package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestPayload: control block and ring are the target's to write, and it writes
// what no payload would.
func TestPayload(t *testing.T) {
	for _, c := range []struct {
		how   string
		codes []int
		says  string
	}{
		{"honest", []int{0}, "hooks removed"}, // or the others prove nothing
		{"names", []int{0}, "hooks removed"},
		{"megabyte", []int{1}, "not complete: ring corrupt"},
		{"strings", []int{1}, "not complete"},
		{"ids", []int{1}, "not complete"},
		{"records", []int{1}, "not complete"},
		{"scribble", []int{0, 1, 3, 4, 6, 7}, ""}, // 3, 4: it says that another recorder holds it, or that it is another version's
		{"head", []int{1}, "ring corrupt"},
		{"huge", []int{1}, "8589938688"},
		{"short", []int{1}, "file of 4096 bytes"},
		{"unsealed", []int{1}, "not sealed"},
		{"bare", []int{1}, "not sealed"},
		{"stub", []int{1}, "4096 bytes"},
		{"swap", []int{1}, ""},
		{"swapring", []int{1}, "not complete"},
		{"text", []int{1}, `\x1b[2Jgone\nrtl-attach: all is well`},
		{"mute", []int{1}, "does not answer"},
	} {
		t.Run(c.how, func(t *testing.T) {
			v := victim.Start(t, "hostile", c.how)
			r := attack(t, v.PID, "--memory-copy-trace")
			r.end(t, c.codes...)
			if said := r.Stderr.String(); !strings.Contains(said, c.says) {
				t.Errorf("it does not say %q:\n%.2000s", c.says, said)
			}
			status := tool(t, "status", "--json", strconv.Itoa(v.PID))
			status.end(t, 0, 1, 4)
		})
	}
}

// TestNames: what the target calls things is harmless in everything that is made
// of a trace, and in the trace.
func TestNames(t *testing.T) {
	v := victim.Start(t, "hostile", "names")
	r := attack(t, v.PID)
	r.end(t, 0)
	for _, words := range []string{`\\x1b[2J\\x1b[31mred`, `\\u202egnp.exe`, `a\\nb\\rc\\td`, "DROP TABLE"} {
		if !strings.Contains(r.Stdout.String(), words) {
			t.Errorf("the summary does not name %s", words)
		}
	}
	text := tool(t, "report", "--kernels", "100", r.Trace)
	text.end(t, 0)
	asJSON := tool(t, "report", "--json", "--kernels", "100", r.Trace)
	asJSON.end(t, 0)
	// sqlite3's shell of Debian 12 prints values as they are.
	out, err := exec.Command("sqlite3", r.Trace, "SELECT * FROM top; SELECT * FROM rocpd_string; SELECT command FROM rtl_session").Output()
	if err != nil {
		t.Fatal(err)
	}
	shell := &run{Command: &harness.Command{}}
	shell.Stdout.Write(out)
	shell.saidHarmless(t)
}

// TestAsk: a grace request for threads of other processes stops no thread.
func TestAsk(t *testing.T) {
	other := victim.Start(t, "plain")
	v := victim.Start(t, "hostile", "asks", strconv.Itoa(other.PID))
	r := attack(t, v.PID)
	if said := v.Line(t); said != fmt.Sprintf("verdict %d", ring.VerdictGone) {
		t.Errorf("asked for a thread of somebody else's, the tool's answer was %s", said)
	}
	r.end(t, 0)
	other.Ask(t, "?")
}

// TestStall: no thread is held while a page of its stack does not come.
func TestStall(t *testing.T) {
	v := victim.Start(t, "hostile", "stall")
	r := attack(t, v.PID)
	if said := v.Line(t); said != fmt.Sprintf("verdict %d", ring.VerdictInside) {
		t.Errorf("the tool's answer was %s", said)
	}
	r.end(t, 0)
	for _, s := range statuses(v.PID) {
		if s["TracerPid"] != "0" || strings.HasPrefix(s["State"], "t") {
			t.Errorf("a thread is left behind: %v", s)
		}
	}
}

// TestStallBesideOthers: one of several processes that holds a thread of ours up is
// named, and the others are left alone.
func TestStallBesideOthers(t *testing.T) {
	honest, hostile := victim.Start(t, "hostile", "honest"), victim.OnFUSE(t, "maps", "deaf")
	r := attack(t, honest.PID, "--tree=false", "-p", strconv.Itoa(hostile.PID))
	r.end(t, 1)
	for _, words := range []string{"a page has not come", fmt.Sprintf("run this again without pid %d", hostile.PID), "not touched"} {
		if said := r.Stderr.String(); !strings.Contains(said, words) {
			t.Errorf("it does not say %q:\n%s", words, said)
		}
	}
	hostile.Tell(t, "e")
}

// TestHolders: recorders that come and go as fast as they are looked at do not
// keep a detach going for ever.
func TestHolders(t *testing.T) {
	v := victim.Start(t, "hostile", "holders")
	r := tool(t, "detach", strconv.Itoa(v.PID))
	r.end(t, 1, 3)
}

// TestRestarts: a target whose runtime is shut down as soon as it is recorded, and
// starts again. It gets ten sessions a second, no more, and none beyond --max-size.
func TestRestarts(t *testing.T) {
	const apart = 100 * time.Millisecond
	v := victim.Start(t, "hostile", "restarts")
	r := attack(t, v.PID, "-d", hang.Limit.String())
	if !hang.Eventually(func() bool { return r.HasSaid("in a further session") }) {
		t.Error("it does not go on in a further session")
	}
	r.Interrupt(t)
	r.end(t, 0)
	if n := r.sessions(t); n < 2 || n > int(r.Took/apart)+1 {
		t.Errorf("%d sessions in %v", n, r.Took)
	}
	r = attack(t, v.PID, "-d", hang.Limit.String(), "--max-size", "1KiB") // a trace begins above that
	r.end(t, 0)
	if n := r.sessions(t); n != 1 {
		t.Errorf("%d sessions after the trace had reached its largest size", n-1)
	}
	if !r.HasSaid("size limit reached") && !r.HasSaid("its largest size") { // within a session, or between two
		t.Errorf("it does not say why it ends:\n%s", r.Stderr.String())
	}
}

// sessions counts those in the trace.
func (r *run) sessions(t *testing.T) (n int) {
	t.Helper()
	out, err := exec.Command("sqlite3", r.Trace, "SELECT count(*) FROM rtl_session").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(out), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestScribble: the real payload in a real target, and beside it somebody who
// writes random words into what they share with the tool.
func TestScribble(t *testing.T) {
	for seed := range 3 {
		cmd := exec.Command(testenv.Artefact(t, "workloads/hsastress"),
			"--threads", "2", "--queues", "2", "--pace", "300", "--seconds", "600")
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=/",
			"LD_PRELOAD=" + testenv.Artefact(t, "libsoftgpu.so") + ":" + victim.Path(t, "hostile_scribble.so"),
			fmt.Sprintf("HOSTILE_SEED=%d", seed),
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		var pid, port int
		if _, err := fmt.Fscanf(out, "ready pid=%d port=%d\n", &pid, &port); err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d", seed)
		attack(t, pid).end(t, 0, 1, 3, 4, 5, 6, 7)
	}
}
