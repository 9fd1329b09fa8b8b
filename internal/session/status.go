package session

import (
	"encoding/hex"
	"errors"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// A Status is what can be known of a payload without touching its process. Its
// JSON form is stable.
type Status struct {
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
}

// An Inventory lists what is left in the target now.
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

// Inspect reads the status of pid.
func Inspect(pid int) (*Status, error) {
	return unlessStalled(pid, func() (*Status, error) { return inspect(pid) })
}

func inspect(pid int) (*Status, error) {
	t, err := target.Open(pid)
	if err != nil {
		return nil, explain("look into", pid, err, untouched)
	}
	defer t.Close()
	st := &Status{PID: pid, Command: t.Comm}
	c, err := openResident(t)
	if errors.Is(err, errNotResident) {
		return st, nil
	}
	if err != nil {
		return nil, explain("look into", pid, err, untouched)
	}
	defer c.Close()
	st.fill(c)
	return st, nil
}

func (st *Status) fill(c *ring.Control) {
	s := c.Snapshot()
	st.Resident = true
	st.State = stateText(s.State)
	st.Sessions = s.Generation
	st.BuildID = hex.EncodeToString(s.BuildID)
	st.ABIVersion = ring.ABIVersion
	st.Error = s.ErrorText
	if s.LastEnd != ring.EndNone {
		st.LastEnd = tracedbEnd(s.LastEnd)
	}
	if holder, held := c.Holder(); held && holderAlive(holder) {
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
	for _, counter := range collector.Counters(c.Counters()) {
		st.Counters[counter.Name] = counter.Value
	}
}

func stateText(s ring.State) string {
	switch s {
	case ring.StateIdle:
		return "idle"
	case ring.StateArming:
		return "arming"
	case ring.StateActive:
		return "active"
	case ring.StateDraining:
		return "draining"
	case ring.StateDormant:
		return "dormant"
	}
	return "unknown"
}

func tracedbEnd(e ring.End) string {
	if e == ring.EndDetach {
		return "detached by its recorder"
	}
	return endText(e)
}
