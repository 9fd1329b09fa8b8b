package inject

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// fill writes code and data into the mappings while the target runs.
func (s *injection) fill() error {
	generation, err := s.t.Uint64(target.Addr(s.head[headDTV])) // dtv[0] of the thread visited
	if err != nil {
		return fmt.Errorf("thread vector of thread %d: %w", s.last, err)
	}
	var head bytes.Buffer
	if err := binary.Write(&head, binary.LittleEndian, s.bootStruct()); err != nil {
		return err
	}
	// The raw thread's first `ret` pops the entry of the code.
	entry := binary.LittleEndian.AppendUint64(nil, uint64(s.place.code))
	for _, w := range []struct {
		at target.Addr
		b  []byte
	}{
		{s.place.data, head.Bytes()},
		{s.place.data + stackStart, entry},
		{s.place.data + dtvAt, threadImage(s.place, s.libc, s.blocks, &s.head, generation)},
	} {
		if err := s.t.Write(w.at, w.b); err != nil {
			return err
		}
	}
	if s.r.pokeCode || s.t.Write(s.place.code, s.code) != nil {
		// On some kernels only a tracer can write read-only memory: stop 2 does it.
		s.text, s.textAt = s.code, s.place.code
	}
	return at(PointWritten)
}

// bootStruct returns the input of the bootstrap code.
func (s *injection) bootStruct() *boot {
	f := func(name string) uint64 { return uint64(s.libc.funcs[name]) }
	return &boot{
		Magic:                       bootMagic,
		Nonce:                       s.nonce,
		Raw_alive:                   1,
		Shared_fd:                   -1,
		Payload_fd:                  -1,
		Tid_at:                      uint64(s.place.tp) + s.libc.tidOffset,
		Map_start:                   uint64(s.place.code),
		Map_bytes:                   s.place.bytes(),
		Idle_ns:                     uint64(s.r.IdleTimeout.Nanoseconds()),
		Ctype_init:                  f("__ctype_init"),
		Pthread_attr_init:           f("pthread_attr_init"),
		Pthread_attr_setdetachstate: f("pthread_attr_setdetachstate"),
		Pthread_create:              f("pthread_create"),
		Pthread_getspecific:         f("pthread_getspecific"),
		Pthread_setspecific:         f("pthread_setspecific"),
		Pthread_keys:                f("__pthread_keys"),
		Call_tls_dtors:              f("__call_tls_dtors"),
		Dlopen:                      f("dlopen"),
		Dlsym:                       f("dlsym"),
		Dlerror:                     f("dlerror"),
		Munmap:                      f("munmap"),
	}
}

// cloneFlags are pthread_create's flags. The kernel clears raw_alive when the thread
// ends (CLONE_CHILD_CLEARTID, clone(2)).
const cloneFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD |
	unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID

// Offsets in struct rtl_boot.
const (
	rawAliveOffset = uint64(unsafe.Offsetof(boot{}.Raw_alive))
	rawTIDOffset   = uint64(unsafe.Offsetof(boot{}.Raw_tid))
	armedOffset    = target.Addr(unsafe.Offsetof(boot{}.Armed_tid))
)

// startThread is stop 2: one raw clone. From here on the mappings belong to the threads
// that run in them, which unmap them.
func (s *injection) startThread(rep *Report) error {
	p := s.place
	clone := []call{{nr: unix.SYS_CLONE, rbx: uint64(p.data), args: [6]uint64{
		cloneFlags, uint64(p.data + stackStart), uint64(p.data) + rawTIDOffset,
		uint64(p.data) + rawAliveOffset, uint64(p.tp),
	}}}
	s.bootAt = p.data
	defer func() { s.bootAt = 0 }()
	err := s.visit("clone", pointsClone, clone)
	s.text = nil
	rep.TID, rep.Rung = s.last, "released"
	if err != nil {
		return err
	}
	if !s.held {
		err = s.awaitClone()
		if errors.Is(err, errRefused) {
			s.hold = true // again, with the thread held, to get the kernel's error
			err = s.visit("clone", pointsClone, clone)
			s.hold = false
			if err == nil && !s.held { // the tool lost control of it
				err = s.awaitClone()
			}
		}
		if err != nil {
			return err
		}
	}
	if s.held {
		rep.Rung = "held"
	}
	s.undo.forget()
	return nil
}

// whyUnread returns ErrLeft for err, an error of a read, if the process lives but the
// mappings are gone: the bootstrap thread was created, unmapped them and ended.
func (s *injection) whyUnread(err error) error {
	if found, merr := s.mapped(); merr == nil && len(found) == 0 && s.t.CheckIdentity() == nil {
		return fmt.Errorf("pid %d: %w", s.t.PID, ErrLeft)
	}
	return err
}

// awaitClone waits until the raw thread exists: the kernel stores its ID during the
// clone. If the visited thread is back in its wait and there is no ID, the clone failed.
func (s *injection) awaitClone() error {
	for deadline := time.Now().Add(s.r.BootTimeout); ; time.Sleep(50 * time.Microsecond) {
		back := chainDone(s.t, s.libc, s.last)
		tid, err := s.t.Uint32(s.place.data + target.Addr(rawTIDOffset))
		switch {
		case err != nil:
			return s.whyUnread(err)
		case tid != 0:
			return nil
		case back:
			return fmt.Errorf("pid %d: clone a thread: %w", s.t.PID, errRefused)
		case time.Now().After(deadline):
			// The thread may be stopped and clone later, so the mappings must stay.
			s.undo.forget()
			return errors.Join(&TimeoutError{PID: s.t.PID, Step: "clone a thread", After: s.r.BootTimeout},
				&RemainsError{What: fmt.Sprintf("a pending clone call of the stopped thread %d (the new thread ends by itself)", s.last)})
		}
	}
}
