package allocations

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// mostBlocks limits the blocks that are allocated at the same time.
const mostBlocks = 1 << 21

var errTooMany = fmt.Errorf("over %d allocations at once: %w", mostBlocks, traceread.ErrImpossible)

// owner is whose memory a block is.
type owner struct {
	known bool
	gpu   int64 // the file's number of the device; -1: the host's
}

func (o owner) String() string {
	switch {
	case !o.known:
		return "unknown"
	case o.gpu < 0:
		return "host"
	}
	return fmt.Sprintf("GPU %d", o.gpu)
}

// call is a row of rtl_allocation.
type call struct {
	id, sessionID, tid            int64
	thread                        sql.NullInt64 // row of rtl_thread
	operation                     Operation
	agentID, address, bytes, pool sql.NullInt64
	status, startNS, durationNS   int64

	session *traceread.Session
	agent   *traceread.Agent // nil: the host's, or not known
}

// columns are what scan reads, of rtl_allocation a and rtl_thread t.
const columns = `SELECT a.id, a.session_id, coalesce(t.tid, 0), t.id, a.operation, a.agent_id, a.address, a.bytes, a.pool, a.status,
	a.start_ns, a.duration_ns FROM rtl_allocation a LEFT JOIN rtl_thread t ON t.id = a.thread_id`

// scan reads a row. known is false for a row that no recorder writes.
func (c *call) scan(tr *traceread.Trace, r traceread.Row) (known bool, err error) {
	var operation int64
	err = r.Scan(&c.id, &c.sessionID, &c.tid, &c.thread, &operation, &c.agentID, &c.address, &c.bytes, &c.pool, &c.status, &c.startNS, &c.durationNS)
	if err != nil || operation < 0 || operation >= int64(OperationCount) {
		return false, err
	}
	c.operation, c.session, c.agent = Operation(operation), tr.Session(c.sessionID), tr.Agents[c.agentID.Int64]
	return c.session != nil && c.agentID.Valid == (c.agent != nil) && c.operation.isRelease() != c.bytes.Valid &&
		c.bytes.Int64 >= 0 && (c.status != 0 || c.bytes.Int64 <= kind.MostCount) && traceread.Possible(c.startNS, c.durationNS), nil
}

func (c *call) owner() owner {
	switch {
	case c.agent != nil:
		return owner{true, c.agent.GPU}
	case c.pool.Valid:
		return owner{true, -1}
	}
	return owner{gpu: -1}
}

// atNS is when the memory begins or ceases to belong to the application: between the end of an
// allocation and the begin of its release no other block can have the address.
func (c *call) atNS() int64 {
	if c.operation.isRelease() {
		return c.startNS
	}
	return c.startNS + c.durationNS
}

// block is memory between its allocation and its release.
type block struct {
	call
	owner    owner
	function string // of HIP, in whose call it was allocated; "": none is known
}

// place identifies a block while it is allocated.
type place struct {
	process *traceread.Process
	virtual bool
	address int64
}

// entry is what one call does. Of a release, gone is what it releases; of an allocation, it is
// the block whose release is missing: a later one has its address. nil: none is known.
type entry struct {
	*call
	made, gone *block
}

// eachEntry calls visit for all calls, in the order in which they take effect.
func eachEntry(ctx context.Context, tr *traceread.Trace, visit func(entry) error) error {
	live := map[place]*block{}
	return tr.Each(ctx, func(r traceread.Row) error {
		var c call
		if known, err := c.scan(tr, r); err != nil || !known {
			return err
		}
		e := entry{call: &c}
		if c.status == 0 && c.address.Valid {
			at := place{c.session.Process, c.operation.isVirtual(), c.address.Int64}
			e.gone = live[at]
			delete(live, at)
			if !c.operation.isRelease() {
				e.made = &block{call: c, owner: c.owner()}
				live[at] = e.made
			}
		}
		if len(live) > mostBlocks {
			return errTooMany
		}
		return visit(e)
	}, columns+` ORDER BY a.start_ns + CASE WHEN a.operation < 3 THEN a.duration_ns ELSE 0 END, a.operation, a.id`)
}
