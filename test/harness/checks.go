package harness

import (
	"encoding/binary"
	"os"
	"strconv"
	"testing"
)

// Stress is a raw HSA workload without an end: so many threads dispatch on so many
// queues of ring packets. More are further arguments of hsastress.
func Stress(threads, queues, ring int, more ...string) Workload {
	return Workload{Program: "hsastress", Args: append([]string{
		"--threads", strconv.Itoa(threads), "--queues", strconv.Itoa(queues), "--ring", strconv.Itoa(ring), "--seconds", "0",
	}, more...)}
}

// Active waits until a session is active in p.
func (p *Process) Active(t testing.TB) {
	t.Helper()
	Until(t, "the session is active", func() bool { return p.Status(t).State == "active" })
}

// AsFound checks p after a failed attach: only a sleeping payload may be left.
func (p *Process) AsFound(t testing.TB, before Snapshot) {
	t.Helper()
	p.NothingLeft(t, before)
	if st := p.Status(t); st.Resident && st.State != "idle" && st.State != "dormant" {
		t.Errorf("state %s", st.State)
	}
}

// NothingLeft checks that p has nothing that it did not have before, except for what
// docs/guide/your-process.md lists.
func (p *Process) NothingLeft(t testing.TB, before Snapshot) {
	t.Helper()
	now := p.Snapshot(t)
	for _, item := range now.Left(before) {
		t.Errorf("not as before: %s", item)
	}
	if now.TracerPID != 0 {
		t.Errorf("traced by %d", now.TracerPID)
	}
	if tid := now.ThreadNamed("rtl-control"); tid != 0 {
		Until(t, "the control thread sleeps in a futex without a time-out", func() bool { return p.Sleeps(tid) })
	}
}

// SizeInHeader returns the size in bytes that the header of an SQLite file gives; 0
// without a header. SQLite writes it with a commit, and that commit is complete when
// the next begins (sqlite.org/fileformat2, "The Database Header").
func SizeInHeader(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	header := make([]byte, 100)
	if _, err := f.ReadAt(header, 0); err != nil {
		return 0
	}
	return int(binary.BigEndian.Uint16(header[16:])) * int(binary.BigEndian.Uint32(header[28:]))
}
