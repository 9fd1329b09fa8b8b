package session

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestBackgroundGivesWay(t *testing.T) {
	var b lowPriority
	started, end, ended := make(chan int), make(chan struct{}), make(chan struct{})
	b.run(func() {
		started <- unix.Gettid()
		<-end
		close(ended)
	})
	tid := <-started
	check := func(when string, want int) {
		t.Helper()
		// The raw call returns 20 - nice.
		want = max(want, niceness()) // where the tests are started with less than usual
		if got, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err != nil || 20-got != want {
			t.Errorf("%s: nice %d, %v; want %d", when, 20-got, err, want)
		}
	}
	check("at the start", niceCollecting)
	b.adapt(0)
	check("without losses", niceCollecting)
	b.adapt(5)
	check("after a loss", niceOverrun)
	b.lostLast = time.Now().Add(time.Hour) // just now, however slow this machine is
	b.adapt(5)
	check("shortly after", niceOverrun)
	b.lostLast = time.Now().Add(-2 * quietAfter)
	b.adapt(5)
	check("after a quiet time", niceCollecting)
	b.raisePriority()
	check("at the end", niceFinished)
	b.least = 15
	b.raisePriority()
	check("where the tool was started with 15", 15)
	b.adapt(5)
	check("and not better while collecting", 15)
	close(end)
	<-ended
}
