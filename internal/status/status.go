// Package status reads what this tool has in a process: the payload, its sessions, its hooks,
// its memory, its counters. It touches nothing.
package status

import (
	"encoding/hex"
	"errors"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
)

// Status is the state of a payload, read without touching its process. Its JSON form is stable
// (docs/json.md).
type Status struct {
	Version  string `json:"version,omitempty"` // of this tool; empty for workers
	PID      int    `json:"pid"`
	Command  string `json:"command"`
	Resident bool   `json:"resident"`

	State      string `json:"state,omitempty"` // idle, arming, active, draining, dormant
	Sessions   uint32 `json:"sessions,omitempty"`
	LastEnd    string `json:"last_end,omitempty"`
	BuildID    string `json:"build_id,omitempty"`
	ABIVersion uint32 `json:"abi_version,omitempty"`
	Recorder   uint32 `json:"recorder_pid,omitempty"`

	Inventory *Inventory        `json:"inventory,omitempty"`
	Counters  map[string]uint64 `json:"counters,omitempty"`
	Error     string            `json:"error,omitempty"`

	Workers []*Status `json:"workers,omitempty"` // descendants with a payload, or that cannot be read
	Hidden  string    `json:"hidden,omitempty"`  // why it cannot be read
}

// Inventory lists what this tool has in the target now.
type Inventory struct {
	ControlThread  uint32 `json:"control_thread"`
	Worker         uint32 `json:"worker_thread"`
	RingBytes      uint64 `json:"ring_bytes"`
	ControlBytes   uint64 `json:"control_bytes"`
	HooksPatched   uint32 `json:"hooks_patched"`
	HooksBuried    uint32 `json:"hooks_buried"`
	HooksMissing   uint32 `json:"hooks_missing"`
	QueueStates    uint32 `json:"queue_states"`
	QueuesProfiled uint32 `json:"queues_profiled"`
	Signals        uint32 `json:"signals"`
	CopiesProfiled bool   `json:"copies_profiled"`
}

// Inspect reads the status of pid and of its descendants. version is this tool's.
func Inspect(pid int, version string) (*Status, error) {
	return watchdog.Do(pid, func() (*Status, error) {
		t, err := target.OpenReadOnly(pid) // another rtl-attach may be stopping a thread of it
		if err != nil {
			return nil, failure.Explain("look into", pid, err, failure.Untouched)
		}
		defer t.Close()
		st, err := inspect(t)
		if err != nil {
			return nil, failure.Explain("look into", pid, err, failure.Untouched)
		}
		st.Version = version
		descendants, err := target.Descendants(pid)
		if err != nil {
			return nil, failure.Explain("look below", pid, err, failure.Untouched)
		}
		st.addWorkers(descendants)
		return st, nil
	})
}

func inspect(t *target.Target) (*Status, error) {
	st := &Status{PID: t.PID, Command: t.Comm}
	c, err := resident.Open(t)
	if errors.Is(err, resident.ErrNone) {
		return st, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	st.fill(c)
	return st, nil
}

func (st *Status) addWorkers(descendants []target.ProcInfo) {
	for _, k := range descendants {
		w, err := inspectWorker(k)
		switch {
		case err != nil && resident.UnlessAbsent(err) == nil:
		case err != nil:
			st.Workers = append(st.Workers, &Status{PID: k.PID, Command: k.Comm, Hidden: failure.BareText(err)})
		case w.Resident:
			st.Workers = append(st.Workers, w)
		}
	}
}

// inspectWorker inspects a process that may be stopped or traced.
func inspectWorker(k target.ProcInfo) (*Status, error) {
	t, err := target.OpenLight(k.PID)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return inspect(t)
}

func (st *Status) fill(c *ring.Control) {
	s := c.Snapshot()
	st.Resident = true
	st.State = resident.StateText(s.State)
	st.Sessions = s.Generation
	st.BuildID = hex.EncodeToString(s.BuildID)
	st.ABIVersion = ring.ABIVersion
	st.Error = s.ErrorText
	if s.LastEnd != ring.EndNone {
		st.LastEnd = endText(s.LastEnd)
	}
	if holder, held := c.Holder(); held && resident.LooksAlive(holder) {
		st.Recorder = holder.PID
	}
	st.Inventory = &Inventory{
		ControlThread:  s.ControlTID,
		Worker:         s.WorkerTID,
		RingBytes:      s.RingSizeBytes,
		ControlBytes:   ring.ControlBytes,
		HooksPatched:   s.HooksPatched,
		HooksBuried:    s.HooksBuried,
		HooksMissing:   s.HooksMissing,
		QueueStates:    s.QueuesKept,
		QueuesProfiled: s.QueuesProfiled,
		Signals:        s.SignalsKept,
		CopiesProfiled: s.CopiesProfiled,
	}
	st.Counters = map[string]uint64{}
	for _, counter := range collector.Counters(c.Counters(), all.Kinds) {
		st.Counters[counter.Name] = counter.Value
	}
}

func endText(e ring.End) string {
	if e == ring.EndDetach {
		return "detached by its recorder"
	}
	return resident.EndText(e)
}
