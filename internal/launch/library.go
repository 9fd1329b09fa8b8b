package launch

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// leastDescriptor keeps the descriptor that the program inherits away from the numbers that
// programs use, and below the usual limit of 1024.
const leastDescriptor = 900

// share returns a descriptor of the library that children inherit: by it, processes with another root
// directory load it, too. Without a directory for its file, only they do.
func (c *Child) share(library []byte) (fd int, err error) {
	if c.file, err = makeFile(library); err != nil {
		return shareMemory(library)
	}
	fd, err = unix.Open(c.file.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return inheritable(fd)
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
	return inheritable(int(f.Fd()))
}

// inheritable returns a copy of a descriptor that children inherit.
func inheritable(fd int) (int, error) {
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, leastDescriptor)
	if errors.Is(err, unix.EINVAL) { // beyond this process's limit
		high, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 10)
	}
	return high, err
}
