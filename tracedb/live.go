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

// recorderLock is a byte beyond the end of the file that a recorder keeps locked. The
// kernel releases the lock when the recorder dies.
func recorderLock() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Start: 1 << 62, Len: 1}
}

// claim takes the recorder lock, which excludes other recorders of this file. On
// filesystems without reliable locks there is no other recorder, because this one has
// created the file.
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

// InProgress reports whether a live recorder is writing the trace at path. The recording
// process itself must not call it: closing the file would release its locks (fcntl(2)).
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
