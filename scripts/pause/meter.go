package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
)

// taskTraced is __TASK_TRACED of the kernel (include/linux/sched.h).
const taskTraced = 0x8

// A Stop is one stop of one thread under ptrace, as the scheduler saw it: from
// being switched out traced until being woken.
type Stop struct {
	TID      uint32
	Duration time.Duration
}

// A Meter watches the stops of one process. It trusts nobody but the kernel:
// two raw tracepoints, and no clock of the tool's.
type Meter struct {
	config, stopped, events *ebpf.Map
	programs                []*ebpf.Program
	links                   []link.Link
	reader                  *ringbuf.Reader
}

// offsets of the two fields that are read from struct task_struct.
type offsets struct{ pid, tgid int32 }

func taskOffsets() (o offsets, err error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return o, err
	}
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		return o, err
	}
	for _, m := range task.Members {
		switch m.Name {
		case "pid":
			o.pid = int32(m.Offset.Bytes())
		case "tgid":
			o.tgid = int32(m.Offset.Bytes())
		}
	}
	if o.pid == 0 || o.tgid == 0 {
		return o, errors.New("task_struct without pid and tgid")
	}
	return o, nil
}

// NewMeter needs CAP_BPF and CAP_PERFMON.
func NewMeter() (*Meter, error) {
	m := &Meter{}
	if err := m.open(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *Meter) open() error {
	if err := rlimit.RemoveMemlock(); err != nil {
		return err
	}
	o, err := taskOffsets()
	if err != nil {
		return fmt.Errorf("kernel types: %w", err)
	}
	for _, one := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&m.config, ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}},
		{&m.stopped, ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 4096}},
		{&m.events, ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 16}},
	} {
		if *one.to, err = ebpf.NewMap(&one.spec); err != nil {
			return err
		}
	}
	if err := m.attach("sched_switch", m.onSwitch(o)); err != nil {
		return err
	}
	if err := m.attach("sched_waking", m.onWaking(o)); err != nil {
		return err
	}
	m.reader, err = ringbuf.NewReader(m.events)
	return err
}

func (m *Meter) attach(event string, code asm.Instructions) error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: code, License: "Dual MIT/GPL"}) // probe_read_kernel is for GPL-compatible programs
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

// Watch sets the process; 0: none.
func (m *Meter) Watch(pid uint32) error { return m.config.Put(uint32(0), pid) }

// Take returns the stops since the last call.
func (m *Meter) Take() ([]Stop, error) {
	var stops []Stop
	for {
		m.reader.SetDeadline(time.Now()) // what is there, no waiting
		record, err := m.reader.Read()
		if err != nil {
			if errors.Is(err, ringbuf.ErrFlushed) || isDeadline(err) {
				err = nil
			}
			return stops, err
		}
		b := record.RawSample
		began, ended := binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
		stops = append(stops, Stop{TID: binary.LittleEndian.Uint32(b), Duration: time.Duration(ended - began)})
	}
}

// Close detaches everything.
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
	for _, one := range []*ebpf.Map{m.config, m.stopped, m.events} {
		if one != nil {
			_ = one.Close()
		}
	}
}
