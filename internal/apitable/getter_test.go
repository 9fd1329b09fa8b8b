package apitable

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// getters returns memory with a stub at 0x100, its getter at 0x200, the word with the table's address at 0x300, and the table at 0x1000.
func getters(jump []byte) []byte {
	b := make([]byte, 0x400)
	stub := b[0x100:]
	copy(stub, "\xf3\x0f\x1e\xfa\x48\x83\xec\x18\x48\x89\x7c\x24\x08\xe8") // endbr64; sub; mov; call
	binary.LittleEndian.PutUint32(stub[14:], 0x200-0x112)
	copy(stub[18:], "\x48\x8b\x7c\x24\x08") // mov 8(%rsp),%rdi
	copy(stub[23:], jump)
	getter := b[0x200:]
	copy(getter, "\xf3\x0f\x1e\xfa\x0f\xb6\x05\x00\x00\x00\x00\x84\xc0\x74\x11\x48\x8b\x05") // the guard; mov table(%rip),%rax
	binary.LittleEndian.PutUint32(getter[18:], 0x300-0x216)
	getter[22] = 0xc3
	binary.LittleEndian.PutUint64(b[0x300:], 0x1000)
	return b
}

func TestDecodeGetter(t *testing.T) {
	for name, jump := range map[string]string{
		"mov d32(%rax),%rax; jmp *%rax": "\x48\x8b\x80\xd8\x0a\x00\x00\x48\x83\xc4\x18\xff\xe0",
		"jmp *d32(%rax)":                "\xff\xa0\xd8\x0a\x00\x00",
	} {
		if got, ok := DecodeGetter(bytes.NewReader(getters([]byte(jump))), 0x100); !ok || got != (Stub{0x1000, 0x1ad8}) {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
	for name, jump := range map[string]string{"mov d8": "\x48\x8b\x40\x18\xff\xe0", "jmp d8": "\xff\x60\x18"} {
		if got, ok := DecodeGetter(bytes.NewReader(getters([]byte(jump))), 0x100); !ok || got != (Stub{0x1000, 0x1018}) {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
	for name, spoil := range map[string]func(b []byte){
		"no call":            func(b []byte) { b[0x10d] = 0x90 },
		"no getter":          func(b []byte) { b[0x20f] = 0x90 },
		"it does not return": func(b []byte) { b[0x216] = 0x90 },
		"no table":           func(b []byte) { copy(b[0x300:], make([]byte, 8)) },
	} {
		b := getters([]byte("\xff\xa0\xd8\x0a\x00\x00"))
		spoil(b)
		if got, ok := DecodeGetter(bytes.NewReader(b), 0x100); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// FuzzDecodeGetter: the code is the process's.
func FuzzDecodeGetter(f *testing.F) {
	f.Add(getters([]byte("\xff\xa0\xd8\x0a\x00\x00")), uint64(0x100))
	f.Fuzz(func(t *testing.T, b []byte, at uint64) {
		if stub, ok := DecodeGetter(bytes.NewReader(b), at); ok && stub.Table == 0 {
			t.Errorf("%+v", stub)
		}
	})
}
