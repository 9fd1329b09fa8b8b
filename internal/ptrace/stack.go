package ptrace

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const piecesMax = snapshotMax/page + 1 // it may begin within a page

// A stackReader copies the top of a stopped thread's stack. A page that has to be
// fetched from a file or from a server of page faults (userfaultfd(2)) may never
// come, and is left out. Everything is allocated before the stop.
type stackReader struct {
	pid     int
	pagemap *os.File // nil: this kernel has none, or does not show it
	entries [8 * piecesMax]byte
	pieces  [piecesMax]unix.RemoteIovec
}

func newStackReader(pid, tid int) *stackReader {
	r := &stackReader{pid: pid}
	r.pagemap, _ = os.Open(fmt.Sprintf("/proc/%d/task/%d/pagemap", pid, tid))
	return r
}

func (r *stackReader) close() {
	if r.pagemap != nil {
		_ = r.pagemap.Close()
	}
}

// read copies from base on, a little below the stack pointer sp, and returns the
// number of bytes: up to the first page that is not there. The page of base alone
// may be a new one, never touched; then its part reads as zeros.
func (r *stackReader) read(base, sp uint64, b []byte) int {
	if base+uint64(len(b)) < base {
		return 0 // the stack pointer may be anything
	}
	r.look(base)
	skip := 0
	if base/page != sp/page && !r.there(0) {
		skip = page - int(base%page)
	}
	from := base + uint64(skip)
	n := 0
	for at, left := from, len(b)-skip; left > 0 && r.there(int(at/page-base/page)); n++ {
		size := min(page-int(at%page), left)
		r.pieces[n] = unix.RemoteIovec{Base: uintptr(at), Len: size}
		at, left = at+uint64(size), left-size
	}
	if n == 0 {
		return 0
	}
	local := unix.Iovec{Base: &b[skip], Len: uint64(len(b) - skip)}
	// Page by page: the last one of a stack may come before b is full.
	got, _, errno := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(r.pid), uintptr(unsafe.Pointer(&local)), 1,
		uintptr(unsafe.Pointer(&r.pieces[0])), uintptr(n), 0)
	if errno != 0 {
		return 0
	}
	return skip + int(got)
}

// Bits of an entry in a pagemap file (proc_pid_pagemap(5)).
const (
	pageSwapped = 1 << 62
	pagePresent = 1 << 63
)

// look reads what is said of the pages from base on; all are there where nothing is.
func (r *stackReader) look(base uint64) {
	for i := range r.entries {
		r.entries[i] = 0xff
	}
	if r.pagemap != nil {
		unix.RawSyscall6(unix.SYS_PREAD64, r.pagemap.Fd(), uintptr(unsafe.Pointer(&r.entries)), unsafe.Sizeof(r.entries),
			uintptr(base/page*8), 0, 0)
	}
}

// there: the page comes without anybody's help but the kernel's.
func (r *stackReader) there(i int) bool {
	return binary.LittleEndian.Uint64(r.entries[8*i:])&(pagePresent|pageSwapped) != 0
}
