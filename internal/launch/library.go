package launch

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// leastDescriptor keeps the descriptor that the program inherits away from the numbers that
// programs use, and below the usual limit of 1024.
const leastDescriptor = 900

// share returns a name by which processes of the program load the library. Without a directory for its file, only those
// do that inherit descriptors. The caller calls done once the program has started.
func (c *Child) share(library []byte) (name string, done func(), err error) {
	if c.file, err = makeFile(library); err == nil {
		return c.file.path, func() {}, nil
	}
	fd, err := shareMemory(library)
	return fmt.Sprintf("/proc/self/fd/%d", fd), func() { _ = unix.Close(fd) }, err
}

// shareMemory returns a descriptor of the library that children inherit. It has no name in any
// filesystem, and nobody can change it.
func shareMemory(library []byte) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("rtl-attach", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("rtl-attach", flags)
	}
	if err != nil {
		return -1, err
	}
	f := os.NewFile(uintptr(fd), "memfd")
	defer f.Close()
	if _, err := f.Write(library); err != nil {
		return -1, err
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return -1, err
	}
	high, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, leastDescriptor)
	if errors.Is(err, unix.EINVAL) { // beyond this process's limit
		high, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD, 10)
	}
	return high, err
}
