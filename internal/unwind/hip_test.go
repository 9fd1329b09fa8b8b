package unwind

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

func TestHIP(t *testing.T) {
	pid, _ := strconv.Atoi(os.Getenv("HIP"))
	if pid == 0 {
		t.Skip()
	}
	tg, err := target.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	f, err := tg.Preflight()
	t.Logf("%+v %v", f, err)
	u, err := New(tg)
	if err != nil {
		t.Fatal(err)
	}
	tr := ptrace.NewTracer()
	n, ok := 0, 0
	var longest, walk time.Duration
	for range 100 {
		tids, _ := tg.Threads()
		for _, tid := range tids {
			st, _ := tg.ThreadStat(tid)
			s, err := tr.StopOnce(pid, tid, st.CPU)
			if err != nil {
				t.Log(err)
				continue
			}
			n++
			longest = max(longest, s.Stopped)
			b := time.Now()
			frames := 0
			err = u.Walk(s, func(target.Addr) bool { frames++; return true })
			walk += time.Since(b)
			if err != nil {
				t.Logf("tid %d pc %#x after %d frames: %v", tid, s.Regs.Rip, frames, err)
			} else {
				ok++
			}
		}
	}
	t.Logf("%d of %d complete, longest stop %v, walk %v", ok, n, longest, walk/time.Duration(n))
}
