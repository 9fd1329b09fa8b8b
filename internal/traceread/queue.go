package traceread

import (
	"context"
	"fmt"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Agent is a GPU as one session sees it.
type Agent struct {
	ID           int64
	Session      *Session
	GPU          int64  // the number of the device in the file
	DriverNode   *int64 // the runtime's number among the nodes that the process may use; nil: not known
	BDF          *int64 // PCI domain << 32 | bus << 8 | device << 3 | function; nil: not known
	Name         string // such as gfx90a
	Product      string
	ComputeUnits int64
}

// Queue is an HSA queue of one session.
type Queue struct {
	ID      int64
	HSAID   int64 // the runtime's number; -1: not known
	Agent   *Agent
	Windows []Window // in the order of their openings
	Account *Account // nil: no final account

	Filtered int64 // kernels that a filter left out
}

// Window is a time in which a queue was recorded.
type Window struct {
	OpenedNS     int64
	ClosedNS     int64 // 0: no end
	FirstIndex   int64 // the first packet's
	QueuedBefore int64 // packets in front of the window that the GPU had not taken yet
}

func (tr *Trace) readAgents(ctx context.Context) error {
	gpus := map[int64]bool{}
	return tr.Define(ctx, func(r Row) error {
		var a Agent
		var of int64
		if err := r.Scan(&a.ID, &of, &a.GPU, &a.DriverNode, &a.BDF, &a.Name, &a.Product, &a.ComputeUnits); err != nil {
			return err
		}
		if gpus[a.GPU] = true; len(gpus) > MostGPUs {
			return fmt.Errorf("over %d GPUs: %w", MostGPUs, ErrImpossible)
		}
		a.Name, a.Product = Cut(a.Name, LongestWord), Cut(a.Product, LongestWord)
		if a.Session = tr.sessions[of]; a.Session != nil {
			tr.Agents[a.ID] = &a
		}
		return nil
	}, `SELECT a.id, a.session_id, a.gpu_id, a.driver_node, a.bdf, coalesce(n.string, ''), coalesce(p.string, ''),
		coalesce(a.compute_units, 0) FROM rtl_agent a LEFT JOIN rocpd_string n ON n.id = a.name_id
		LEFT JOIN rocpd_string p ON p.id = a.product_id ORDER BY a.id`)
}

func (tr *Trace) readQueues(ctx context.Context) error {
	return tr.Define(ctx, func(r Row) error {
		var q Queue
		var of int64
		err := r.Scan(&q.ID, &of, &q.HSAID)
		if q.Agent = tr.Agents[of]; q.Agent != nil {
			tr.Queues[q.ID] = &q
		}
		return err
	}, "SELECT id, agent_id, coalesce(hsa_id, -1) FROM rtl_queue ORDER BY id")
}

func (tr *Trace) readWindows(ctx context.Context) error {
	column := "queued_before"
	if has, err := tracedb.HasQueuedBefore(tr.DB); err != nil {
		return err
	} else if !has {
		column = "0"
	}
	return tr.Define(ctx, func(r Row) error {
		var of int64
		var w Window
		err := r.Scan(&of, &w.OpenedNS, &w.ClosedNS, &w.FirstIndex, &w.QueuedBefore)
		if q := tr.Queues[of]; q != nil {
			w.QueuedBefore = max(0, w.QueuedBefore)
			q.Windows = append(q.Windows, w)
		}
		return err
	}, `SELECT queue_id, opened_ns, coalesce(closed_ns, 0), first_index, `+column+` FROM rtl_window ORDER BY queue_id, opened_ns`)
}
