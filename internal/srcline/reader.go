package srcline

import (
	"bytes"
	"encoding/binary"
)

// reader reads the fields of a unit. After a read beyond the end it is bad, and all that it reads is 0.
type reader struct {
	b   []byte
	at  int
	bad bool
}

// take returns the next n bytes; nil: there are fewer.
func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)-r.at) {
		r.bad = true
		return nil
	}
	from := r.at
	r.at += int(n)
	return r.b[from:r.at]
}

// uint reads a number of 1 to 8 bytes.
func (r *reader) uint(size int) uint64 {
	var all [8]byte
	copy(all[:], r.take(uint64(size)))
	return binary.LittleEndian.Uint64(all[:])
}

func (r *reader) u8() uint8 { return uint8(r.uint(1)) }

// offset reads an offset in a section, or a length.
func (r *reader) offset(is64 bool) uint64 {
	if is64 {
		return r.uint(8)
	}
	return r.uint(4)
}

// uleb reads a number of LEB128 without a sign. Bits beyond 64 are dropped.
func (r *reader) uleb() (v uint64) {
	for shift := uint(0); ; shift += 7 {
		b := r.u8()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}

// sleb reads a number of LEB128 with a sign.
func (r *reader) sleb() (v int64) {
	for shift := uint(0); ; {
		b := r.u8()
		v |= int64(b&0x7f) << shift
		shift += 7
		if b < 0x80 {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// skipString goes beyond a string that ends with 0, and returns where it begins.
func (r *reader) skipString() (at int) {
	at = r.at
	if r.bad {
		return at
	}
	n := bytes.IndexByte(r.b[r.at:], 0)
	if n < 0 {
		r.bad = true
		return at
	}
	r.at += n + 1
	return at
}
