package flight

import (
	"maps"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// openWindows are the records of the queues' windows that are open at some time, by queue.
type openWindows map[uint32][ring.LineBytes]byte

func (o openWindows) clone() openWindows { return maps.Clone(o) }

// follow moves on over the records of a chunk.
func (o openWindows) follow(c *chunk) {
	var r ring.Record
	for i := range c.windows {
		r.Load(c.windows[i][:])
		switch w := r.Window(); ring.WindowKind(w.Kind) {
		case ring.WindowOpen:
			if len(o) < mostQueues {
				o[w.Queue] = c.windows[i]
			}
		case ring.WindowClose:
			delete(o, w.Queue)
		}
	}
}

func lineOf(r *ring.Record) (line [ring.LineBytes]byte) {
	copy(line[:], r.AppendTo(nil))
	return line
}
