package markers

import (
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const (
	batchMarkers  = 512
	mostDescribed = 256 // changes of libraries in a session
)

// decoder decodes the markers of one session.
type decoder struct {
	session   kind.Session
	pairs     pairs
	libraries []Libraries // to be written
	described int
	arrived   uint64
}

func newDecoder(s kind.Session) kind.Decoder { return &decoder{session: s, pairs: newPairs()} }

// Decode decodes a call, or what the payload says of the libraries.
func (d *decoder) Decode(r *ring.Record) error {
	switch r.Type() {
	case TypeMarker:
		return d.call(r)
	case TypeCoverage:
		d.coverage(r)
	default:
		d.session.Refuse()
	}
	return nil
}

func (d *decoder) call(r *ring.Record) error {
	c := ring.As[recorded](r)
	if !sound(c, r.Lines()) {
		d.session.Refuse()
		return nil
	}
	d.arrived++
	d.pairs.take(&c.Call, func() string { return harmless(c.text(), c.TextCut != 0) })
	if len(d.pairs.done) >= batchMarkers {
		return d.Flush()
	}
	return nil
}

// sound reports whether a payload can have written the record.
func sound(c *recorded, lines uint16) bool {
	bytes := uintptr(c.TextBytes)
	op := Operation(c.Operation)
	if op >= operations || bytes > textMax || (unsafe.Offsetof(c.Text)+bytes+ring.LineBytes-1)/ring.LineBytes != uintptr(lines) {
		return false
	}
	ends, numbered := op == OpPop || op == OpStop, op == OpStart || op == OpStop
	switch {
	case c.TimeNS == 0, !kind.SoundTime(c.TimeNS),
		c.TextCut > 1, c.TextCut == 1 && bytes != textMax,
		ends && bytes != 0, !numbered && c.Range != 0:
		return false
	}
	return strings.IndexByte(c.text(), 0) < 0
}

// harmless returns a text as valid UTF-8, with … behind one that is cut. The cut may have split
// its last character.
func harmless(text string, cut bool) string {
	if cut {
		for end := len(text) - 1; end >= 0 && end >= len(text)-utf8.UTFMax; end-- {
			if utf8.RuneStart(text[end]) {
				if !utf8.FullRuneInString(text[end:]) {
					text = text[:end]
				}
				break
			}
		}
		text += "…"
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

func (d *decoder) coverage(r *ring.Record) {
	c := ring.As[Coverage](r)
	l := Libraries{Way(c.Roctx64), Way(c.Sdk)}
	if r.Lines() != 1 || l.ROCTx64 >= WayCount || l.SDK >= WayCount || d.described == mostDescribed {
		d.session.Refuse()
		return
	}
	d.libraries = append(d.libraries, l)
	d.described++
}

// Flush writes the markers that are complete.
func (d *decoder) Flush() error {
	libraries, done := d.libraries, d.pairs.done
	if len(libraries)+len(done) == 0 {
		return nil
	}
	d.libraries, d.pairs.done = nil, nil
	err := d.session.Write(len(done), func(w tracedb.KindWriter) error {
		for _, l := range libraries {
			if err := describe(w, l); err != nil {
				return err
			}
		}
		return Store(w, done)
	})
	if cap(done) <= 2*batchMarkers {
		d.pairs.done = done[:0]
	}
	return err
}

// Finish passes on the ranges that are still open: the session has ended.
func (d *decoder) Finish() { d.pairs.finish() }

// Arrived returns how many calls have arrived; all of them have times.
func (d *decoder) Arrived() (timed, untimed uint64) { return d.arrived, 0 }
