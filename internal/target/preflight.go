package target

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Facts is what the tool can find out about a target without changing anything in it.
type Facts struct {
	PID            int
	Comm           string
	NSPID          []int
	UID            int
	Threads        int
	LeaderExited   bool // the main thread has ended while others run
	PIDNamespace   uint64
	MountNamespace uint64
	SameMounts     bool // it is in the tool's mount namespace
	SameUsers      bool // it is in the tool's user namespace
	Machine        string
	Libc           string // "glibc", "musl", "" for a static program
	HSA            []string
	Seccomp        int // 0 off, 1 strict, 2 filter
	SeccompFilters int // number of filters; -1: unknown
	ShadowStack    bool
	PtraceScope    int // -1: this kernel has no Yama
	MemfdNoexec    int // vm.memfd_noexec; -1: this kernel has none

	// Problems prevent an attach, the most serious first. Each wraps one of this
	// package's errors.
	Problems []error
}

// Preflight collects the Facts. It only reads.
func (t *Target) Preflight() (*Facts, error) {
	f := &Facts{
		PID: t.PID, Comm: t.Comm, NSPID: t.NSPID, UID: t.UID, LeaderExited: t.LiveThread() != t.PID,
		PtraceScope: PtraceScope(), MemfdNoexec: sysctl("vm/memfd_noexec"),
	}
	var err error
	if f.PIDNamespace, err = t.namespace("pid"); err != nil {
		return nil, err
	}
	if f.MountNamespace, err = t.namespace("mnt"); err != nil {
		return nil, err
	}
	f.SameMounts, f.SameUsers = t.sameNamespace("mnt"), t.sameNamespace("user")
	tids, err := t.Threads()
	if err != nil {
		return nil, err
	}
	f.Threads = len(tids)
	status, err := t.ThreadStatus(t.LiveThread())
	if err != nil {
		return nil, err
	}
	f.Seccomp, f.SeccompFilters = status.Seccomp, status.SeccompFilters
	f.ShadowStack = slices.Contains(status.ThreadFeatures, "shstk")
	maps, err := t.Maps()
	if err != nil {
		return nil, err
	}
	f.HSA = Runtimes(maps)
	t.judge(f, maps)
	if len(f.Problems) > 0 { // an exiting process loses its mappings and files, which looks like a problem
		return f, t.WaitGone(exitPatience)
	}
	return f, t.CheckIdentity()
}

// exitPatience is how long Preflight waits for an exiting process to be gone.
const exitPatience = 2 * time.Second

// judge fills in the kind of program, and the problems.
func (t *Target) judge(f *Facts, maps []Map) {
	note := func(err error) { f.Problems = append(f.Problems, err) }
	machine, err := t.machine(maps)
	f.Machine = machine
	if err != nil {
		note(err)
	}
	switch _, err := t.loader(maps); {
	case err == nil:
		f.Libc = "glibc"
	case errors.Is(err, ErrMusl):
		f.Libc = "musl"
		note(err)
	default:
		note(err)
	}
	if len(f.HSA) == 0 {
		note(fmt.Errorf("pid %d (%s): %w", t.PID, t.Comm, ErrNoHSA))
	}
	if f.Seccomp == 1 {
		note(fmt.Errorf("pid %d is in strict mode: %w", t.PID, ErrSeccomp))
	}
	if err := t.checkProcMount(); err != nil {
		note(err)
	}
	if f.ShadowStack {
		note(fmt.Errorf("pid %d: %w", t.PID, ErrShadowStack))
	}
}

// checkProcMount fails if the target sees no /proc in its root: the payload uses it to
// look at the threads of its process.
func (t *Target) checkProcMount() error {
	d, err := t.OpenInRoot("proc")
	if err != nil {
		return fmt.Errorf("pid %d: %w: %w", t.PID, ErrNoProc, err)
	}
	defer d.Close()
	if d.Filesystem != "proc" {
		return fmt.Errorf("pid %d: %w", t.PID, ErrNoProc)
	}
	return nil
}

// machine reads the class and machine of the program: an i386 or x32 program on a
// 64-bit kernel has other registers and another syscall table. It reads the program
// from memory: the target may control the filesystem of the file, so that an open never
// returns.
func (t *Target) machine(maps []Map) (string, error) {
	auxv, err := readProc(t.taskPath("auxv"))
	if err != nil {
		return "", t.explain("read the auxiliary vector", err)
	}
	home, _ := FindMap(maps, programHeaders(auxv))
	head := make([]byte, 20)
	starts := append(fileHeads(maps)[file{home.Dev, home.Path, home.Inode}], home.Start)
	if t.Read(starts[0], head) != nil || string(head[:4]) != elf.ELFMAG {
		return "", fmt.Errorf("program of pid %d is no ELF file: %w", t.PID, ErrArch)
	}
	class := elf.Class(head[elf.EI_CLASS])
	machine := elf.Machine(uint16(head[18]) | uint16(head[19])<<8)
	name := machineName(class, machine)
	if class != elf.ELFCLASS64 || machine != elf.EM_X86_64 {
		return name, fmt.Errorf("pid %d is a program for %s: %w", t.PID, name, ErrArch)
	}
	return name, nil
}

// programHeaders returns the address of the program's headers: AT_PHDR of the auxiliary
// vector (getauxval(3)), which has 32-bit words for a 32-bit program. 0 if there is none.
func programHeaders(auxv []byte) Addr {
	const atPHDR = 3
	le := binary.LittleEndian
	for b := auxv; len(b) >= 16; b = b[16:] {
		if le.Uint64(b) == atPHDR {
			return Addr(le.Uint64(b[8:]))
		}
	}
	for b := auxv; len(b) >= 8; b = b[8:] {
		if le.Uint32(b) == atPHDR {
			return Addr(le.Uint32(b[4:]))
		}
	}
	return 0
}

func machineName(class elf.Class, machine elf.Machine) string {
	switch {
	case machine == elf.EM_X86_64 && class == elf.ELFCLASS64:
		return "x86-64"
	case machine == elf.EM_X86_64:
		return "x32"
	case machine == elf.EM_386:
		return "i386"
	}
	return strings.TrimPrefix(machine.String(), "EM_")
}

// librariesNamed lists the mapped files whose base name begins with prefix.
func librariesNamed(maps []Map, prefix string) []string {
	var found []string
	for _, m := range maps {
		if strings.HasPrefix(path.Base(m.Path), prefix) && !slices.Contains(found, m.Path) {
			found = append(found, m.Path)
		}
	}
	return found
}

// namespace returns the inode that identifies one of the target's namespaces.
func (t *Target) namespace(kind string) (uint64, error) {
	inode, err := namespaceInode(t.taskPath("ns/" + kind))
	if err != nil {
		return 0, t.explain("look at the "+kind+" namespace", err)
	}
	return inode, nil
}

// namespaceInode returns the inode of the namespace at path, a link in /proc/PID/ns.
func namespaceInode(path string) (uint64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("%s: %w", path, ErrMalformed)
	}
	return st.Ino, nil
}

func (t *Target) sameNamespace(kind string) bool {
	theirs, err1 := os.Stat(t.taskPath("ns/" + kind))
	ours, err2 := os.Stat("/proc/self/ns/" + kind)
	return err1 == nil && err2 == nil && os.SameFile(theirs, ours)
}

func sysctl(name string) int {
	b, err := readProc("/proc/sys/" + name)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}
