package flight

import (
	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// part is a part of a session: what a trigger writes.
type part struct {
	cut
	definitions []byte
	used        used
	clipped     openWindows // windows that were open at its begin, and are not closed or opened again yet
}

// used is what the records of a part refer to.
type used struct {
	launches bitset
	queues   map[uint32]uint64 // the lowest packet of each queue
}

// each calls visit with the definitions that are used, the windows that are open at the begin, and
// the records.
func (p *part) each(visit func(*ring.Record) error) error {
	p.used = p.look()
	p.clipped = p.windows.clone()
	if err := p.define(visit); err != nil {
		return err
	}
	for _, open := range p.windows {
		if err := p.openWindow(open, visit); err != nil {
			return err
		}
	}
	var r ring.Record
	for _, c := range p.chunks {
		for b := c.bytes; len(b) > 0; {
			b = r.Load(b)
			if p.leavesOut(&r) {
				continue
			}
			if err := visit(&r); err != nil {
				return err
			}
		}
	}
	return nil
}

// look finds what the records refer to.
func (p *part) look() used {
	u := used{queues: map[uint32]uint64{}}
	var r ring.Record
	for _, c := range p.chunks {
		for b := c.bytes; len(b) > 0; {
			b = r.Load(b)
			switch r.Type() {
			case ring.TypeDispatch:
				d := r.Dispatch()
				u.launches.add(d.Launch)
				u.packet(d.Queue, d.Index)
			case ring.TypeUntimed:
				d := r.Untimed()
				u.launches.add(d.Launch)
				u.packet(d.Queue, d.Index)
			case ring.TypeWindow:
				w := r.Window()
				u.packet(w.Queue, w.Index)
			}
		}
	}
	return u
}

func (u *used) packet(queue uint32, index uint64) {
	if lowest, known := u.queues[queue]; known && lowest <= index || !known && len(u.queues) >= mostQueues {
		return
	}
	u.queues[queue] = index
}

func (p *part) define(visit func(*ring.Record) error) error {
	var r ring.Record
	for b := p.definitions; len(b) > 0; {
		b = r.Load(b)
		if !p.uses(&r) {
			continue
		}
		if err := visit(&r); err != nil {
			return err
		}
	}
	return nil
}

// uses reports whether the part needs a definition.
func (p *part) uses(r *ring.Record) bool {
	switch r.Type() {
	case ring.TypeLaunch:
		return p.used.launches.has(r.Launch().ID)
	case ring.TypeQueue:
		_, used := p.used.queues[r.Queue().ID]
		_, open := p.windows[r.Queue().ID]
		return used || open
	}
	return true
}

// openWindow passes on a window that was open at the part's begin as one that begins there.
func (p *part) openWindow(line [ring.LineBytes]byte, visit func(*ring.Record) error) error {
	var r ring.Record
	r.Load(line[:])
	w := r.Window()
	w.TimeNS = max(w.TimeNS, p.fromNS)
	if lowest, used := p.used.queues[w.Queue]; used && lowest > w.Index { // what was in front of the whole window has run
		w.Index, w.Others = lowest, 0
	}
	w.Raw = 0
	return visit(&r)
}

// leavesOut reports whether a record does not belong to the part: an account of the whole session, or the
// close of a window whose begin is not in the part, which counts what is not, either.
func (p *part) leavesOut(r *ring.Record) bool {
	switch r.Type() {
	case ring.TypeEnd, ring.TypeKindAccount:
		return true
	case ring.TypeWindow:
		w := r.Window()
		_, clipped := p.clipped[w.Queue]
		delete(p.clipped, w.Queue)
		return clipped && ring.WindowKind(w.Kind) == ring.WindowClose
	}
	return false
}

// bitset is a set of ids below mostIDs.
type bitset []uint64

// mostIDs is the limit of a collector's ids of launches.
const mostIDs = 1 << 22

func (s *bitset) add(id uint32) {
	if id >= mostIDs {
		return
	}
	for int(id/64) >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[id/64] |= 1 << (id % 64)
}

func (s bitset) has(id uint32) bool { return int(id/64) < len(s) && s[id/64]&(1<<(id%64)) != 0 }
