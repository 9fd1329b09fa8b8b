package inject

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// mapMemory is stop 1: it maps executable memory, and writable memory right above it.
func (s *injection) mapMemory(rep *Report) error {
	old, err := leftovers(s.t, s.libc, s.maps)
	if err != nil {
		return err
	}
	calls := s.mapCalls(old)
	s.undo.push(s.unmap)
	if err := s.visit("map", pointsMap, calls); err != nil {
		return err
	}
	s.mapping = true
	err = s.awaitMaps()
	if errors.Is(err, errRefused) && !s.held {
		// Again, with the thread held, to get the kernel's error.
		if err := s.unmap(); err != nil {
			return err
		}
		s.hold = true
		err = s.visit("map", pointsMap, s.mapCalls(nil))
		s.hold = false
		if err == nil {
			err = s.awaitMaps()
		}
		if err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	s.mapping = false
	rep.Reclaimed = len(old)
	return at(PointMapped)
}

func (s *injection) mapCalls(old []span) []call {
	var calls []call
	for _, o := range old {
		calls = append(calls, munmap(o))
	}
	// NOREPLACE, because the target may map memory in the meantime. A kernel without the
	// flag treats the address as a hint; awaitMaps then sees another address.
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED_NOREPLACE
	noFile := ^uint64(0)
	return append(calls,
		call{nr: unix.SYS_MMAP, args: [6]uint64{
			uint64(s.place.code), codeBytes,
			unix.PROT_READ | unix.PROT_EXEC, flags, noFile, 0,
		}},
		call{nr: unix.SYS_MMAP, args: [6]uint64{
			uint64(s.place.data), s.place.size,
			unix.PROT_READ | unix.PROT_WRITE, flags, noFile, 0,
		}})
}

func munmap(o span) call {
	return call{nr: unix.SYS_MUNMAP, args: [6]uint64{uint64(o.start), uint64(o.end - o.start)}}
}

// mapped returns those of the injection's mappings that exist exactly as requested. The
// tool may not write or unmap anything else at these addresses.
func (s *injection) mapped() ([]span, error) {
	maps, err := s.t.Maps()
	if err != nil {
		return nil, err
	}
	var found []span
	for _, m := range maps {
		code := m.Start == s.place.code && m.End == s.place.data && m.Perms == "r-xp"
		data := m.Start == s.place.data && m.End == s.place.end() && isData(m)
		if m.Anonymous() && (code || data) {
			found = append(found, span{m.Start, m.End})
		}
	}
	return found, nil
}

// errRefused means that the visited thread is back in its wait, and its call has had no
// effect.
var errRefused = errors.New("the kernel refused")

// awaitMaps waits until both mappings exist.
func (s *injection) awaitMaps() error {
	for deadline := time.Now().Add(s.r.MapTimeout); ; time.Sleep(50 * time.Microsecond) {
		back := chainDone(s.t, s.libc, s.last)
		found, err := s.mapped()
		switch {
		case err != nil:
			return err
		case len(found) == 2:
			return nil
		case back:
			return fmt.Errorf("pid %d: map memory at %#x: %w", s.t.PID, s.place.code, errRefused)
		case time.Now().After(deadline):
			return &TimeoutError{PID: s.t.PID, Step: "map memory", After: s.r.MapTimeout}
		}
	}
}

// settled reports whether a thread that was visited has finished its chain: it
// is blocked, and not in a syscall that it issued from the chain's instruction.
func chainDone(t *target.Target, l *libc, tid int) bool {
	stat, err := t.ThreadStat(tid)
	if err != nil || stat.State != 'S' {
		return false
	}
	c, err := t.Syscall(tid)
	return err == nil && !c.Running && c.Number >= 0 && c.PC != l.syscallRet+target.Addr(len("\x0f\x05"))
}

// unmap is the undo of mapMemory: another visit.
func (s *injection) unmap() error {
	found, err := s.mapped()
	if err != nil {
		return ignoreGone(err)
	}
	if len(found) == 0 {
		if s.mapping && s.t.CheckIdentity() == nil && !chainDone(s.t, s.libc, s.last) {
			return &RemainsError{What: fmt.Sprintf("a pending mmap call of the stopped thread %d (the next attach frees its memory)", s.last)}
		}
		return nil
	}
	all := span{found[0].start, found[len(found)-1].end} // one call removes both or neither
	if err := s.visit("unmap", pointsUnmap, []call{munmap(all)}); err != nil {
		if err = ignoreGone(err); err == nil {
			return nil
		}
		return &RemainsError{What: fmt.Sprintf("an unused mapping at %#x", s.place.code), Err: err}
	}
	for deadline := time.Now().Add(s.r.MapTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Microsecond) {
		if found, err := s.mapped(); err != nil || len(found) == 0 {
			return ignoreGone(err)
		}
	}
	return &RemainsError{What: fmt.Sprintf("an unused mapping at %#x", s.place.code)}
}

// ignoreGone returns nil if err says that the process has ended or executed another
// program: nothing of the injection is left then.
func ignoreGone(err error) error {
	if errors.Is(err, target.ErrGone) || errors.Is(err, target.ErrExec) {
		return nil
	}
	return err
}
