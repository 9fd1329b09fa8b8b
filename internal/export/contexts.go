package export

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// launch is a kernel with its geometry.
type launch struct {
	id, nameID, symbolID    int64
	name, symbol            string
	grid, workgroup         [3]int64
	groupBytes, scratchByte int64
	geometry                string // in words
}

// describe returns a launch's geometry as text; sizes are work-items and bytes.
func (l *launch) describe() string {
	return fmt.Sprintf("grid %d,%d,%d workgroup %d,%d,%d LDS %d scratch %d", l.grid[0], l.grid[1], l.grid[2],
		l.workgroup[0], l.workgroup[1], l.workgroup[2], l.groupBytes, l.scratchByte)
}

// dispatchContext has values that several dispatches share.
type dispatchContext struct {
	queue  *queue
	launch *launch
	thread *thread // nil: not known
}

// Limits of contexts, launches and bytes of their names in memory. At the limit all are
// dropped, and read again when needed.
const (
	mostContexts  = 1 << 18
	mostLaunches  = 1 << 16
	mostNameBytes = 64 << 20
)

// contexts finds the context of a dispatch.
type contexts struct {
	tr          *trace
	known       map[int64]*dispatchContext // nil: not valid
	launches    map[int64]*launch
	nameBytes   int
	readContext *sql.Stmt
	readLaunch  *sql.Stmt
}

func newContexts(tr *trace) (*contexts, error) {
	c := &contexts{tr: tr, known: map[int64]*dispatchContext{}, launches: map[int64]*launch{}}
	var err error
	c.readContext, err = tr.DB.Prepare("SELECT queue_id, launch_id, coalesce(thread_id, 0) FROM rtl_context WHERE id = ?")
	if err != nil {
		return nil, err
	}
	c.readLaunch, err = tr.DB.Prepare(`SELECT l.id, l.name_id, l.symbol_id, n.string, coalesce(s.string, ''),
		coalesce(grid_x, 0), coalesce(grid_y, 0), coalesce(grid_z, 0), coalesce(workgroup_x, 0), coalesce(workgroup_y, 0),
		coalesce(workgroup_z, 0), coalesce(group_segment_bytes, 0), coalesce(private_segment_bytes, 0)
		FROM rtl_launch l JOIN rocpd_string n ON n.id = l.name_id LEFT JOIN rocpd_string s ON s.id = l.symbol_id
		WHERE l.id = ?`)
	return c, err
}

// find returns a context; nil if the file does not have it, its queue or its kernel.
func (c *contexts) find(id int64) (*dispatchContext, error) {
	if found, ok := c.known[id]; ok {
		return found, nil
	}
	if len(c.known) >= mostContexts || len(c.launches) >= mostLaunches || c.nameBytes >= mostNameBytes {
		clear(c.known)
		clear(c.launches)
		c.nameBytes = 0
	}
	found, err := c.read(id)
	if err == nil {
		c.known[id] = found
	}
	return found, err
}

func (c *contexts) read(id int64) (*dispatchContext, error) {
	var queueID, launchID, threadID int64
	err := c.readContext.QueryRow(id).Scan(&queueID, &launchID, &threadID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	l, err := c.launch(launchID)
	q := c.tr.queues[queueID]
	if err != nil || l == nil || q == nil {
		return nil, err
	}
	return &dispatchContext{queue: q, launch: l, thread: c.tr.threads[threadID]}, nil
}

func (c *contexts) launch(id int64) (*launch, error) {
	if l, ok := c.launches[id]; ok {
		return l, nil
	}
	l := &launch{}
	g, w := &l.grid, &l.workgroup
	err := c.readLaunch.QueryRow(id).Scan(&l.id, &l.nameID, &l.symbolID, &l.name, &l.symbol,
		&g[0], &g[1], &g[2], &w[0], &w[1], &w[2], &l.groupBytes, &l.scratchByte)
	if errors.Is(err, sql.ErrNoRows) {
		l, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if l != nil {
		l.name, l.symbol, l.geometry = traceread.Cut(l.name, traceread.LongestName), traceread.Cut(l.symbol, traceread.LongestName), l.describe()
		c.nameBytes += len(l.name) + len(l.symbol)
	}
	c.launches[id] = l
	return l, nil
}
