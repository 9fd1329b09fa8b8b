package control

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

var errLong = fmt.Errorf("a command has at most %d bytes", longestLine)

// lines reads lines of bounded length.
type lines struct{ r *bufio.Reader }

func newLines(r io.Reader) lines { return lines{bufio.NewReaderSize(r, longestLine+1)} }

// next returns the next line without the white space around it; errLong for one that is too long, of which
// nothing is kept.
func (l lines) next() (string, error) {
	raw, err := l.r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		if err != nil && len(raw) == 0 {
			return "", err
		}
		if !utf8.Valid(raw) {
			return "?", nil
		}
		return strings.TrimSpace(string(raw)), nil
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	if err != nil {
		return "", err
	}
	return "", errLong
}
