package inject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// waitBoot waits until the bootstrap thread serves commands.
func (s *injection) waitBoot(ctx context.Context, rep *Report) (*bootChannel, error) {
	if err := at(PointCloned); err != nil {
		return nil, errors.Join(err, s.abandoned())
	}
	b, err := s.awaitReady(ctx)
	if err != nil {
		return nil, err
	}
	tid, err := s.t.ThreadByNSPID(int(b.Thread_tid))
	if err != nil {
		return nil, errors.Join(s.unlessLeft(err), s.abandoned())
	}
	rep.BootTID = tid
	k, err := openBootChannel(s.t, b, tid)
	if err != nil {
		return nil, errors.Join(s.unlessLeft(err), s.abandoned())
	}
	s.undo.push(func() error {
		defer k.close()
		return s.leave(k)
	})
	return k, s.sameRights(tid)
}

// unlessLeft: a bootstrap thread that is gone has given us up.
func (s *injection) unlessLeft(err error) error {
	if errors.Is(err, target.ErrThreadGone) {
		return fmt.Errorf("pid %d: %w", s.t.PID, ErrLeft)
	}
	return err
}

// sameRights: a setuid of the target's during the clone does not reach the raw thread,
// which none of libc's lists has, and so not the thread that this one makes. It has
// reached the thread visited, whose rights both were born with.
func (s *injection) sameRights(tid int) error {
	ours, err := s.t.ThreadStatus(tid)
	if err != nil {
		return s.unlessLeft(err)
	}
	theirs, err := s.t.ThreadStatus(s.last)
	if target.ThreadEnded(err) {
		return s.t.CheckIdentity() // it has ended: nothing to compare with
	}
	if err != nil {
		return err
	}
	if ours.Rights != theirs.Rights {
		return fmt.Errorf("pid %d: %w", s.t.PID, ErrRights)
	}
	return nil
}

// ErrRights: the target has changed its user or its capabilities just now.
var ErrRights = errors.New("its user or its capabilities changed while a thread was made in it")

func (s *injection) awaitReady(ctx context.Context) (*boot, error) {
	var b boot
	for deadline := time.Now().Add(s.r.BootTimeout); ; time.Sleep(100 * time.Microsecond) {
		if err := readBoot(s.t, s.place.data, &b); err != nil {
			if found, merr := s.ours(); merr == nil && len(found) == 0 {
				err = ErrLeft
			}
			return nil, fmt.Errorf("pid %d: %w", s.t.PID, err)
		}
		switch {
		case b.Magic != bootMagic || b.Nonce != s.nonce:
			return nil, fmt.Errorf("pid %d: %w", s.t.PID, ErrLeft)
		case b.Phase == phaseReady:
			return &b, nil
		case b.Phase == phaseFailed:
			return nil, s.bootFailed(&b)
		case ctx.Err() != nil:
			return nil, errors.Join(ctx.Err(), s.abandoned())
		case time.Now().After(deadline):
			err := &TimeoutError{PID: s.t.PID, Step: "start a thread", After: s.r.BootTimeout}
			return nil, errors.Join(err, s.abandoned())
		}
	}
}

// abandoned describes a bootstrap that nobody will talk to: it ends by itself,
// as soon as it is not waiting for the target's locks any more.
func (s *injection) abandoned() error {
	deadline := time.Now().Add(s.r.IdleTimeout + s.r.BootTimeout)
	for ; time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if found, err := s.ours(); err != nil || len(found) == 0 {
			return goneIsFine(err)
		}
	}
	return &RemainsError{What: "a bootstrap thread that waits for a lock of the target's, and then leaves by itself"}
}

func (s *injection) bootFailed(b *boot) error {
	names := map[uint32]string{
		failedPthreadCreate: "pthread_create", failedMemfd: "memfd_create",
		failedTruncate: "ftruncate", failedSeal: "F_ADD_SEALS", failedMmap: "mmap",
	}
	err := error(&BootError{Call: names[b.Failed], Err: unix.Errno(-b.Error)})
	if b.Failed != failedPthreadCreate {
		return errors.Join(err, s.abandoned()) // its thread unmaps everything
	}
	for deadline := time.Now().Add(s.r.BootTimeout); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		var now boot
		if rerr := readBoot(s.t, s.place.data, &now); rerr != nil || now.Raw_alive == 0 {
			return errors.Join(err, goneIsFine(rerr), s.unmap())
		}
	}
	return errors.Join(err, &RemainsError{What: "the bootstrap's mapping"})
}

// loadAndCall has the payload loaded and its entry called.
func (s *injection) loadAndCall(ctx context.Context, k *bootChannel, rep *Report) error {
	if err := at(PointReady); err != nil {
		return err
	}
	if s.r.EntryAddr == 0 {
		if err := s.load(ctx, k, rep); err != nil {
			return err
		}
		setText(k.s.Name[:], s.r.Entry)
		result, err := k.ask(ctx, commandResolve, "look up "+s.r.Entry, s.r.LoadTimeout, nil)
		if err != nil {
			return err
		}
		if result != 0 {
			return &LoadError{Text: cText(k.s.Text[:])}
		}
	} else {
		k.s.Address = uint64(s.r.EntryAddr)
	}
	if err := at(PointResolvedE); err != nil {
		return err
	}
	k.s.Env_bytes = uint64(copy(k.s.Env[:], s.r.Env))
	result, err := k.ask(ctx, commandCall, "return from the payload's entry", s.r.EntryTimeout, s.r.Progress)
	if err != nil {
		return err
	}
	rep.EntryResult = result
	return at(PointCalled)
}

// load opens the payload from a memfd of the target's, and where that may not
// be mapped executable, from a file in a directory of the target's.
func (s *injection) load(ctx context.Context, k *bootChannel, rep *Report) error {
	path := s.r.LibraryPath
	if path == "" {
		if err := k.deliver(s.r.Library); err != nil {
			return err
		}
		path = uniquePath(k.payload, s.nonce)
	}
	if err := at(PointDelivered); err != nil {
		return err
	}
	err := s.dlopen(ctx, k, path)
	if s.r.LibraryPath == "" {
		err = s.loadElsewhere(ctx, k, rep, err)
	}
	if err != nil {
		return err
	}
	rep.LibraryHandle = k.s.Handle
	return at(PointLoaded)
}

// loadElsewhere tries the staging directories for as long as it is the file that
// is refused, and returns all that was said when none will do.
func (s *injection) loadElsewhere(ctx context.Context, k *bootChannel, rep *Report, refusal error) error {
	err := refusal
	for _, dir := range stageDirs {
		if !fileRefused(err) {
			return err
		}
		if err = s.loadStaged(ctx, k, dir, rep); err != nil {
			refusal = errors.Join(refusal, err)
		}
	}
	if fileRefused(err) {
		return refusal
	}
	return err
}

func (s *injection) dlopen(ctx context.Context, k *bootChannel, path string) error {
	setText(k.s.Path[:], path)
	result, err := k.ask(ctx, commandLoad, "load the payload", s.r.LoadTimeout, nil)
	if err != nil {
		return err
	}
	if result != 0 {
		return &LoadError{Path: path, Text: cText(k.s.Text[:])}
	}
	return nil
}

// deliver writes the payload's bytes into the file that the bootstrap has made
// for them: it is the target's own, whatever namespaces it lives in.
func (k *bootChannel) deliver(library []byte) error {
	f, err := k.t.OpenMemfdOf(k.tid, k.payload, payloadFile, os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("open the payload's file: %w", err)
	}
	_, err = f.Write(library)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the payload's file: %w", err)
	}
	return nil
}

// uniquePath spells /proc/self/fd/N as no injection before: glibc compares
// names first, and would return the library that it once found there.
func uniquePath(fd int, nonce uint64) string {
	var b strings.Builder
	b.WriteString("/proc/self")
	for range 48 {
		b.WriteString([...]string{"/.", "//."}[nonce&1])
		nonce >>= 1
	}
	fmt.Fprintf(&b, "/fd/%d", fd)
	return b.String()
}

// leave tells the bootstrap thread to go, and waits until nothing is left.
func (s *injection) leave(k *bootChannel) error {
	k.send(commandLeave)
	if err := at(PointLeft); err != nil {
		return err
	}
	for deadline := time.Now().Add(s.r.BootTimeout); time.Now().Before(deadline); time.Sleep(200 * time.Microsecond) {
		if _, err := s.t.ThreadStat(k.tid); !target.ThreadEnded(err) {
			continue
		}
		found, err := s.ours()
		if err != nil {
			return goneIsFine(err)
		}
		if len(found) == 0 {
			return nil
		}
	}
	return &RemainsError{What: fmt.Sprintf("the bootstrap thread %d, which is not back from the payload or the loader", k.tid)}
}
