package target

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFindThread: a thread that one listing hides, or that cannot be read, is not gone.
func TestFindThread(t *testing.T) {
	const hidden, other = 11, 12 // in the namespace: 1, 2
	ns := map[int]Status{hidden: {NSPID: []int{hidden, 1}}, other: {NSPID: []int{other, 2}}}
	for _, c := range []struct {
		name   string
		shown  int // the listing from which on it is in
		unread int // cannot be read
		want   int
		err    error
	}{
		{"listed", 0, 0, hidden, nil},
		{"hidden from the first listing", 1, 0, hidden, nil},
		{"in none", listingsMax, 0, 0, ErrThreadGone},
		{"unreadable", 0, hidden, 0, errUnsure},
		{"another ends all the time", listingsMax, other, 0, errUnsure},
		{"hidden while another ends", listingsMax - 1, other, hidden, nil},
	} {
		n := 0
		list := func() ([]int, error) {
			n++
			if n > c.shown {
				return []int{hidden, other}, nil
			}
			return []int{other}, nil
		}
		status := func(tid int) (Status, error) {
			if tid == c.unread {
				return Status{}, ErrThreadGone
			}
			return ns[tid], nil
		}
		if tid, err := findThread(1, list, status); tid != c.want || !errors.Is(err, c.err) || errors.Is(err, ErrThreadGone) != (c.err == ErrThreadGone) {
			t.Errorf("%s: thread %d, %v", c.name, tid, err)
		}
	}
	failing := func() ([]int, error) { return nil, unix.EMFILE }
	if _, err := findThread(1, failing, nil); !errors.Is(err, unix.EMFILE) {
		t.Errorf("a listing that fails: %v", err)
	}
	full := slices.Repeat([]int{other}, threadsMax)
	status := func(int) (Status, error) { return ns[other], nil }
	if tid, whole := pick(1, full, status, time.Now().Add(time.Hour)); tid != 0 || whole {
		t.Errorf("as many as are listed at most: %d, %v", tid, whole)
	}
	if tid, whole := pick(2, full, status, time.Now()); tid != 0 || whole {
		t.Errorf("when time is over: %d, %v", tid, whole)
	}
}

// TestThreadName: of a target in our pid namespace, and of one whose threads have other ids there.
func TestThreadName(t *testing.T) {
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(string(name))
	tg, err := OpenLight(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	nspid := tg.NSPID[len(tg.NSPID)-1]
	if got := tg.ThreadName(nspid); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	tg.NSPID = []int{1, nspid} // as if it had another id out here: its threads are looked through
	if got := tg.ThreadName(nspid); got != want {
		t.Errorf("by its id inside: %q, want %q", got, want)
	}
	if got := tg.ThreadName(1 << 30); got != "" {
		t.Errorf("%q of a thread that does not exist", got)
	}
}
