package target

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/privilege"
)

// procFileMax limits the bytes read from any file of /proc except maps. The longest is a
// status file with 65,536 groups, which come before most fields that the tool needs.
const procFileMax = 2 << 20

func readProc(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, procFileMax))
}

// readAgain reads an open short file of /proc from its beginning.
func readAgain(f *os.File) ([]byte, error) {
	b := make([]byte, 4096)
	n, err := f.ReadAt(b, 0)
	if n > 0 {
		err = nil // io.EOF: the file is shorter than b
	}
	return b[:n], err
}

// Stat holds the fields of /proc/PID/stat that the tool needs (proc_pid_stat(5)).
type Stat struct {
	Comm       string
	State      byte
	PPID       int
	Flags      uint64 // task flags of the kernel
	StartTicks uint64 // field 22, since boot
	CodeStart  uint64 // field 26; 0: no program yet (in an exec), or no longer
	StackStart uint64 // field 28; 0: unknown
	CPU        int    // field 39, where it ran last; -1: unknown
}

// <linux/sched.h>
const (
	flagExiting      = 0x00000004 // PF_EXITING
	flagKernelThread = 0x00200000 // PF_KTHREAD
)

// killed is SIGKILL among pending signals.
const killed = 1 << (unix.SIGKILL - 1)

func parseStat(b []byte) (Stat, error) {
	open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || shut < open {
		return Stat{}, fmt.Errorf("stat: %w", ErrMalformed)
	}
	f := strings.Fields(string(b[shut+1:]))
	if len(f) < 20 || len(f[0]) != 1 || f[0][0] < 'A' { // f[0] is field 3, a letter
		return Stat{}, fmt.Errorf("stat: %w", ErrMalformed)
	}
	s := Stat{Comm: string(b[open+1 : shut]), State: f[0][0], CPU: -1}
	var err error
	if s.PPID, err = strconv.Atoi(f[1]); err != nil {
		return Stat{}, fmt.Errorf("stat: ppid: %w", ErrMalformed)
	}
	s.Flags, _ = strconv.ParseUint(f[6], 10, 64)
	if s.StartTicks, err = strconv.ParseUint(f[19], 10, 64); err != nil {
		return Stat{}, fmt.Errorf("stat: start time: %w", ErrMalformed)
	}
	if len(f) > 25 {
		s.CodeStart, _ = strconv.ParseUint(f[23], 10, 64)
		s.StackStart, _ = strconv.ParseUint(f[25], 10, 64)
	}
	if len(f) > 36 {
		if cpu, err := strconv.Atoi(f[36]); err == nil {
			s.CPU = cpu
		}
	}
	return s, nil
}

// Status holds the fields of /proc/PID/status that the tool needs.
type Status struct {
	TGID           int
	TracerPID      int      // ID of the tracing thread; 0: none
	Seccomp        int      // 0 off, 1 strict, 2 filter
	SeccompFilters int      // number of filters; -1: unknown
	UID            int      // effective
	RealUID        int      // -1: unknown
	Threads        int      // of the process
	Capabilities   uint64   // effective
	Rights         string   // users, groups and capabilities, for comparison only
	NSPID          []int    // its IDs, from the tool's pid namespace down to its own
	Pending        uint64   // SigPnd: signals pending for the thread only
	ThreadFeatures []string // x86_Thread_features: shstk, wrss
}

func parseStatus(b []byte) Status {
	s := Status{UID: -1, RealUID: -1, SeccompFilters: -1}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(line, ":")
		f := strings.Fields(value)
		if !ok || len(f) == 0 {
			continue
		}
		switch key {
		case "Uid", "Gid", "Groups", "CapPrm", "CapEff":
			s.Rights += strings.Join(f, " ") + "\n"
		}
		switch key {
		case "Tgid":
			s.TGID, _ = strconv.Atoi(f[0])
		case "TracerPid":
			s.TracerPID, _ = strconv.Atoi(f[0])
		case "Seccomp":
			s.Seccomp, _ = strconv.Atoi(f[0])
		case "Seccomp_filters":
			s.SeccompFilters, _ = strconv.Atoi(f[0])
		case "Uid":
			if len(f) > 1 {
				s.RealUID, _ = strconv.Atoi(f[0])
				s.UID, _ = strconv.Atoi(f[1])
			}
		case "Threads":
			s.Threads, _ = strconv.Atoi(f[0])
		case "CapEff":
			s.Capabilities, _ = strconv.ParseUint(f[0], 16, 64)
		case "SigPnd":
			s.Pending, _ = strconv.ParseUint(f[0], 16, 64)
		case "NSpid":
			for _, v := range f {
				if n, err := strconv.Atoi(v); err == nil {
					s.NSPID = append(s.NSPID, n)
				}
			}
		case "x86_Thread_features":
			s.ThreadFeatures = f
		}
	}
	return s
}

// parseUser reads a thread's filesystem identity from its status file.
func parseUser(b []byte) (privilege.User, error) {
	ids := map[string][]int{"Uid": nil, "Gid": nil, "Groups": nil}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		if _, wanted := ids[key]; !wanted {
			continue
		}
		for _, f := range strings.Fields(value) {
			id, err := strconv.ParseUint(f, 10, 32)
			if err != nil {
				return privilege.User{}, fmt.Errorf("status: %s: %w", key, ErrMalformed)
			}
			ids[key] = append(ids[key], int(id))
		}
	}
	const ofFiles = 3 // after the real, effective and saved ID
	if len(ids["Uid"]) <= ofFiles || len(ids["Gid"]) <= ofFiles {
		return privilege.User{}, fmt.Errorf("status: users: %w", ErrMalformed)
	}
	return privilege.User{UID: ids["Uid"][ofFiles], GID: ids["Gid"][ofFiles], Groups: ids["Groups"]}, nil
}
