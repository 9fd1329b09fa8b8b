package stuck

import "io"

// Limits of the packets that are read from a queue, from its read index on, and of the signals in all.
const (
	pendingMax        = 1 << 16
	pendingSignalsMax = 1 << 18
)

// pending knows which packets that have not been consumed decrement which signal.
type pending struct{ by map[uint64][]Pending }

func newPending() *pending { return &pending{by: map[uint64][]Pending{}} }

// add reads the packets of a queue between its indexes, and the last ones that the GPU has taken.
func (p *pending) add(mem io.ReaderAt, q *rawQueue) {
	first := q.read - min(q.read, backMax, uint64(q.slots))
	end := min(q.write, q.read+min(pendingMax, uint64(q.slots)))
	if q.write < q.read {
		end = q.read
	}
	for index := first; index < end; index++ {
		raw, err := readPacket(mem, q, index)
		if err != nil {
			return
		}
		if raw.completion == 0 || index >= q.read && (raw.kind == typeInvalid || raw.kind > typeBarrierOR) {
			continue
		}
		const most = 8
		if list := p.by[raw.completion]; len(list) < most && (len(list) > 0 || len(p.by) < pendingSignalsMax) {
			p.by[raw.completion] = append(list, Pending{q.id, index})
		}
	}
}

// resolve notes the packets that would decrement a signal which is not 0, and returns it.
func (p *pending) resolve(s *Signal) *Signal {
	if s.Valid && s.Value != 0 {
		s.By = p.by[s.Handle]
	}
	return s
}
