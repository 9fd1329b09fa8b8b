package stuck

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// A stamp is a packet's if it has its index and was made in this session.
func TestStamp(t *testing.T) {
	const stamps, tid = 0x5000, 77
	q := &rawQueue{slots: 64}
	for name, c := range map[string]struct {
		index, time, owner uint64
		want               bool
	}{
		"of the packet":         {64 + 3, 500, tid<<32 | 64 + 3, true},
		"of an earlier lap":     {64 + 3, 500, tid<<32 | 3, false},
		"of an earlier session": {64 + 3, 99, tid<<32 | 64 + 3, false},
		"being written":         {64 + 3, 500, 0, false},
		"before the recording":  {9, 500, tid<<32 | 9, false},
	} {
		b := make([]byte, 64<<10)
		put(b, map[int]uint64{stamps + stampBytes*int(c.index%64): c.time, stamps + stampBytes*int(c.index%64) + 8: c.owner})
		got, at, ok := (&claims{stamps: stamps, base: 10, openedAt: 100}).stamp(bytes.NewReader(b), q, c.index)
		if ok != c.want || ok && (got != tid || at != c.time) {
			t.Errorf("%s: %d, %d, %t", name, got, at, ok)
		}
	}
	if _, _, ok := (&claims{stamps: 1 << 50}).stamp(bytes.NewReader(nil), q, 1); ok {
		t.Error("stamps outside of memory")
	}
}

// A stamp's age is by its own clock, and none if the times contradict each other.
func TestStampAge(t *testing.T) {
	const second = uint64(time.Second)
	now := instant{tsc: 5000, ns: 100 * second}
	for name, c := range map[string]struct {
		claims claims
		stamp  uint64
		want   time.Duration
		ok     bool
	}{
		"counter":          {claims{openedAt: 1000, openedNS: 60 * second}, 4000, 10 * time.Second, true},
		"boottime":         {claims{openedAt: 60*second + 5, openedNS: 60 * second}, 97 * second, 3 * time.Second, true},
		"no begin":         {claims{openedAt: 1000}, 4000, 0, false},
		"before the begin": {claims{openedAt: 1000, openedNS: 60 * second}, 999, 0, false},
		"later than now":   {claims{openedAt: 1000, openedNS: 60 * second}, 5001, 0, false},
		"boottime, later":  {claims{openedAt: 60 * second, openedNS: 60 * second}, 101 * second, 0, false},
		"begin after now":  {claims{openedAt: 1000, openedNS: 101 * second}, 4000, 0, false},
	} {
		if got, ok := c.claims.age(c.stamp, now); ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %s, %t", name, got, ok)
		}
	}
	first := instantNow()
	for second := first; second.ns == first.ns || second.tsc == first.tsc; {
		if second = instantNow(); second.ns < first.ns || second.tsc < first.tsc {
			t.Fatalf("%+v after %+v", second, first)
		}
	}
}

// A thread is named by the id that the payload has stamped; one that is no thread of the process has ended.
func TestClaimant(t *testing.T) {
	self, err := target.OpenLight(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	l := &look{t: self, claimants: map[uint32]Claim{}}
	own := uint32(self.NSPID[len(self.NSPID)-1])
	if c := l.claimant(own); c.TID != os.Getpid() || c.Name != self.Name(os.Getpid()) || c.Ended {
		t.Errorf("%+v", c)
	}
	if c := l.claimant(tidMax); !c.Ended || c.TID != tidMax {
		t.Errorf("%+v", c)
	}
	for _, tid := range []uint32{0, tidMax + 1} {
		if c := l.claimant(tid); c != (Claim{}) {
			t.Errorf("thread %d: %+v", tid, c)
		}
	}
	if len(l.claimants) != 2 {
		t.Errorf("%+v", l.claimants)
	}
}

// FuzzClaims: the payload's state of a queue, its stamps and times are the process's.
func FuzzClaims(f *testing.F) {
	f.Add(make([]byte, claimsBytes), uint64(3), uint64(7), uint64(1<<40))
	f.Fuzz(func(t *testing.T, b []byte, index, tsc, ns uint64) {
		if len(b) < claimsBytes {
			return
		}
		now := instant{tsc, ns >> 1}
		c := parseClaims(b)
		if _, stamp, ok := c.stamp(bytes.NewReader(b), &rawQueue{slots: 64}, index); ok {
			if age, ok := c.age(stamp, now); ok && (age < 0 || uint64(age) > now.ns) {
				t.Errorf("%d ns before %+v", age, now)
			}
		}
	})
}
