package inject

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// mapMemory is stop 1: an executable mapping and a writable one above it.
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
		// Once more, watching, to learn the kernel's reason.
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
	// NOREPLACE: the target maps memory while we work. Where the kernel does
	// not know the flag, the address is a hint, and awaitMaps sees the rest.
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

// ours returns the parts of our mappings that exist, exactly as asked for:
// nothing else at these addresses may be written or unmapped.
func (s *injection) ours() ([]span, error) {
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

// errRefused: the thread visited is back in its wait, and a call that it made
// has had no effect.
var errRefused = errors.New("the kernel refused")

// awaitMaps waits until both mappings are there.
func (s *injection) awaitMaps() error {
	for deadline := time.Now().Add(s.r.MapTimeout); ; time.Sleep(50 * time.Microsecond) {
		back := settled(s.t, s.libc, s.last)
		found, err := s.ours()
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
// is blocked, and not in a syscall that was issued from our instruction.
func settled(t *target.Target, l *libc, tid int) bool {
	stat, err := t.ThreadStat(tid)
	if err != nil || stat.State != 'S' {
		return false
	}
	c, err := t.Syscall(tid)
	return err == nil && !c.Running && c.Number >= 0 && c.PC != l.syscallRet+target.Addr(len("\x0f\x05"))
}

// unmap is the undo of mapMemory: another visit.
func (s *injection) unmap() error {
	found, err := s.ours()
	if err != nil {
		return goneIsFine(err)
	}
	if len(found) == 0 {
		if s.mapping && s.t.CheckIdentity() == nil && !settled(s.t, s.libc, s.last) {
			return &RemainsError{What: fmt.Sprintf("thread %d, stopped before it could map memory: it will, once it goes on;"+
				" the next attach frees that", s.last)}
		}
		return nil
	}
	all := span{found[0].start, found[len(found)-1].end} // one call: gone are both, or none
	if err := s.visit("unmap", pointsUnmap, []call{munmap(all)}); err != nil {
		if err = goneIsFine(err); err == nil {
			return nil
		}
		return &RemainsError{What: fmt.Sprintf("an unused mapping at %#x", s.place.code), Err: err}
	}
	for deadline := time.Now().Add(s.r.MapTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Microsecond) {
		if found, err := s.ours(); err != nil || len(found) == 0 {
			return goneIsFine(err)
		}
	}
	return &RemainsError{What: fmt.Sprintf("an unused mapping at %#x", s.place.code)}
}

// goneIsFine: nothing has to be taken back from a process that has ended, or
// has replaced its memory.
func goneIsFine(err error) error {
	if errors.Is(err, target.ErrGone) || errors.Is(err, target.ErrExec) {
		return nil
	}
	return err
}
