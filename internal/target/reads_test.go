package target

import "testing"

// TestStalled: a wait is the target's that it is for, and others do not hide it.
func TestStalled(t *testing.T) {
	a, b := &Target{PID: -1}, &Target{PID: -2} // nobody's
	first := a.BeginRead(Filesystem)
	EndRead(b.BeginRead(Memory))
	if s := Stalled(a.PID); s.PID != a.PID || s.Time <= 0 || s.Source != Filesystem {
		t.Errorf("%+v", s)
	}
	if s := Stalled(b.PID); s != (Stall{}) {
		t.Errorf("of one that has answered: %+v", s)
	}
	second := b.BeginRead(Memory)
	if s := Stalled(0); s.PID != a.PID {
		t.Errorf("the longest: %+v", s)
	}
	EndRead(first)
	if s := Stalled(0); s.PID != b.PID || s.Source != Memory {
		t.Errorf("the one that is left: %+v", s)
	}
	EndRead(second)
	var all []*Wait
	for range waits {
		all = append(all, a.BeginRead(Memory))
	}
	if w := b.BeginRead(Memory); w != nil {
		t.Error("more are watched than there are places for")
	}
	for _, w := range append(all, nil) {
		EndRead(w)
	}
	if s := Stalled(0); s != (Stall{}) {
		t.Errorf("when all is over: %+v", s)
	}
}

// TestBeside: what is read beside a session does not stall it.
func TestBeside(t *testing.T) {
	a := &Target{PID: -1} // nobody
	defer EndRead(a.Beside().BeginRead(Memory))
	if s := Stalled(a.PID); s != (Stall{}) {
		t.Errorf("the session waits: %+v", s)
	}
	if s := StalledAtAll(); s.PID != a.PID {
		t.Errorf("nobody waits: %+v", s)
	}
}
