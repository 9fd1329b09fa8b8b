package export

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// windowed is a trace of two windows of a schedule, 6 µs apart.
func windowed(t testing.TB) string {
	t.Helper()
	db, path := create(t)
	for number := range uint64(2) {
		s, err := db.Begin(tracedb.SessionInfo{PID: 50, StartTicks: 7, Command: "worker", Host: "node", Generation: uint32(number + 2)})
		must(t, err)
		must(t, s.Period(50, 7, tracedb.Period{Number: number, Count: 1, Clock: "boottime"}))
		record(t, s, day+number*10_000)
	}
	must(t, errors.Join(db.Close()))
	return path
}

// TestOff: the time between two windows is shown as not recorded, not as idle.
func TestOff(t *testing.T) {
	path := windowed(t)
	data, _ := exported(t, "pftrace", path)
	var names []string
	for _, p := range decodePerfetto(t, data) {
		for _, n := range p.InternedData.EventNames {
			names = append(names, n.Name)
		}
	}
	if all := strings.Join(names, "\n"); !strings.Contains(all, off) {
		t.Errorf("%q is not in\n%s", off, all)
	}
	chromium, _ := exported(t, "chrome", path)
	zip, err := gzip.NewReader(bytes.NewReader(chromium))
	must(t, err)
	text, err := io.ReadAll(zip)
	must(t, err)
	// From the detach of the first, 4 µs after its begin, to the arming of the second, 0.75 µs after its.
	if !bytes.Contains(text, []byte(`"dur":6.750,"name":"`+off+`"`)) {
		t.Errorf("no off-time in\n%s", text)
	}
}
