// Package pausemeter measures the stops of processes under ptrace by the kernel's scheduling
// events and clock. It uses two BPF programs on raw tracepoints; the kernel removes them when
// the process that has opened them ends.
package pausemeter

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// Limits of a meter's memory in the kernel: half a megabyte.
const (
	mostWatched = 4096    // processes at a time
	mostStopped = 1024    // threads at a time
	eventsBytes = 1 << 18 // stops that Take has not returned yet
)

var (
	// ErrNamespace means that BPF programs see other pids than this process.
	ErrNamespace = errors.New("this is not the machine's first pid namespace")
	// ErrDenied means that the kernel refuses this process's BPF programs.
	ErrDenied = errors.New("BPF is not permitted")
	// ErrMissed means that some stops are missing.
	ErrMissed = errors.New("there were more stops than it could hold")
)

// Meter measures the stops of the processes that it watches. One goroutine at a time may use
// it.
type Meter struct {
	watched *ebpf.Map // process -> anything
	stopped *ebpf.Map // struct task_struct * -> begin, thread, processor
	events  *ebpf.Map
	missed  *ebpf.Map // how many events did not fit

	programs []*ebpf.Program
	links    []link.Link
	reader   *ringbuf.Reader
}

// Open loads and attaches the programs. It needs CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN, and
// the kernel's BTF.
func Open() (*Meter, error) {
	if !InFirstNamespace() {
		return nil, ErrNamespace
	}
	m := &Meter{}
	err := m.open()
	if err == nil {
		return m, nil
	}
	m.Close()
	if errors.Is(err, unix.EPERM) { // the library's message about it is misleading
		err = ErrDenied
	}
	return nil, err
}

// InFirstNamespace reports whether this process is in the machine's first pid namespace.
func InFirstNamespace() bool {
	const first = "pid:[4026531836]" // PROC_PID_INIT_INO
	ns, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && ns == first
}

func (m *Meter) open() error {
	fields, err := readFields()
	if err != nil {
		return fmt.Errorf("kernel types: %w", err)
	}
	defer lockMore()()
	if err := m.makeMaps(); err != nil {
		return err
	}
	if err := m.attach("sched_switch", m.onSwitch(fields)); err != nil {
		return err
	}
	if err := m.attach("sched_waking", m.onWaking(fields)); err != nil {
		return err
	}
	m.reader, err = ringbuf.NewReader(m.events)
	return err
}

func (m *Meter) makeMaps() (err error) {
	for _, one := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&m.watched, ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: mostWatched}},
		{&m.stopped, ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: stopBytes, MaxEntries: mostStopped}},
		{&m.events, ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: eventsBytes}},
		{&m.missed, ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}},
	} {
		if *one.to, err = ebpf.NewMap(&one.spec); err != nil {
			return fmt.Errorf("%v map: %w", one.spec.Type, err)
		}
	}
	return nil
}

func (m *Meter) attach(event string, code asm.Instructions) error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: code, License: "Dual MIT/GPL"}) // probe_read_kernel needs a GPL-compatible licence
	if err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	m.programs = append(m.programs, p)
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: event, Program: p})
	if err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	m.links = append(m.links, l)
	return nil
}

// lockMore raises the limit of locked memory: before Linux 5.11 maps count as such.
func lockMore() (undo func()) {
	var before unix.Rlimit
	most := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before) != nil || unix.Setrlimit(unix.RLIMIT_MEMLOCK, &most) != nil {
		return func() {} // not needed on later kernels
	}
	return func() { _ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before) }
}

// Watch starts to watch a process.
func (m *Meter) Watch(pid int) error { return m.watched.Put(uint32(pid), uint32(0)) }

// Unwatch stops watching a process.
func (m *Meter) Unwatch(pid int) error { return m.watched.Delete(uint32(pid)) }

// Take returns the stops since the last call, in the order of their ends. The error may be
// ErrMissed.
func (m *Meter) Take() ([]Stop, error) {
	var stops []Stop
	for {
		m.reader.SetDeadline(time.Now()) // read without waiting
		record, err := m.reader.Read()
		switch {
		case errors.Is(err, ringbuf.ErrFlushed), errors.Is(err, os.ErrDeadlineExceeded):
			return stops, m.missedAny()
		case err != nil:
			return stops, err
		}
		stop, err := decode(record.RawSample)
		if err != nil {
			return stops, err
		}
		stops = append(stops, stop)
	}
}

func (m *Meter) missedAny() error {
	var n uint64
	if err := m.missed.Lookup(uint32(0), &n); err != nil {
		return err
	}
	if n > 0 {
		return ErrMissed
	}
	return nil
}

// Close detaches and removes the programs.
func (m *Meter) Close() {
	for _, l := range m.links {
		_ = l.Close()
	}
	for _, p := range m.programs {
		_ = p.Close()
	}
	if m.reader != nil {
		_ = m.reader.Close()
	}
	for _, one := range []*ebpf.Map{m.watched, m.stopped, m.events, m.missed} {
		_ = one.Close() // nil is allowed
	}
}
