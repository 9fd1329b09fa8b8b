package launch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Remover is the argument with which this program removes a file when the writing end of a pipe, descriptor 3,
// is closed: the file of that name in the directory of descriptor 4, and the directory. It runs
// before the Go runtime starts (cmd/rtl-attach/remover.c), and needs next to no memory.
const Remover = "remove-when-closed"

const removeTimeout = 10 * time.Second

// remover is that process.
type remover struct {
	cmd  *exec.Cmd
	open *os.File
}

// startRemover starts it in a session of its own, where no signal of the program's terminal reaches it.
func startRemover(dir *os.File, path string) (*remover, error) {
	end, open, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer end.Close()
	r := &remover{open: open}
	r.cmd = exec.Command("/proc/self/exe", Remover, filepath.Base(path), filepath.Dir(path))
	r.cmd.Args[0] = "rtl-attach"
	r.cmd.Env = []string{}
	r.cmd.Dir = "/"
	r.cmd.ExtraFiles = []*os.File{end, dir}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(err, open.Close())
	}
	return r, nil
}

// finish has the file removed, and returns when it is.
func (r *remover) finish() error {
	err := r.open.Close()
	timer := time.AfterFunc(removeTimeout, func() { _ = r.cmd.Process.Kill() }) // the filesystem hangs
	defer timer.Stop()
	return errors.Join(err, r.cmd.Wait())
}
