package truth

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// partOf returns the trace of a trigger of the recording.
func partOf(r *harness.Command, number int) string {
	return strings.TrimSuffix(r.Trace, ".db") + "-" + strconv.Itoa(number) + ".db"
}

// A gap triggers, then a signal, then a command: each trace has the kernels of its window, all of them, and
// the gap's has the gap.
func TestFlight(t *testing.T) {
	p := harness.Start(t, harness.Stress(4, 2, 64, "--pace", "200"))
	r := p.Begin(t, "--keep-last", "1s", "--trigger", "gap>300ms", "--max-triggers", "3")
	r.Says(t, "✓ attached")
	harness.Until(t, "it has dispatched for a while", p.Dispatches(t, 8000))
	get(t, p, "/pause")
	r.Says(t, "triggered   1") // while the gap lasts
	get(t, p, "/resume")
	harness.Until(t, "it has dispatched again", p.Dispatches(t, 2000))
	r.Signal(t, syscall.SIGUSR1)
	r.Says(t, "triggered   2")
	asked := harness.Tool(t, "trigger", strconv.Itoa(p.PID))
	asked.MustBe(t, failure.OK)
	if got := strings.TrimSpace(asked.Stdout); got != partOf(r, 3) {
		t.Errorf("the tool names %s, the trace is %s", got, partOf(r, 3))
	}
	run := r.Wait(t) // it ends with the last trigger
	run.MustBe(t, failure.OK)
	if _, err := os.Stat(r.Trace); !os.IsNotExist(err) {
		t.Errorf("%s exists, or: %v", r.Trace, err)
	}
	counts := p.Quit(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	for number, expression := range []string{1: "gap>300ms", 2: "SIGUSR1", 3: "rtl-attach trigger"} {
		if number == 0 {
			continue
		}
		path := partOf(r, number)
		part, tr := harness.ReadPart(t, path), harness.ReadTrace(t, path)
		if part.Expression != expression || part.Number != uint64(number) || part.Reason != tracedb.EndTriggered {
			t.Errorf("%s: %+v", path, part)
		}
		c := harness.Compare(t, log)
		inside := c.AddPart(tr, part)
		c.Finish(p.TIDs())
		c.MustHaveRecorded(50)
		t.Logf("%s: %d kernels inside, %d in the trace, from %v before the trigger to %v after, limited by %s, %d older, %s",
			filepath.Base(path), inside, len(tr.Dispatches), time.Duration(part.FiredNS-part.FromNS), time.Duration(part.UntilNS-int64(part.FiredNS)),
			part.LimitedBy, part.Older, part.Value)
		if number == 1 {
			mustHaveGap(t, tr, part, 300*time.Millisecond)
		}
	}
}

func get(t *testing.T, p *harness.Process, path string) {
	t.Helper()
	if _, err := p.Get(path); err != nil {
		p.StillAlive(t)
		t.Fatal(err)
	}
}

// mustHaveGap fails unless the trace has a gap of that length on a GPU.
func mustHaveGap(t *testing.T, tr *harness.Trace, part harness.Part, least time.Duration) {
	t.Helper()
	last := map[int64]int64{} // by GPU
	var longest int64
	for _, d := range sortedByStart(tr.Dispatches) {
		gpu := tr.Queues[d.Queue].GPU
		if end := last[gpu]; end != 0 {
			longest = max(longest, d.StartNS-end)
		}
		last[gpu] = max(last[gpu], d.EndNS)
	}
	for _, end := range last {
		longest = max(longest, part.UntilNS-end) // it may not be over
	}
	if longest < int64(least) {
		t.Errorf("%s has fired, and the longest gap in the trace has %v", fmt.Sprint(part.Expression, part.Value), time.Duration(longest))
	}
}

func sortedByStart(all []harness.Dispatch) []harness.Dispatch {
	return slices.SortedFunc(slices.Values(all), func(a, b harness.Dispatch) int { return cmp.Compare(a.StartNS, b.StartNS) })
}

// The end of the target writes what came before it; nothing triggers without it, and there is no trace.
func TestFlightExit(t *testing.T) {
	t.Parallel()
	for _, trigger := range []string{"exit", "gap>1h"} {
		p := harness.Start(t, harness.Stress(4, 2, 64, "--pace", "50"))
		r := p.Begin(t, "--keep-last", "1s", "--trigger", trigger)
		r.Says(t, "✓ attached")
		harness.Until(t, "it has dispatched for a while", p.Dispatches(t, 1000))
		p.Kill()
		run := r.Wait(t)
		run.MustBe(t, failure.TargetExited)
		path := partOf(r, 1)
		if trigger != "exit" {
			if _, err := os.Stat(path); !os.IsNotExist(err) || !strings.Contains(run.Stderr, "no trace was written") {
				t.Errorf("%v\n%s", err, run.Stderr)
			}
			continue
		}
		part := harness.ReadPart(t, path)
		c := harness.Compare(t, p.Truth(t))
		inside := c.AddPart(harness.ReadTrace(t, path), part)
		c.Finish(nil)
		c.MustHaveRecorded(10)
		t.Logf("%d kernels inside, %+v", inside, part)
	}
}

// What has ended when a flush is asked for is in the file when it returns; a socket takes the other commands.
func TestFlush(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Stress(4, 2, 64, "--pace", "50"))
	socket := filepath.Join(t.TempDir(), "c.sock")
	r := p.Begin(t, "--control", "unix:"+socket)
	r.Says(t, "✓ attached")
	p.Active(t) // the first window begins after the attach
	harness.Until(t, "it has dispatched for a while", p.Dispatches(t, 1000))
	var until, rows []int64
	for range 3 {
		until = append(until, boottime(t))
		harness.Tool(t, "flush", strconv.Itoa(p.PID)).MustBe(t, failure.OK)
		rows = append(rows, endedBefore(t, r.Trace, until[len(until)-1]))
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lines := bufio.NewScanner(c)
	for _, command := range []struct{ name, want string }{
		{"ping", `{"ack":"ping"}`},
		{"flush", `{"ack":"flush"}`},
		{"trigger", `{"error":"trigger","text":"no flight recorder`},
		{"enable", `{"ack":"enable"}`},
		{"stop", `{"ack":"stop"}`},
	} {
		if _, err := fmt.Fprintln(c, command.name); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() && strings.HasPrefix(lines.Text(), `{"state":`) {
			continue
		}
		if !strings.HasPrefix(lines.Text(), command.want) {
			t.Errorf("%s: %q, want %q", command.name, lines.Text(), command.want)
		}
	}
	run := p.MustRecordLast(t, r)
	check(t, p, nil, run).MustHaveRecorded(100)
	for i, ns := range until {
		if all := endedBefore(t, run.Trace, ns); all != rows[i] || all == 0 {
			t.Errorf("the trace has %d kernels that ended before flush %d; after it there were %d", all, i, rows[i])
		}
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket stays: %v", err)
	}
	if tr := harness.ReadTrace(t, run.Trace); tr.Sessions[0].EndReason != tracedb.EndStopped {
		t.Errorf("the end: %q", tr.Sessions[0].EndReason)
	}
}

func endedBefore(t *testing.T, path string, ns int64) (n int64) {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM rtl_execution WHERE start_ns + duration_ns < ?", ns).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func boottime(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}
