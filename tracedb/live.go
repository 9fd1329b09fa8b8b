package tracedb

/*
#include "vfs.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func init() {
	if rc := C.rtl_writer_install(); rc != 0 {
		panic(fmt.Sprintf("tracedb: register rtl-writer with SQLite: error %d", rc))
	}
}

// recorderLock is a byte of the file, beyond its end, that a recorder keeps locked. The
// kernel releases it at the recorder's death.
func recorderLock() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Start: 1 << 62, Len: 1}
}

// claim makes this recorder the only one of its file. Where locks may be missing it is
// the only one that has made it.
func (db *DB) claim() error {
	if db.place.Filesystem != "" {
		return nil
	}
	err := unix.FcntlFlock(db.file.Fd(), unix.F_OFD_SETLK, recorderLock())
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrBusy
	}
	return err
}

// InProgress reports whether a recorder is writing the trace at path right now. A killed
// recorder writes none. The process that records must not ask: by closing the file
// it would lose its locks (fcntl(2)).
func InProgress(path string) (bool, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	lock := recorderLock()
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, lock); err != nil {
		return false, fmt.Errorf("look for the recorder of %s: %w", path, err)
	}
	return lock.Type != unix.F_UNLCK, nil
}
