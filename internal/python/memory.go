package python

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// sampler reads memory of a process.
type sampler interface {
	Sample(a target.Addr, b []byte) error
}

// errOutside: a pointer leads out of the memory in which CPython has its structures.
var errOutside = errors.New("outside of the interpreter's memory")

// reader reads only memory in which CPython has its structures: the process's own memory, which is mapped from no file,
// and the file of the interpreter. A pointer into a device or into a file on a server's filesystem is not followed.
type reader struct {
	mem   sampler
	maps  func() ([]target.Map, error)
	home  target.Map // of the interpreter's file
	spans []target.Span
	next  time.Time // when the maps may be read again
}

func newReader(mem sampler, maps func() ([]target.Map, error), home target.Map) *reader {
	return &reader{mem: mem, maps: maps, home: home}
}

// refreshShare is how many times as long as a reading of the maps takes none follows.
const refreshShare = 20

// refresh reads the maps again.
func (r *reader) refresh() {
	began := time.Now()
	if began.Before(r.next) {
		return
	}
	maps, err := r.maps()
	if err == nil {
		r.spans = spansOf(maps, r.home)
	}
	now := time.Now()
	r.next = now.Add(max(10*time.Millisecond, refreshShare*now.Sub(began)))
}

// spansOf returns the memory that may be read, sorted, with neighbours joined.
func spansOf(maps []target.Map, home target.Map) (spans []target.Span) {
	for _, m := range maps {
		own := m.Inode == 0 && !strings.HasPrefix(m.Path, "[v") // no vvar, vdso, vsyscall
		file := m.Inode != 0 && m.Inode == home.Inode && m.Dev == home.Dev && m.Path == home.Path
		if m.Perms[0] != 'r' || !own && !file {
			continue
		}
		if last := len(spans) - 1; last >= 0 && spans[last].End == m.Start {
			spans[last].End = m.End
			continue
		}
		spans = append(spans, target.Span{Start: m.Start, End: m.End})
	}
	return spans
}

// span returns the part of the memory that has the n bytes at an address.
func (r *reader) span(at uint64, n int) (target.Span, bool) {
	find := func() (target.Span, bool) {
		a := target.Addr(at)
		i, _ := slices.BinarySearchFunc(r.spans, a, func(s target.Span, a target.Addr) int {
			if s.End <= a {
				return -1
			}
			return 1
		})
		if i == len(r.spans) || a < r.spans[i].Start || uint64(r.spans[i].End-a) < uint64(n) {
			return target.Span{}, false
		}
		return r.spans[i], true
	}
	s, ok := find()
	if !ok {
		r.refresh()
		s, ok = find()
	}
	return s, ok
}

// read fills b from an address.
func (r *reader) read(at uint64, b []byte) error {
	if _, ok := r.span(at, len(b)); !ok {
		return fmt.Errorf("%#x: %w", at, errOutside)
	}
	return r.mem.Sample(target.Addr(at), b)
}

// word reads a 64-bit word.
func (r *reader) word(at uint64) (uint64, error) {
	var b [8]byte
	err := r.read(at, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}
