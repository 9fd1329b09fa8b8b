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

// Facts is what can be known about a target before anything is touched.
type Facts struct {
	PID            int
	Comm           string
	NSPID          []int
	UID            int
	Threads        int
	LeaderExited   bool // the main thread has ended, others run
	PIDNamespace   uint64
	MountNamespace uint64
	SameMounts     bool // it shares our mount namespace
	SameUsers      bool // and our user namespace
	Machine        string
	Libc           string // "glibc", "musl", "" for a static program
	HSA            []string
	Seccomp        int // 0 off, 1 strict, 2 filter
	SeccompFilters int // -1: the kernel does not say
	ShadowStack    bool
	PtraceScope    int // -1: this kernel has no Yama
	MemfdNoexec    int // vm.memfd_noexec; -1: not there

	// Problems stand in the way of an attach, the gravest first. Each wraps
	// one of this package's errors.
	Problems []error
}

// Preflight looks at everything and touches nothing.
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
	if len(f.Problems) > 0 { // a process on its way out shows less and less of itself
		return f, t.WaitGone(departPatience)
	}
	return f, t.CheckIdentity()
}

// departPatience is how long a process may take to end while it is looked at.
const departPatience = 2 * time.Second

// judge fills in what kind of program it is, and the problems.
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
	if err := t.ownProc(); err != nil {
		note(err)
	}
	if f.ShadowStack {
		note(fmt.Errorf("pid %d: %w", t.PID, ErrShadowStack))
	}
}

// ownProc: the payload looks at its process's threads through the /proc that
// the process itself sees.
func (t *Target) ownProc() error {
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

// machine reads the class and machine of the program: an i386 or x32 program
// on a 64-bit kernel has other registers and another syscall table. It looks at
// the program in memory: the file may lie on a filesystem of the target's own
// making, where an open never ends.
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

// programHeaders finds where the program's own headers lie: AT_PHDR of the
// auxiliary vector (getauxval(3)), whose words are half as long for 32-bit
// programs. 0: it does not say.
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

// librariesNamed lists the files mapped whose name begins with prefix.
func librariesNamed(maps []Map, prefix string) []string {
	var found []string
	for _, m := range maps {
		if strings.HasPrefix(path.Base(m.Path), prefix) && !slices.Contains(found, m.Path) {
			found = append(found, m.Path)
		}
	}
	return found
}

// namespace is the inode that identifies one of the target's namespaces.
func (t *Target) namespace(kind string) (uint64, error) {
	inode, err := namespaceInode(t.taskPath("ns/" + kind))
	if err != nil {
		return 0, t.explain("look at the "+kind+" namespace", err)
	}
	return inode, nil
}

// namespaceInode looks at a namespace as /proc names it.
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
