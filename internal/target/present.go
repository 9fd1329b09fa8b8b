package target

import (
	"encoding/binary"
	"fmt"
)

// Span is a range of addresses; End is exclusive.
type Span struct{ Start, End Addr }

// pagePresent is the bit of a pagemap entry of a page that is in memory
// (Documentation/admin-guide/mm/pagemap.rst).
const pagePresent = 1 << 63

// Present returns which parts of a mapping are in memory, of at most most bytes together. To read any
// other page would make the kernel fetch it for the target. It fails on kernels without page maps.
func (t *Target) Present(m Map, most uint64) (spans []Span, err error) {
	if t.space == nil {
		return nil, fmt.Errorf("page map of pid %d: %w", t.PID, ErrMalformed)
	}
	const batch = 8192
	entries := make([]byte, 8*batch)
	for at := m.Start; at < m.End && most > 0; {
		pages := min(batch, int((m.End-at+pageBytes-1)/pageBytes))
		wait := t.BeginRead(Memory)
		n, err := t.space.ReadAt(entries[:8*pages], int64(at/pageBytes)*8)
		EndRead(wait)
		if n < 8 {
			return spans, fmt.Errorf("page map of pid %d at %#x: %w", t.PID, at, orGone(err))
		}
		for i := range n / 8 {
			page := at + Addr(i)*pageBytes
			if binary.LittleEndian.Uint64(entries[8*i:])&pagePresent == 0 || most == 0 {
				continue
			}
			if last := len(spans) - 1; last >= 0 && spans[last].End == page {
				spans[last].End += pageBytes
			} else {
				spans = append(spans, Span{page, page + pageBytes})
			}
			most -= min(most, pageBytes)
		}
		at += Addr(n/8) * pageBytes
	}
	return spans, nil
}

func orGone(err error) error {
	if err == nil {
		return ErrGone
	}
	return err
}
