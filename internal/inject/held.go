package inject

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// beats is how often the tool gives a sign of life within the time after which the bootstrap
// thread takes it for dead.
const beats = 8

// Held is a bootstrap thread that stays in the target, and calls functions of libraries that are
// loaded there. If the tool dies, or is stopped for longer than the idle time, the thread calls
// the watched function, removes everything, and ends. The methods may be called from any
// goroutine; a call waits for the one before.
type Held struct {
	s    *injection
	k    *bootChannel
	rep  *Report
	stop chan struct{} // closed: no more signs of life
	done sync.WaitGroup
	lost chan struct{} // closed when the thread does not answer any more

	mu    sync.Mutex
	ended bool
}

// Hold makes a bootstrap thread and keeps it until Release or Abandon. It stops threads of the
// target as Inject does; the calls stop none. idle is how long the thread waits for a sign of life.
// On an error the target is in its original state, as for Inject.
func Hold(ctx context.Context, t *target.Target, tr *ptrace.Tracer, idle time.Duration) (*Held, *Report, error) {
	begin, rep := time.Now(), &Report{}
	s, err := prepare(ctx, t, tr, Request{IdleTimeout: idle}.withDefaults())
	if err != nil {
		return nil, rep, err
	}
	k, err := s.enter(ctx, rep)
	if err == nil {
		err = at(PointReady)
	}
	if err != nil {
		err = s.rollBack(err)
	}
	rep.Pauses, rep.Elapsed = s.threadBorrower.pauses, time.Since(begin)
	if err != nil {
		return nil, rep, err
	}
	h := &Held{s: s, k: k, rep: rep, stop: make(chan struct{}), lost: make(chan struct{})}
	h.done.Go(h.beat)
	return h, rep, nil
}

// Lost returns a channel that is closed when the thread does not answer any more: the target has
// exited, or the thread has taken this tool for dead.
func (h *Held) Lost() <-chan struct{} { return h.lost }

// beat gives the signs of life.
func (h *Held) beat() {
	tick := time.NewTicker(h.s.r.IdleTimeout / beats)
	defer tick.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-tick.C:
		}
		h.mu.Lock()
		_, err := h.k.ask(context.Background(), commandNone, "answer", h.s.r.BootTimeout, nil)
		h.mu.Unlock()
		if err != nil {
			close(h.lost)
			return
		}
	}
}

// Watch sets the function that the thread calls without arguments once this tool is dead; 0: none.
func (h *Held) Watch(function target.Addr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.k.s.Address = uint64(function)
	_, err := h.k.ask(context.Background(), commandWatch, "watch", h.s.r.BootTimeout, nil)
	return h.explained(err)
}

// CallText calls function(env, text) in the target, and returns its result. env has at most 64 KiB,
// text at most 1023 bytes. After a TimeoutError the call may still run.
func (h *Held) CallText(ctx context.Context, function target.Addr, env []byte, text, step string, patience time.Duration) (int32, error) {
	if len(env) > envMax || len(text) >= pathMax {
		return 0, fmt.Errorf("arguments of %d and %d bytes: at most %d and %d", len(env), len(text), envMax, pathMax-1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.k.s.Address = uint64(function)
	h.k.s.Env_bytes = uint64(copy(h.k.s.Env[:], env))
	setText(h.k.s.Path[:], text)
	result, err := h.k.ask(ctx, commandCallText, step, patience, nil)
	return result, h.explained(err)
}

func (h *Held) explained(err error) error {
	if err == nil {
		return nil
	}
	return h.k.explain(err)
}

// Release ends the thread, and waits until it and its memory are gone.
func (h *Held) Release() error {
	if !h.end() {
		return nil
	}
	return h.s.undo.run()
}

// Abandon gives no more signs of life, and leaves the rest to the thread: once a call that still
// runs has returned, it calls the watched function and ends.
func (h *Held) Abandon() {
	if h.end() {
		h.s.undo.forget()
		h.k.close()
	}
}

// end ends the signs of life; false: that was done before.
func (h *Held) end() bool {
	h.mu.Lock()
	ended := h.ended
	h.ended = true
	h.mu.Unlock()
	if ended {
		return false
	}
	close(h.stop)
	h.done.Wait()
	return true
}
