package ring

import (
	"fmt"
	"sync/atomic"
)

// Drain calls fn for up to limit records, then frees their space for the producer. It returns
// the number of calls. A record for which fn fails is consumed, too. After ErrCorrupt nothing
// more can be read.
func (r *Reader) Drain(limit int, fn func(*Record) error) (int, error) {
	if r.broken != nil {
		return 0, r.broken
	}
	if err := r.advanceHead(); err != nil {
		return 0, err
	}
	// Everything up to tail was copied out: the release store comes last.
	defer func() { atomic.StoreUint64(&r.shared.Tail, r.tail) }()

	for n := 0; n < limit; n++ {
		found, err := r.next()
		if err != nil || !found {
			return n, err
		}
		if err := fn(&r.record); err != nil {
			return n + 1, err
		}
	}
	return limit, nil
}

// advanceHead reads the producer's head, and checks it.
func (r *Reader) advanceHead() error {
	head := atomic.LoadUint64(&r.shared.Head)
	switch {
	case head%LineBytes != 0:
		return r.corrupt("head %d is not a whole line", head)
	case head < r.head:
		return r.corrupt("head went back from %d to %d", r.head, head)
	case head-r.tail > r.sizeBytes:
		return r.corrupt("head %d is more than a ring ahead of tail %d", head, r.tail)
	}
	r.head = head
	return nil
}

// next copies the record at the tail into r.record and advances the tail. It skips padding.
func (r *Reader) next() (found bool, err error) {
	for r.tail != r.head {
		r.copyLine(r.record.bytes(0), r.tail)
		h := *r.record.header()
		sizeBytes := uint64(h.Lines) * LineBytes
		if h.Lines == 0 || sizeBytes > r.head-r.tail {
			return false, r.corrupt("record of %d lines with %d bytes written", h.Lines, r.head-r.tail)
		}
		if err := r.follow(h); err != nil {
			return false, err
		}
		r.record.Text = nil
		switch t := Type(h.Type); {
		case t == TypePad:
			r.tail += sizeBytes
			continue
		case t == TypeString:
			if err := r.assembleText(h.Lines); err != nil {
				return false, err
			}
		case h.Lines != 1 && t.isOneLine():
			return false, r.corrupt("record of type %d has %d lines", t, h.Lines)
		case h.Lines > 1 && t >= KindTypes:
			r.copyRest(int(h.Lines))
		}
		r.tail += sizeBytes
		return true, nil
	}
	return false, nil
}

// follow checks the sequence: a jump ahead is a hole, a step back is corrupt.
func (r *Reader) follow(h Header) error {
	if Type(h.Type) == TypePad && h.Seq != r.nextSeq {
		return nil // padding is not a record, and need not have a number
	}
	if !r.started {
		r.started = true
		r.nextSeq = min(h.Seq, 1) // counting may begin at 0 or at 1
	}
	ahead := h.Seq - r.nextSeq // modulo 2³², like the producer's number
	if ahead >= 1<<31 {
		return r.corrupt("sequence went back from %d to %d", r.nextSeq, h.Seq)
	}
	r.holes += uint64(ahead)
	r.nextSeq = h.Seq + 1
	return nil
}

// assembleText assembles a string record from its lines. The length was copied with the first
// line: the producer cannot change it any more.
func (r *Reader) assembleText(lines uint16) error {
	lenBytes := uint64(r.record.StringLine().LenBytes)
	if lenBytes > StringMax || (stringTextOffset+lenBytes+LineBytes-1)/LineBytes != uint64(lines) {
		return r.corrupt("string of %d bytes in %d lines", lenBytes, lines)
	}
	r.text = append(r.text[:0], r.record.bytes(0)...)
	for i := uint64(1); i < uint64(lines); i++ {
		r.text = r.text[:len(r.text)+LineBytes]
		r.copyLine(r.text[i*LineBytes:], r.tail+i*LineBytes)
	}
	r.record.Text = r.text[stringTextOffset : stringTextOffset+lenBytes]
	return nil
}

// copyRest copies the lines of a kind's record behind the first one.
func (r *Reader) copyRest(lines int) {
	for i := 1; i < min(lines, RecordLines); i++ {
		r.copyLine(r.record.bytes(i), r.tail+uint64(i)*LineBytes)
	}
}

// copyLine copies one line out of shared memory. A line never straddles the
// ring's end, a record may.
func (r *Reader) copyLine(to []byte, position uint64) {
	at := position & (r.sizeBytes - 1)
	copy(to, r.lines[at:at+LineBytes])
}

func (r *Reader) corrupt(format string, args ...any) error {
	r.broken = fmt.Errorf("ring %w at %d: %s", ErrCorrupt, r.tail, fmt.Sprintf(format, args...))
	return r.broken
}
