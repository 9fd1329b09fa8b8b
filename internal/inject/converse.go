package inject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// meet waits until the bootstrap thread serves commands.
func (s *surgery) meet(ctx context.Context, rep *Report) (*talk, error) {
	if err := at(PointCloned); err != nil {
		return nil, errors.Join(err, s.abandoned())
	}
	b, err := s.awaitReady(ctx)
	if err != nil {
		return nil, err
	}
	tid, err := s.t.ThreadByNSPID(int(b.Thread_tid))
	if err != nil {
		return nil, err
	}
	rep.BootTID = tid
	k, err := openTalk(s.t, b, tid)
	if err != nil {
		return nil, errors.Join(err, s.abandoned())
	}
	s.undo.push(func() error {
		defer k.close()
		return s.leave(k)
	})
	return k, nil
}

func (s *surgery) awaitReady(ctx context.Context) (*boot, error) {
	var b boot
	for deadline := time.Now().Add(s.r.BootTimeout); ; time.Sleep(100 * time.Microsecond) {
		if err := readBoot(s.t, s.place.data, &b); err != nil {
			return nil, err
		}
		switch {
		case b.Magic != bootMagic || b.Nonce != s.nonce:
			return nil, fmt.Errorf("the bootstrap thread of pid %d has left", s.t.PID)
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
func (s *surgery) abandoned() error {
	deadline := time.Now().Add(s.r.IdleTimeout + s.r.BootTimeout)
	for ; time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if found, err := s.ours(); err != nil || len(found) == 0 {
			return goneIsFine(err)
		}
	}
	return &RemainsError{What: "a bootstrap thread that waits for a lock of the target's, and then leaves by itself"}
}

func (s *surgery) bootFailed(b *boot) error {
	names := map[uint32]string{failedPthreadCreate: "pthread_create", failedMemfd: "memfd_create",
		failedTruncate: "ftruncate", failedSeal: "F_ADD_SEALS", failedMmap: "mmap"}
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

// converse has the payload loaded and its entry called.
func (s *surgery) converse(ctx context.Context, k *talk, rep *Report) error {
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
func (s *surgery) load(ctx context.Context, k *talk, rep *Report) error {
	path := s.r.LibraryPath
	if path == "" {
		if err := deliver(s.t, k.payload, s.r.Library); err != nil {
			return err
		}
		path = uniquePath(k.payload, s.nonce)
	}
	if err := at(PointDelivered); err != nil {
		return err
	}
	err := s.dlopen(ctx, k, path)
	var refused *LoadError
	if errors.As(err, &refused) && s.r.LibraryPath == "" && memfdRefused(refused.Text) {
		file, serr := stage(s.t, s.r.Library, s.nonce)
		if serr != nil {
			return errors.Join(err, serr)
		}
		defer file.remove()
		rep.StagedFile = file.name
		err = s.dlopen(ctx, k, file.name)
	}
	if err != nil {
		return err
	}
	rep.LibraryHandle = k.s.Handle
	return at(PointLoaded)
}

func (s *surgery) dlopen(ctx context.Context, k *talk, path string) error {
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

// deliver writes the payload's bytes into the file that the target has made
// for them: it is the target's own, whatever namespaces it lives in.
func deliver(t *target.Target, fd int, library []byte) error {
	path := t.FD(fd)
	if name, err := os.Readlink(path); err != nil || !strings.HasPrefix(name, "/memfd:rtl-payload") {
		return fmt.Errorf("payload's file is %q: %w", name, target.ErrMalformed)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
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

// memfdRefused tells a refusal of the file itself from one of its contents, by
// the texts of glibc's loader (elf/dl-load.c).
func memfdRefused(text string) bool {
	return strings.Contains(text, "failed to map segment") ||
		strings.Contains(text, "cannot open shared object file")
}

// leave tells the bootstrap thread to go, and waits until nothing is left.
func (s *surgery) leave(k *talk) error {
	k.send(commandLeave)
	if err := at(PointLeft); err != nil {
		return err
	}
	for deadline := time.Now().Add(s.r.BootTimeout); time.Now().Before(deadline); time.Sleep(200 * time.Microsecond) {
		if _, err := s.t.ThreadStat(k.tid); !errors.Is(err, target.ErrGone) {
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

// staged is the payload in a file of the target's mount namespace.
type staged struct {
	name string // as the target sees it
	path string // as we do
}

// stage writes the payload where the target can load it from.
func stage(t *target.Target, library []byte, nonce uint64) (*staged, error) {
	var errs []error
	for _, dir := range []string{"/dev/shm", "/tmp", "/run", "/var/tmp"} {
		name := filepath.Join(dir, fmt.Sprintf(".rtl-payload-%016x.so", nonce))
		f := &staged{name: name, path: t.Root() + name}
		err := f.write(library, t.UID)
		if err == nil {
			return f, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("stage the payload in a directory of pid %d: %w", t.PID, errors.Join(errs...))
}

func (f *staged) write(library []byte, owner int) error {
	out, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o700)
	if err != nil {
		return err
	}
	_, err = out.Write(library)
	if err == nil && owner != os.Geteuid() {
		err = out.Chown(owner, -1)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		f.remove()
		return err
	}
	return nil
}

func (f *staged) remove() { _ = os.Remove(f.path) }
