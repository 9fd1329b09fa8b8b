package ring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
)

// ErrNoAnswer means that the control thread did not answer in time. It may hang; the tool can
// still call the entry points by ptrace.
var ErrNoAnswer = errors.New("no answer from the control thread")

// gonePeriod is the time between checks whether the target has exited.
const gonePeriod = 50 * time.Millisecond

// CommandError is the error of an answered command.
type CommandError struct {
	Errno unix.Errno
	Text  string // the payload's message, sanitized
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

// Ping waits for an answer, and does nothing else.
func (c *Control) Ping(timeout time.Duration) error {
	return c.command(request{command: CommandPing, timeout: timeout})
}

// Reattach begins a session with the settings in env.
func (c *Control) Reattach(env []byte, timeout time.Duration) error {
	return c.command(request{command: CommandReattach, env: env, timeout: timeout})
}

// Detach ends the session for a reason. Before it answers, the payload writes its remaining
// records: if taken is not nil, the timeout restarts whenever its result changes.
func (c *Control) Detach(why End, timeout time.Duration, taken func() uint64) error {
	return c.command(request{command: CommandDetach, argument: uint32(why), timeout: timeout, moves: taken})
}

// SkipDrain ends the drain of a Detach: kernels that still run remain untimed.
func (c *Control) SkipDrain() { atomic.StoreUint32(&c.shared.SkipDrain, 1) }

// request is a command with its arguments.
type request struct {
	command  Command
	argument uint32
	env      []byte
	timeout  time.Duration
	moves    func() uint64 // nil: the timeout does not restart
}

func (r *request) moved() uint64 {
	if r.moves == nil {
		return 0
	}
	return r.moves()
}

// command puts a command into the mailbox, wakes the control thread and waits for the answer.
// Only the holder of the lock may send commands.
func (c *Control) command(r request) error {
	if len(r.env) > EnvMax {
		return fmt.Errorf("environment buffer of %d bytes, room for %d", len(r.env), EnvMax)
	}
	c.mailbox.Lock()
	defer c.mailbox.Unlock()

	copy(c.mem[EnvOffset:], r.env)
	atomic.StoreUint32(&c.shared.EnvLen, uint32(len(r.env)))
	atomic.StoreUint32(&c.shared.Argument, r.argument)
	atomic.StoreUint32(&c.shared.Command, uint32(r.command))
	seq := atomic.LoadUint32(&c.shared.CommandSeq) + 1
	bump(&c.shared.CommandSeq, seq)
	if c.Sent != nil {
		if err := c.Sent(r.command); err != nil {
			c.cancel(r.command)
			return err
		}
	}
	if err := c.await(seq, r); err != nil {
		return err
	}
	if errno := errnoOf(atomic.LoadInt32(&c.shared.Result)); errno != 0 {
		return &CommandError{Errno: errno, Text: c.errorText()}
	}
	return nil
}

// await returns when request number seq has been answered.
func (c *Control) await(seq uint32, r request) error {
	deadline, seen := time.Now().Add(r.timeout), uint64(0)
	for {
		answered := atomic.LoadUint32(&c.shared.AnswerSeq)
		if answered == seq {
			return nil
		}
		if now := r.moved(); now != seen {
			deadline, seen = time.Now().Add(r.timeout), now
		}
		left := time.Until(deadline)
		if left <= 0 {
			c.cancel(r.command)
			return fmt.Errorf("%w within %s", ErrNoAnswer, humanize.Duration(r.timeout))
		}
		sleepOn(&c.shared.AnswerSeq, answered, min(left, gonePeriod))
		select {
		case <-c.gone:
			return fmt.Errorf("%w: its process is gone", ErrNoAnswer)
		default:
		}
	}
}

// cancel removes a command, so that a late control thread begins no session that no tool
// would end. A control thread that has just read the command still runs it. A late detach is
// harmless.
func (c *Control) cancel(cmd Command) {
	if cmd == CommandReattach {
		atomic.StoreUint32(&c.shared.Command, uint32(CommandPing))
	}
}
