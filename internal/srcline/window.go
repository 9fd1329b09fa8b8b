package srcline

import (
	"bufio"
	"bytes"
	"io"
)

// window looks into a section from its beginning to its end.
type window struct {
	r  *bufio.Reader
	at uint64
}

func newWindow(r io.Reader) *window { return &window{r: bufio.NewReaderSize(r, 4*nameMax)} }

// skipTo goes forward to an offset, and reports whether the section has it.
func (w *window) skipTo(at uint64) bool {
	for w.at < at {
		n, err := w.r.Discard(int(min(at-w.at, 1<<20)))
		if w.at += uint64(n); err != nil {
			return false
		}
	}
	return true
}

// text returns the string here.
func (w *window) text() string {
	b, _ := w.r.Peek(nameMax) // fewer bytes at the end
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}
