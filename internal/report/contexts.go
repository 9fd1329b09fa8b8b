package report

import (
	"database/sql"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// dispatchContext has values that several dispatches share.
type dispatchContext struct {
	queue  *queue // nil: there is no such context
	kernel *kernel
	thread int64 // its row; tracedb.Null: not known
	behind bool  // the barrier bit: it starts after all packets in front of it
}

// Contexts are read in pages of consecutive ids: neighbouring dispatches have nearby
// contexts. When there are too many pages, all are dropped.
const (
	pageBits  = 12
	mostPages = 1 << 9
)

type page [1 << pageBits]dispatchContext

// barrierBit is set in rtl_context.flags.
const barrierBit = 2

// contexts finds the context of a dispatch.
type contexts struct {
	state    *state
	kernels  *kernels
	pages    map[int64]*page
	last     *page
	lastPage int64
	query    *sql.Stmt
	values   []int64
}

func newContexts(st *state, ks *kernels) (*contexts, error) {
	c := &contexts{state: st, kernels: ks, pages: map[int64]*page{}}
	var err error
	c.query, err = st.trace.DB.Prepare(`SELECT rtl_pack(c.id, c.queue_id, l.name_id, c.thread_id, c.flags)
		FROM rtl_context c JOIN rtl_launch l ON l.id = c.launch_id WHERE c.id BETWEEN ? AND ?`)
	return c, err
}

// find returns a context. The context has no queue if the file does not have it, its queue
// or its kernel.
func (c *contexts) find(id int64) (*dispatchContext, error) {
	number := id >> pageBits
	if c.last == nil || number != c.lastPage {
		p, known := c.pages[number]
		if !known {
			var err error
			if p, err = c.read(number); err != nil {
				return nil, err
			}
		}
		c.last, c.lastPage = p, number
	}
	return &c.last[id&(1<<pageBits-1)], nil
}

func (c *contexts) read(number int64) (*page, error) {
	var err error
	first := number << pageBits
	if c.values, err = tracedb.Integers(c.query, c.values, first, first+1<<pageBits-1); err != nil {
		return nil, err
	}
	if len(c.pages) >= mostPages {
		clear(c.pages)
	}
	p := &page{}
	for v := c.values; len(v) >= 5; v = v[5:] {
		k, err := c.kernels.get(v[2])
		if err != nil {
			return nil, err
		}
		if id := v[0]; id>>pageBits == number {
			p[id&(1<<pageBits-1)] = dispatchContext{queue: c.state.queues[v[1]], kernel: k, thread: v[3], behind: v[4]&barrierBit != 0}
		}
	}
	c.pages[number] = p
	return p, nil
}
