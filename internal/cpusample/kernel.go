package cpusample

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/pausemeter"
)

//go:generate go tool -modfile=../../tools/go.mod bpf2go -cc clang-15 -strip llvm-strip-15 -target amd64 -no-global-types -type event -type call -type stack -type wait -type wall -type total -type thread -type target -type loss -output-stem cpu kernel bpf/cpu.bpf.c -- -O2 -Wall -Werror -mcpu=v3

var (
	// ErrNamespace means that BPF programs see other pids than this process.
	ErrNamespace = pausemeter.ErrNamespace
	// ErrDenied means that the kernel refuses this process's BPF programs.
	ErrDenied = pausemeter.ErrDenied
	// ErrOld means that the kernel does not have what the programs need.
	ErrOld = errors.New("this kernel is too old, or built without BTF: Linux 5.19 or later is needed")
)

// HasNoBPF reports whether an error of Open says that this tool has no BPF here: it will not have it later, either.
func HasNoBPF(err error) bool {
	return errors.Is(err, ErrNamespace) || errors.Is(err, ErrDenied) || errors.Is(err, ErrOld)
}

// leastPreemptNS is the time in which a thread that is preempted again and again has one stack: a stack takes some 1.5 µs.
const leastPreemptNS = 20_000

// kernel is the programs that this process has in the kernel. The kernel removes them when it ends.
type kernel struct {
	objects *ebpf.Collection
	links   []link.Link
	events  []int // descriptors of clock events
	tick    *link.Iter
	reader  *ringbuf.Reader
}

// openKernel loads the programs and attaches them. It needs CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN, and the kernel's BTF.
func openKernel(o Options) (*kernel, error) {
	if !pausemeter.InFirstNamespace() {
		return nil, ErrNamespace
	}
	k := &kernel{}
	err := k.open(o)
	if err == nil {
		return k, nil
	}
	k.close()
	return nil, explain(err)
}

// explain names the causes that a user can change.
func explain(err error) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES) && !errors.As(err, &verifier):
		return fmt.Errorf("%w (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN, are needed)", ErrDenied)
	case errors.Is(err, btf.ErrNotFound), errors.Is(err, ebpf.ErrNotSupported), errors.As(err, &verifier):
		return fmt.Errorf("%w: %w", ErrOld, err)
	}
	return err
}

func (k *kernel) open(o Options) error {
	spec, err := loadKernel()
	if err != nil {
		return err
	}
	for name, wanted := range map[string]bool{
		kernelProgOnCpuClock: o.CPU.HZ > 0, kernelProgOnWallClock: o.Wall.HZ > 0, kernelProgOnWallTick: o.Wall.HZ > 0,
		kernelProgOnSwitch: o.Scheduling, kernelProgOnWaking: o.Scheduling, kernelProgOnBegin: o.Scheduling,
	} {
		if !wanted {
			delete(spec.Programs, name)
		}
	}
	for name, value := range map[string]uint64{kernelVarLeastWaitNs: uint64(LeastWait), kernelVarLeastPreemptNs: leastPreemptNS} {
		if err := spec.Variables[name].Set(value); err != nil {
			return err
		}
	}
	if k.objects, err = ebpf.NewCollection(spec); err != nil {
		return err
	}
	if k.reader, err = ringbuf.NewReader(k.objects.Maps[kernelMapEvents]); err != nil {
		return err
	}
	return k.attach(o)
}

func (k *kernel) attach(o Options) error {
	for _, name := range []string{kernelProgOnSwitch, kernelProgOnWaking} {
		program := k.objects.Programs[name]
		if program == nil {
			continue
		}
		l, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		k.links = append(k.links, l)
	}
	for name, c := range map[string]Clock{kernelProgOnCpuClock: o.CPU, kernelProgOnWallClock: o.Wall} {
		if c.HZ == 0 {
			continue
		}
		if err := k.clock(k.objects.Programs[name], c.HZ); err != nil {
			return err
		}
	}
	if o.Wall.HZ == 0 {
		return nil
	}
	var err error
	k.tick, err = link.AttachIter(link.IterOptions{Program: k.objects.Programs[kernelProgOnWallTick]})
	return err
}

// clock makes a program run on a clock event of each processor.
func (k *kernel) clock(program *ebpf.Program, hz int) error {
	cpus, err := onlineCPUs()
	if err != nil {
		return err
	}
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(1e9 / hz),
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitDisabled,
	}
	for _, cpu := range cpus {
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENODEV) {
			continue // it has gone offline
		}
		if err != nil {
			return fmt.Errorf("clock event: %w", err)
		}
		k.events = append(k.events, fd)
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, program.FD()); err != nil {
			return fmt.Errorf("clock event: %w", err)
		}
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return fmt.Errorf("clock event: %w", err)
		}
	}
	return nil
}

// mostCPUs limits what is read from the kernel's list: its own limit on amd64.
const mostCPUs = 8192

// onlineCPUs lists the processors that run.
func onlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return parseCPUs(strings.TrimSpace(string(b)))
}

// parseCPUs parses a list such as 0-3,5 (cpuset(7), "List format").
func parseCPUs(text string) (cpus []int, err error) {
	for _, part := range strings.Split(text, ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		first, err1 := strconv.Atoi(low)
		last, err2 := strconv.Atoi(high)
		if err := errors.Join(err1, err2); err != nil || first < 0 || last < first || last >= mostCPUs {
			return nil, fmt.Errorf("list of processors %q", text)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// visit runs a program for all tasks.
func visit(l *link.Iter) error {
	r, err := l.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

// begin notes the threads that do not run.
func (k *kernel) begin() error {
	program := k.objects.Programs[kernelProgOnBegin]
	if program == nil {
		return nil
	}
	l, err := link.AttachIter(link.IterOptions{Program: program})
	if err != nil {
		return err
	}
	return errors.Join(visit(l), l.Close())
}

// stop ends all events.
func (k *kernel) stop() {
	for _, l := range k.links {
		_ = l.Close()
	}
	for _, fd := range k.events {
		_ = unix.Close(fd)
	}
	k.links, k.events = nil, nil
}

// close removes everything from the kernel.
func (k *kernel) close() {
	k.stop()
	if k.tick != nil {
		_ = k.tick.Close()
	}
	if k.reader != nil {
		_ = k.reader.Close()
	}
	if k.objects != nil {
		k.objects.Close()
	}
}
