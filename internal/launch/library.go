package launch

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// leastDescriptor keeps the descriptor that the program inherits away from the numbers that
// programs use, and below the usual limit of 1024.
const leastDescriptor = 900

// share returns a descriptor of the library that children inherit. It has no name in any
// filesystem, and nobody can change it.
func share(library []byte) (int, error) {
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
