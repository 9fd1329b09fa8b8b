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

// waitBoot waits until the bootstrap thread serves commands, and opens its channel.
func (s *injection) waitBoot(ctx context.Context, rep *Report) (*bootChannel, error) {
	if err := at(PointCloned); err != nil {
		return nil, errors.Join(err, s.awaitBootEnd())
	}
	b, err := s.awaitReady(ctx)
	if err != nil {
		return nil, err
	}
	tid, err := s.t.ThreadByNSPID(int(b.Thread_tid))
	if err != nil {
		return nil, errors.Join(s.orLeft(err), s.awaitBootEnd())
	}
	rep.BootTID = tid
	k, err := openBootChannel(s.t, b, tid)
	if err != nil {
		return nil, errors.Join(s.orLeft(err), s.awaitBootEnd())
	}
	s.undo.push(func() error {
		defer k.close()
		return s.leave(k)
	})
	return k, s.checkRights(tid)
}

// orLeft returns ErrLeft if err says that the bootstrap thread has ended, otherwise err.
func (s *injection) orLeft(err error) error {
	if errors.Is(err, target.ErrThreadGone) {
		return fmt.Errorf("pid %d: %w", s.t.PID, ErrLeft)
	}
	return err
}

// checkRights fails if the target changed its user during the clone. libc's setuid
// changes all threads on libc's list; the raw thread is not on it, and the bootstrap
// thread inherits from the raw thread. So checkRights compares the bootstrap thread with
// the visited thread, from which both inherited their credentials.
func (s *injection) checkRights(tid int) error {
	ours, err := s.t.ThreadStatus(tid)
	if err != nil {
		return s.orLeft(err)
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

// ErrRights means that the target changed its user or its capabilities during the
// injection.
var ErrRights = errors.New("its user or its capabilities changed while a thread was made in it")

// awaitReady waits until the bootstrap thread reports that it is ready, or has failed.
func (s *injection) awaitReady(ctx context.Context) (*boot, error) {
	var b boot
	for deadline := time.Now().Add(s.r.BootTimeout); ; time.Sleep(100 * time.Microsecond) {
		if err := readBoot(s.t, s.place.data, &b); err != nil {
			if found, merr := s.mapped(); merr == nil && len(found) == 0 {
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
			return nil, errors.Join(ctx.Err(), s.awaitBootEnd())
		case time.Now().After(deadline):
			err := &TimeoutError{PID: s.t.PID, Step: "start a thread", After: s.r.BootTimeout}
			return nil, errors.Join(err, s.awaitBootEnd())
		}
	}
}

// awaitBootEnd waits until a bootstrap thread to which the tool will send no command has
// ended by itself. The thread does that as soon as it does not wait for a lock of the
// target.
func (s *injection) awaitBootEnd() error {
	deadline := time.Now().Add(s.r.IdleTimeout + s.r.BootTimeout)
	for ; time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if found, err := s.mapped(); err != nil || len(found) == 0 {
			return ignoreGone(err)
		}
	}
	return &RemainsError{What: "a bootstrap thread (it waits for a lock, and then ends by itself)"}
}

func (s *injection) bootFailed(b *boot) error {
	names := map[uint32]string{
		failedPthreadCreate: "pthread_create", failedMemfd: "memfd_create",
		failedTruncate: "ftruncate", failedSeal: "F_ADD_SEALS", failedMmap: "mmap",
	}
	err := error(&BootError{Call: names[b.Failed], Err: unix.Errno(-b.Error)})
	if b.Failed != failedPthreadCreate {
		return errors.Join(err, s.awaitBootEnd()) // the thread unmaps everything
	}
	for deadline := time.Now().Add(s.r.BootTimeout); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		var now boot
		if rerr := readBoot(s.t, s.place.data, &now); rerr != nil || now.Raw_alive == 0 {
			return errors.Join(err, ignoreGone(rerr), s.unmap())
		}
	}
	return errors.Join(err, &RemainsError{What: "the bootstrap's mapping"})
}

// loadAndCall makes the bootstrap thread load the payload and call its entry.
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

// load makes the target dlopen the payload from a memfd, or, if it may not map that
// executable, from a staged file in one of its directories.
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

// loadElsewhere tries the staging directories in turn, as long as the loader refuses the
// file itself. If it refuses all of them, loadElsewhere returns all refusals.
func (s *injection) loadElsewhere(ctx context.Context, k *bootChannel, rep *Report, refusal error) error {
	err := refusal
	for _, dir := range StageDirs {
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

// deliver writes the payload's bytes into the memfd that the bootstrap thread has
// created: it belongs to the target, whatever namespaces the target is in.
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

// uniquePath spells /proc/self/fd/N differently for each injection: glibc compares names
// first, and would return a library that it loaded under the same name before.
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

// leave sends the bootstrap thread the command to end, and waits until the thread and
// the mappings are gone.
func (s *injection) leave(k *bootChannel) error {
	k.send(commandLeave)
	if err := at(PointLeft); err != nil {
		return err
	}
	for deadline := time.Now().Add(s.r.BootTimeout); time.Now().Before(deadline); time.Sleep(200 * time.Microsecond) {
		if _, err := s.t.ThreadStat(k.tid); !target.ThreadEnded(err) {
			continue
		}
		found, err := s.mapped()
		if err != nil {
			return ignoreGone(err)
		}
		if len(found) == 0 {
			return nil
		}
	}
	return &RemainsError{What: fmt.Sprintf("the bootstrap thread %d (it has not returned from the payload or the loader)", k.tid)}
}
