package session

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

func TestGroupCode(t *testing.T) {
	for _, c := range []struct {
		members []failure.ExitCode
		want    failure.ExitCode
	}{
		{[]failure.ExitCode{failure.OK, failure.OK}, failure.OK},
		{[]failure.ExitCode{failure.OK, failure.NothingSeen}, failure.OK}, // an idle one is no failure
		{[]failure.ExitCode{failure.NothingSeen, failure.NothingSeen}, failure.NothingSeen},
		{[]failure.ExitCode{failure.NothingSeen, failure.TargetExited}, failure.SomeFailed},
		{[]failure.ExitCode{failure.OK, failure.TargetExited, failure.OK}, failure.SomeFailed},
		{[]failure.ExitCode{failure.TargetExited, failure.TargetExited}, failure.TargetExited},
		{[]failure.ExitCode{failure.NotPermitted, failure.NotPermitted}, failure.NotPermitted},
		{[]failure.ExitCode{failure.NotPermitted, failure.Unsuitable}, failure.SomeFailed},
		{[]failure.ExitCode{failure.OK, failure.Remains, failure.TargetExited}, failure.Remains}, // somebody has to look
	} {
		g := &group{}
		for _, exit := range c.members {
			g.members = append(g.members, &member{result: result{exit: exit}})
		}
		if got := g.code(); got != c.want {
			t.Errorf("%v: %d, want %d", c.members, got, c.want)
		}
	}
}

// TestNothingSeen: who dispatched something is not idle, and says what became of it.
func TestNothingSeen(t *testing.T) {
	for noTimes, want := range map[uint64]struct {
		outcome tracedb.Outcome
		text    string
	}{
		0:  {tracedb.OutcomeIdle, "dispatched nothing through a queue that could be seen"},
		12: {tracedb.OutcomeRecorded, "12 dispatches seen, and none could be timed (see Coverage)"},
	} {
		m := &member{recording: &recording{tally: tally{noTimes: noTimes}}}
		m.conclude(failure.NothingSeen, 0)
		if m.exit != failure.NothingSeen || m.outcome != want.outcome || m.detail() != want.text {
			t.Errorf("%d: exit code %d, %s: %s", noTimes, m.exit, m.outcome, m.detail())
		}
	}
}
