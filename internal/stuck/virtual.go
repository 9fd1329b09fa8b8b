package stuck

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// While rtl-attach records a process, its payload has the write indexes that the program sees (decision 2), and the
// queues' own have only the packets that were passed to the GPU. struct queue of the payload (kinds/dispatch/queues.h, which
// asserts these places) is at the beginning of a page.
const (
	claimsWord   = 0   // state in the upper bits, write index below
	claimsQueue  = 8   // address of the queue
	claimsID     = 16  // of the queue
	claimsStamps = 24  // address, in the same mapping
	claimsMask   = 32  // slots - 1
	claimsBase   = 80  // first index that was claimed in this session
	claimsAt     = 272 // when the session began, as the stamps have it
	claimsNS     = 336 // and by CLOCK_BOOTTIME
	claimsBytes  = 344

	wordVirtual = 1 << 63
	wordClosed  = 1 << 62
	wordIndex   = 1<<60 - 1
)

// Limits of the search for the payload's states of queues.
const (
	claimsScanMax  = 4 << 30
	claimsTimeMax  = 5 * time.Second
	claimsAheadMax = 1 << 32 // of a write index before the queue's own
	stampsAwayMax  = 1 << 20
)

// isClaims reports whether memory at an address is the payload's state of a queue.
func isClaims(b []byte, at uint64, q *rawQueue) bool {
	le := binary.LittleEndian
	stamps := le.Uint64(b[claimsStamps:])
	return le.Uint64(b[claimsQueue:]) == q.at && le.Uint64(b[claimsID:]) == q.id && le.Uint64(b[claimsMask:]) == uint64(q.slots-1) && stamps-at < stampsAwayMax
}

// findClaims searches for the payload's states of queues: their addresses by those of the queues. A queue that it has never
// recorded has none. whole reports that all memory was searched in which they can be.
func findClaims(mem io.ReaderAt, maps []target.Map, present func(target.Map, uint64) ([]target.Span, error), queues []*rawQueue) (found map[uint64]uint64, whole bool) {
	found = map[uint64]uint64{}
	by := map[uint64]*rawQueue{}
	for _, q := range queues {
		by[q.at] = q
	}
	s := &Search{most: claimsScanMax}
	deadline := time.Now().Add(claimsTimeMax)
	for _, m := range maps {
		if !m.Anonymous() || !mayHoldSignals(m) {
			continue
		}
		spans, err := present(m, claimsScanMax-min(claimsScanMax, s.Bytes))
		if err != nil {
			s.Skipped++
			continue
		}
		for _, span := range spans {
			s.scan(mem, span, deadline, func(b []byte, at uint64) {
				const page = 4096
				for ; len(b) >= page; b, at = b[page:], at+page {
					q := by[binary.LittleEndian.Uint64(b[claimsQueue:])]
					if q != nil && isClaims(b, at, q) {
						found[q.at] = at
					}
				}
			})
		}
	}
	return found, s.Skipped == 0 && s.Bytes < claimsScanMax
}

// seenByProgram replaces a queue's write index by the program's, if rtl-attach records the queue, whose state findClaims has found.
func seenByProgram(mem io.ReaderAt, found map[uint64]uint64, q *rawQueue) {
	at, ok := found[q.at]
	if !ok {
		return
	}
	var b [claimsBytes]byte
	if read(mem, at, b[:]) != nil || !isClaims(b[:], at, q) {
		return
	}
	word := binary.LittleEndian.Uint64(b[claimsWord:])
	if index := word & wordIndex; word&(wordVirtual|wordClosed) != 0 && index-q.write < claimsAheadMax {
		q.passed, q.write, q.claims = q.write, index, parseClaims(b[:])
	}
}
