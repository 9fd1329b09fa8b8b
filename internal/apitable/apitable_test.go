package apitable

import (
	"bytes"
	"testing"
)

func TestDecode(t *testing.T) {
	b := make([]byte, 256)
	b[0x87] = 0x40 // the table's address
	copy(b, "\xf3\x0f\x1e\xfa\x48\x8b\x05\x7c\x00\x00\x00\xff\xa0\x10\x01\x00\x00")
	if s, ok := Decode(bytes.NewReader(b), 0); !ok || s.Table != 0x40 || s.Slot != s.Table+0x110 {
		t.Errorf("%#x, %t", s, ok)
	}
	if s, ok := Decode(bytes.NewReader(b), 1); ok {
		t.Errorf("%#x from its middle", s)
	}
}

// FuzzDecode: code that is no stub decodes to nothing, or to a slot near its table.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x48\x8b\x05\x00\x00\x00\x00\xff\x60\x10"), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint64) {
		s, ok := Decode(bytes.NewReader(b), at)
		if ok && (s.Table == 0 || int64(s.Slot-s.Table) != int64(int32(s.Slot-s.Table))) {
			t.Errorf("%#x", s)
		}
	})
}
