package ring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoAnswer: the control thread did not answer in time. It may be wedged; the
// entry points can still be called by ptrace.
var ErrNoAnswer = errors.New("no answer from the control thread")

// gonePeriod is how soon a command notices that nobody is there to answer it.
const gonePeriod = 50 * time.Millisecond

// A CommandError is an answered command that failed.
type CommandError struct {
	Errno unix.Errno
	Text  string // the payload's words, fit to print
}

func (e *CommandError) Error() string {
	if e.Text == "" {
		return e.Errno.Error()
	}
	return fmt.Sprintf("%s (%v)", e.Text, e.Errno)
}

func (e *CommandError) Unwrap() error { return e.Errno }

// GiveUpWhen makes commands end without an answer once gone is closed.
func (c *Control) GiveUpWhen(gone <-chan struct{}) { c.gone = gone }

// Ping asks for nothing but an answer.
func (c *Control) Ping(timeout time.Duration) error {
	return c.command(CommandPing, 0, nil, timeout)
}

// Reattach begins a session with the settings in env.
func (c *Control) Reattach(env []byte, timeout time.Duration) error {
	return c.command(CommandReattach, 0, env, timeout)
}

// Detach ends the session and says why.
func (c *Control) Detach(why End, timeout time.Duration) error {
	return c.command(CommandDetach, uint32(why), nil, timeout)
}

// SkipDrain ends a drain that a Detach waits for: what still runs stays untimed.
func (c *Control) SkipDrain() { atomic.StoreUint32(&c.shared.SkipDrain, 1) }

// command puts a command into the mailbox, wakes the control thread and waits
// for the answer. Only the holder of the lock sends commands.
func (c *Control) command(cmd Command, argument uint32, env []byte, timeout time.Duration) error {
	if len(env) > EnvMax {
		return fmt.Errorf("environment buffer of %d bytes, room for %d", len(env), EnvMax)
	}
	c.mailbox.Lock()
	defer c.mailbox.Unlock()

	copy(c.mem[EnvOffset:], env)
	atomic.StoreUint32(&c.shared.EnvLen, uint32(len(env)))
	atomic.StoreUint32(&c.shared.Argument, argument)
	atomic.StoreUint32(&c.shared.Command, uint32(cmd))
	seq := atomic.LoadUint32(&c.shared.CommandSeq) + 1
	bump(&c.shared.CommandSeq, seq)

	for deadline := time.Now().Add(timeout); ; {
		answered := atomic.LoadUint32(&c.shared.AnswerSeq)
		if answered == seq {
			break
		}
		left := time.Until(deadline)
		if left <= 0 {
			c.withdraw(cmd)
			return fmt.Errorf("%w within %v", ErrNoAnswer, timeout)
		}
		sleepOn(&c.shared.AnswerSeq, answered, min(left, gonePeriod))
		select {
		case <-c.gone:
			return fmt.Errorf("%w: its process is gone", ErrNoAnswer)
		default:
		}
	}
	if errno := errnoOf(atomic.LoadInt32(&c.shared.Result)); errno != 0 {
		return &CommandError{Errno: errno, Text: c.errorText()}
	}
	return nil
}

// withdraw sees to it that a control thread that comes late begins no session: nobody
// would end it. One that has just read the command runs it all the same. A late detach
// does no harm.
func (c *Control) withdraw(cmd Command) {
	if cmd == CommandReattach {
		atomic.StoreUint32(&c.shared.Command, uint32(CommandPing))
	}
}
