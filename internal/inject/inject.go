// Package inject runs code in a process that was not prepared for it. It stops one
// waiting thread twice for a short time. That thread makes three raw syscalls: two map
// memory, one creates a thread. The new thread does the rest while all others run.
package inject

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Request describes what to run in the target. Exactly one of Library, LibraryPath and
// EntryAddr is used. A zero timeout means the default.
type Request struct {
	Library     []byte      // the payload's bytes
	LibraryPath string      // or a path in the target's mount namespace
	EntryAddr   target.Addr // or the address of the entry in a resident payload
	Entry       string      // symbol to look up in the library
	Env         []byte      // passed to the entry as (const void *, uint64_t)

	StopTimeout  time.Duration // for a thread to stop; then Inject tries another (20 ms)
	MapTimeout   time.Duration // for the mappings to appear; the thread may wait for a CPU (5 s)
	BootTimeout  time.Duration // for the bootstrap thread to answer; it may wait for a CPU (5 s)
	LoadTimeout  time.Duration // for dlopen (10 s)
	EntryTimeout time.Duration // for the entry to return (30 s)
	IdleTimeout  time.Duration // the bootstrap thread ends after this long without a command (2 s)

	// UnreadFilters continues if the target has seccomp filters that the tool may not
	// read: if one of them kills, the target dies.
	UnreadFilters bool

	// Progress, if set, is called about every millisecond while the entry runs, on the
	// goroutine of Inject.
	Progress func()

	pokeCode bool // tests: treat /proc/PID/mem as unable to write the code
}

// Report is the result of Inject. On errors it is filled in as far as Inject got.
type Report struct {
	Pauses        []Pause
	Rung          string // how the thread was used: "released" at once, or "held" over its calls
	TID           int    // the thread that made the clone
	BootTID       int    // the thread that called the entry, in the tool's pid namespace
	LibraryHandle uint64
	EntryResult   int32
	StagedFile    string // path in the target's root of the file from which it loaded the payload; "": from the memfd
	Reclaimed     int    // number of mappings of dead tools that were removed
	Elapsed       time.Duration
}

func (r Request) withDefaults() Request {
	for _, d := range []struct {
		at *time.Duration
		by time.Duration
	}{
		{&r.StopTimeout, 20 * time.Millisecond},
		{&r.MapTimeout, 5 * time.Second},
		{&r.BootTimeout, 5 * time.Second},
		{&r.LoadTimeout, 10 * time.Second},
		{&r.EntryTimeout, 30 * time.Second},
		{&r.IdleTimeout, 2 * time.Second},
	} {
		if *d.at == 0 {
			*d.at = d.by
		}
	}
	return r
}

func (r Request) check() error {
	switch {
	case len(r.Env) > envMax:
		return fmt.Errorf("environment buffer of %d bytes: at most %d", len(r.Env), envMax)
	case r.EntryAddr == 0 && r.Entry == "":
		return errors.New("no entry point named")
	case r.EntryAddr == 0 && r.Library == nil && r.LibraryPath == "":
		return errors.New("no library given")
	case len(r.Entry) >= nameMax || len(r.LibraryPath) >= pathMax:
		return errors.New("name too long")
	}
	return nil
}

// exitPatience is how long Inject waits for a target that has begun to exit.
const exitPatience = 2 * time.Second

// Inject runs r in t. On an error the target is in its original state, unless the error
// contains a RemainsError. The error may be a TimeoutError, a LoadError, a BootError, an
// error of package target, or ctx's error.
func Inject(ctx context.Context, t *target.Target, tr *ptrace.Tracer, r Request) (*Report, error) {
	begin := time.Now()
	r = r.withDefaults()
	rep := &Report{}
	if err := r.check(); err != nil {
		return rep, err
	}
	s, err := prepare(ctx, t, tr, r)
	if err != nil {
		return rep, err
	}
	if err = s.run(ctx, rep); err != nil {
		err = s.rollBack(err)
	}
	rep.Pauses, rep.Elapsed = s.threadBorrower.pauses, time.Since(begin)
	return rep, err
}

// rollBack undoes a failed injection, and completes its error.
func (s *injection) rollBack(err error) error {
	err = errors.Join(err, s.undo.run())
	if gone := s.t.WaitGone(exitPatience); gone != nil && !errors.Is(err, target.ErrGone) && !errors.Is(err, target.ErrExec) {
		err = fmt.Errorf("%w: %v", gone, err)
	}
	return err
}

// injection is the state of one call of Inject.
type injection struct {
	threadBorrower
	r       Request
	code    []byte
	blocks  []threadBlock
	place   place
	mapping bool // a thread may still be about to map memory
	undo    undo
}

// prepare resolves everything that can be known without stopping a thread.
func prepare(ctx context.Context, t *target.Target, tr *ptrace.Tracer, r Request) (*injection, error) {
	s := &injection{r: r, code: bootCode()}
	if s.code == nil {
		return nil, ErrNotBuilt
	}
	// With a shadow stack, rt_sigreturn would need its frame there as well.
	if status, err := t.ThreadStatus(t.LiveThread()); err != nil {
		return nil, err
	} else if slices.Contains(status.ThreadFeatures, "shstk") {
		return nil, fmt.Errorf("pid %d: %w", t.PID, target.ErrShadowStack)
	}
	maps, l, err := resolve(ctx, t)
	if err != nil {
		return nil, err
	}
	if s.blocks, err = l.threadBlocks(t); err != nil {
		return nil, err
	}
	base, err := chooseBase(maps)
	if err != nil {
		return nil, err
	}
	s.place = newPlace(base, l, s.blocks)
	if err := checkLimits(t, s.place); err != nil {
		return nil, err
	}
	s.threadBorrower = threadBorrower{
		t: t, tr: tr, libc: l, maps: maps, patience: r.StopTimeout,
		unreadFilters: r.UnreadFilters, nonce: newNonce(),
	}
	return s, nil
}

// resolve reads the mappings, and finds libc among them.
func resolve(ctx context.Context, t *target.Target) (maps []target.Map, l *libc, err error) {
	err = onceLoaded(ctx, func() (err error) {
		if maps, err = t.Maps(); err == nil {
			l, err = findLibc(t, maps)
		}
		return err
	})
	return maps, l, err
}

// loadingPatience is how long onceLoaded waits while the target loads libraries: the
// link map is inconsistent meanwhile.
const loadingPatience = time.Second

// onceLoaded repeats look until the target is not loading libraries.
func onceLoaded(ctx context.Context, look func() error) error {
	for deadline := time.Now().Add(loadingPatience); ; time.Sleep(loadingPatience / 100) {
		err := look()
		if !errors.Is(err, target.ErrLoading) || time.Now().After(deadline) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// newNonce returns a random number that identifies this injection.
func newNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint64(b[:])
}

// enter makes the bootstrap thread step by step, and returns its channel.
func (s *injection) enter(ctx context.Context, rep *Report) (*bootChannel, error) {
	if err := errors.Join(ctx.Err(), at(PointResolved)); err != nil {
		return nil, err
	}
	if err := s.mapMemory(rep); err != nil {
		return nil, err
	}
	if err := s.fill(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err // no thread uses the mappings yet: undo can unmap them
	}
	if err := s.startThread(rep); err != nil {
		return nil, err
	}
	return s.waitBoot(ctx, rep)
}

// run performs the whole injection.
func (s *injection) run(ctx context.Context, rep *Report) error {
	channel, err := s.enter(ctx, rep)
	if err != nil {
		return err
	}
	if err := s.loadAndCall(ctx, channel, rep); err != nil {
		return channel.explain(err)
	}
	return s.undo.run() // the bootstrap ends after a success, too
}
