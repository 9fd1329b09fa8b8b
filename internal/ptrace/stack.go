package ptrace

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const piecesMax = snapshotMax/page + 1 // the copy may begin within a page

// stackReader copies the top of a stopped thread's stack. It leaves out a page that
// would have to come from a file or from a userfaultfd(2) server, because reading it
// could block for ever. It allocates everything before the stop.
type stackReader struct {
	pid     int
	pagemap *os.File // nil if the kernel has none or does not let the tool read it
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

// read copies the stack from base, a little below the stack pointer sp, up to the first
// page that is not available, and returns the number of bytes. Only the page of base
// may be unavailable because it was never touched; its part then stays zero.
func (r *stackReader) read(base, sp uint64, b []byte) int {
	if base+uint64(len(b)) < base {
		return 0 // the target can set its stack pointer to any value
	}
	r.readPagemap(base)
	skip := 0
	if base/page != sp/page && !r.available(0) {
		skip = page - int(base%page)
	}
	from := base + uint64(skip)
	n := 0
	for at, left := from, len(b)-skip; left > 0 && r.available(int(at/page-base/page)); n++ {
		size := min(page-int(at%page), left)
		r.pieces[n] = unix.RemoteIovec{Base: uintptr(at), Len: size}
		at, left = at+uint64(size), left-size
	}
	if n == 0 {
		return 0
	}
	local := unix.Iovec{Base: &b[skip], Len: uint64(len(b) - skip)}
	// One piece per page: the stack may end before b is full.
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

// readPagemap reads the pagemap entries from base on. Pages without an entry count as
// available.
func (r *stackReader) readPagemap(base uint64) {
	for i := range r.entries {
		r.entries[i] = 0xff
	}
	if r.pagemap != nil {
		unix.RawSyscall6(unix.SYS_PREAD64, r.pagemap.Fd(), uintptr(unsafe.Pointer(&r.entries)), unsafe.Sizeof(r.entries),
			uintptr(base/page*8), 0, 0)
	}
}

// available reports whether page i is in memory or in swap, so that the kernel alone
// can provide it.
func (r *stackReader) available(i int) bool {
	return binary.LittleEndian.Uint64(r.entries[8*i:])&(pagePresent|pageSwapped) != 0
}
