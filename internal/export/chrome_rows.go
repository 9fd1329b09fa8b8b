package export

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// chromeRow is a row of a process that is not a thread.
type chromeRow struct {
	of   *traceread.Process
	kind string
	id   int64
	lane int
}

// Rows that are not threads, and processes whose pid another process of the file has, get
// numbers that Linux does not use.
const firstRow, firstProcess = 100_000_000, 1_000_000_000

// position is where a row is drawn in its process: a sort_index, which readers hold in 31 bits. The order is
// Perfetto's: losses, stops, each thread with its calls and markers, each GPU with its coverage, queues and copies.
type position int64

// Positions of the parts of a process, and how many rows a thread and a GPU have.
const (
	ofLosses  position = 0
	ofStops   position = 1
	ofThreads position = 2
	ofGPUs    position = 1_700_000_000

	rowsOfThread = 16
	rowsOfRank   = 100_000
	ranksOfGPU   = 10
	mostGPURows  = 400
)

// ofThread returns the position of a thread (n 0), or of its n-th further row. tid 0: of no known thread.
func ofThread(tid, n int64) position {
	if tid < 0 || tid >= firstRow {
		tid = 0
	}
	return ofThreads + position(tid*rowsOfThread+min(n, rowsOfThread-1))
}

// ofGPU returns the position of the n-th row of a rank of a GPU.
func ofGPU(gpu int64, rank int, n int64) position {
	gpu, n = min(max(gpu, 0), mostGPURows), min(max(n, 0), rowsOfRank-1)
	return ofGPUs + position((gpu*ranksOfGPU+int64(rank))*rowsOfRank+n)
}

// ofTrack returns the position of a track of events. Kinds have the order in which they come.
func (c *chrome) ofTrack(t *kind.Track) position {
	if t.GPU != nil {
		return ofGPU(t.GPU.GPU, t.Rank, t.Number)
	}
	n, known := c.kinds[t.Kind]
	if !known {
		n = int64(len(c.kinds) + 1)
		c.kinds[t.Kind] = n
	}
	return ofThread(t.TID, n)
}

// name writes the name of a process or a row, and its position.
func (c *chrome) name(what string, pid, tid int64, name string, at position) error {
	l := append(c.event("M", pid, tid, 0).text("name", what+"_name").key("args"), '{').text("name", name)
	if err := c.write(append(l, '}')); err != nil {
		return err
	}
	l = append(c.event("M", pid, tid, 0).text("name", what+"_sort_index").key("args"), '{').int("sort_index", int64(at))
	return c.write(append(l, '}'))
}

// pid returns the process's pid, or another number if another process of the file has the
// pid, or the pid is impossible.
func (c *chrome) pid(s *traceread.Session) (int64, error) {
	who := s.Process
	if pid, ok := c.pids[who]; ok {
		return pid, nil
	}
	pid := s.Process.ID.PID
	if _, taken := c.owners[pid]; taken || pid <= 0 || pid >= firstProcess {
		pid = firstProcess + int64(len(c.pids))
	}
	c.pids[who], c.owners[pid] = pid, who
	return pid, c.name("process", pid, 0, fmt.Sprintf("%s (pid %d on %s)", s.Process.Title(), s.Process.ID.PID, s.Process.ID.Host), 0)
}

// row returns the number of a row that is not a thread. It writes its name and position once.
func (c *chrome) row(s *traceread.Session, kind string, id int64, lane int, name string, at position) (pid, tid int64, err error) {
	if pid, err = c.pid(s); err != nil {
		return 0, 0, err
	}
	key := chromeRow{s.Process, kind, id, lane}
	tid, ok := c.rows[key]
	if ok {
		return pid, tid, nil
	}
	if len(c.rows) >= traceread.MostDefinitions {
		return 0, 0, fmt.Errorf("over %d rows: %w", traceread.MostDefinitions, traceread.ErrImpossible)
	}
	tid = firstRow + int64(len(c.rows))
	c.rows[key] = tid
	return pid, tid, c.name("thread", pid, tid, name, at)
}

// coverageRow returns the row of a queue's coverage.
func (c *chrome) coverageRow(q *queue) (pid, tid int64, err error) {
	return c.row(q.Agent.Session, "coverage", q.row, 0, q.rowName+": coverage", ofGPU(q.Agent.GPU, 0, q.row))
}

// submitter returns the row of the submitting thread.
func (c *chrome) submitter(d *dispatch) (pid, tid int64, err error) {
	s := d.queue.Agent.Session
	if d.thread == nil || d.thread.tid <= 0 || d.thread.tid >= firstRow {
		return c.row(s, "submits", 0, 0, "unknown thread", ofThread(0, 0))
	}
	if pid, err = c.pid(s); err != nil {
		return 0, 0, err
	}
	return pid, d.thread.tid, nil
}

// threads names the rows of the threads that submitted or called something.
func (c *chrome) threads() error {
	for _, t := range sortedKeys(c.trace.threads) {
		th := c.trace.threads[t]
		pid, err := c.pid(th.session)
		if err == nil && th.tid > 0 && th.tid < firstRow {
			err = c.name("thread", pid, th.tid, th.title(), ofThread(th.tid, 0))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
