package session

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestBackgroundGivesWay(t *testing.T) {
	var b background
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
		if got, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err != nil || 20-got != want {
			t.Errorf("%s: nice %d, %v; want %d", when, 20-got, err, want)
		}
	}
	check("at the start", niceCollecting)
	b.adapt(0)
	check("without losses", niceCollecting)
	b.adapt(5)
	check("after a loss", niceOverrun)
	b.adapt(5)
	check("shortly after", niceOverrun)
	b.lostLast = time.Now().Add(-2 * quietAfter)
	b.adapt(5)
	check("after a quiet time", niceCollecting)
	b.hurry()
	check("at the end", niceFinished)
	close(end)
	<-ended
}
