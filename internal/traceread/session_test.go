package traceread

import "testing"

// A recorder that extends a file is writing the sessions that it has begun, and none that
// another one left unfinished.
func TestStates(t *testing.T) {
	killed, now := recorder{pid: 7, startTicks: 1}, recorder{pid: 7, startTicks: 2}
	tr := &Trace{Sessions: []*Session{
		{EndedNS: 5, recorder: killed},
		{recorder: killed},
		{EndReason: "disk full", recorder: killed},
		{recorder: now},
		{recorder: now},
	}}
	for inProgress, want := range map[bool][]State{
		true:  {Ended, CutOff, Unwritable, InProgress, InProgress},
		false: {Ended, CutOff, Unwritable, CutOff, CutOff},
	} {
		tr.addStates(inProgress)
		for i, s := range tr.Sessions {
			if s.State != want[i] {
				t.Errorf("in progress %v: session %d: %d, want %d", inProgress, i, s.State, want[i])
			}
		}
	}
	format1 := &Trace{Sessions: []*Session{{}}} // says no recorder
	if format1.addStates(true); format1.Sessions[0].State != CutOff {
		t.Errorf("format 1: %d", format1.Sessions[0].State)
	}
}

func TestDeclaredWindow(t *testing.T) {
	for name, c := range map[string]struct {
		session     Session
		from, until int64
		hasBegin    bool
	}{
		"the duration elapsed, the detach was late": {Session{BegunNS: 1, WindowStartNS: 2, ArmedNS: 2, WindowEndNS: 5, DetachedNS: 7, EndedNS: 9, RecordedUntilNS: 8}, 2, 5, true},
		"format 1":                                    {Session{BegunNS: 1, ArmedNS: 2, DetachedNS: 7, EndedNS: 9}, 2, 7, true},
		"format 1, the target exited":                 {Session{BegunNS: 1, EndedNS: 9}, 1, 9, false},
		"format 1, the recorder was killed":           {Session{State: CutOff, BegunNS: 1}, 1, 0, false},
		"so far":                                      {Session{State: InProgress, BegunNS: 1, WindowStartNS: 2, RecordedUntilNS: 6}, 2, 6, true},
		"a full disk, before the window ended":        {Session{State: Unwritable, WindowStartNS: 2, WindowEndNS: 9, DetachedNS: 9, RecordedUntilNS: 6}, 2, 6, true},
		"killed after the window, within the drain":   {Session{State: CutOff, WindowStartNS: 2, WindowEndNS: 5, RecordedUntilNS: 6}, 2, 5, true},
		"killed before anything was known of kernels": {Session{State: CutOff, BegunNS: 1, WindowStartNS: 2}, 2, 0, true},
	} {
		s := &c.session
		if s.FromNS() != c.from || s.UntilNS() != c.until || s.HasBegin() != c.hasBegin {
			t.Errorf("%s: %d to %d, begin known %v", name, s.FromNS(), s.UntilNS(), s.HasBegin())
		}
	}
}
