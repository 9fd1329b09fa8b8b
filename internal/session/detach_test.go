package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// The payload's deadlines end before the tool's, even on a busy machine.
func TestDetachTimeouts(t *testing.T) {
	const margin = 5 * time.Second
	most := ring.DetachMostMS * time.Millisecond
	for _, k := range envbuf.Keys {
		if k.Name == envbuf.DrainTimeout {
			most += time.Duration(k.Default) * time.Millisecond
		}
	}
	if most+margin > detachTimeout {
		t.Errorf("a detach may take %v, the tool waits %v", most, detachTimeout)
	}
	if detachTimeout+margin > handOver {
		t.Errorf("a recorder may detach for %v, another waits %v for it", detachTimeout, handOver)
	}
}

// A told is an observer of failures.
type told struct {
	GroupObserver
	what []string
}

func (o *told) Failed(f *failure.Error) { o.what = append(o.what, f.What) }

// TestDetachOfAnother: who has the pid of a worker that has ended meanwhile is left alone.
func TestDetachOfAnother(t *testing.T) {
	v := victim.Start(t, "plain")
	var o said
	if err := (recorded{Process: discover.Process{PID: v.PID, StartTicks: 1}}).detach(&o); err != nil || len(o.detached) != 1 || !strings.HasSuffix(o.detached[0], hasExited) {
		t.Errorf("%v, %q", err, o.detached)
	}
}

// A said is an observer of detaches.
type said struct {
	Observer
	detached []string
}

func (o *said) Detached(how string) { o.detached = append(o.detached, how) }

// TestSeveral: every failure is told, and the code is theirs, or "some have failed".
func TestSeveral(t *testing.T) {
	for _, c := range []struct {
		codes []failure.ExitCode
		want  failure.ExitCode
	}{
		{[]failure.ExitCode{failure.OK, failure.OK}, failure.OK},
		{[]failure.ExitCode{failure.Failed, failure.OK}, failure.SomeFailed},
		{[]failure.ExitCode{failure.Failed, failure.Failed}, failure.Failed},
		{[]failure.ExitCode{failure.NotPermitted, failure.NotPermitted}, failure.NotPermitted},
		{[]failure.ExitCode{failure.NotPermitted, failure.Failed}, failure.Failed},
		{[]failure.ExitCode{failure.OK, failure.Failed, failure.Remains, failure.OK}, failure.Remains},
	} {
		var o told
		s := &several{ui: &o}
		fails := 0
		for _, code := range c.codes {
			if code == failure.OK {
				s.note(nil)
				continue
			}
			fails++
			s.note(fmt.Errorf("wrapped: %w", &failure.Error{What: "it", Code: code}))
		}
		got := failure.OK
		var f *failure.Error
		if errors.As(s.failure(), &f) {
			got = f.Code
		}
		if got != c.want || len(o.what) != fails {
			t.Errorf("%v: %d, want %d; told %d", c.codes, got, c.want, len(o.what))
		}
	}
}

// TestRecordedUnseen: who cannot be looked at may be recorded, and is not passed over.
func TestRecordedUnseen(t *testing.T) {
	for _, err := range []error{resident.ErrNone, target.ErrGone, target.ErrZombie} {
		if resident.UnlessAbsent(fmt.Errorf("wrapped: %w", err)) != nil {
			t.Errorf("%v: there is nothing", err)
		}
	}
	denied := &target.DeniedError{PID: 7, UserNS: true}
	var f *failure.Error
	if err := (recorded{discover.Process{PID: 7}, resident.UnlessAbsent(denied)}).detach(nil); !errors.As(err, &f) || f.Code != failure.NotPermitted || f.Cause == "" {
		t.Errorf("%+v", err)
	}
}
