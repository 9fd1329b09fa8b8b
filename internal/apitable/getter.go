package apitable

import (
	"bytes"
	"encoding/binary"
	"io"
)

// DecodeGetter decodes an exported function of HIP 6 and later, which calls a function that returns the table, and jumps
// through a slot of it: call getter … mov slot(%rax),%reg … jmp *%reg, or call getter … jmp *slot(%rax). The getter has
// mov table(%rip),%rax; ret. The memory may be a hostile process's: DecodeGetter reads three times.
func DecodeGetter(mem io.ReaderAt, stub uint64) (Stub, bool) {
	var code [96]byte
	if _, err := mem.ReadAt(code[:], int64(stub)); err != nil {
		return Stub{}, false
	}
	call := bytes.IndexByte(code[:64], 0xe8) // call rel32
	if call < 0 {
		return Stub{}, false
	}
	table := returned(mem, stub+uint64(call)+5+relative(code[call+1:]))
	for c := code[call+5:]; table != 0 && len(c) >= 7; c = c[1:] {
		switch {
		case c[0] == 0x48 && c[1] == 0x8b && c[2]&0xc7 == 0x80: // mov d32(%rax),%reg
			return Stub{table, table + relative(c[3:])}, true
		case c[0] == 0xff && c[1] == 0xa0: // jmp *d32(%rax)
			return Stub{table, table + relative(c[2:])}, true
		case c[0] == 0x48 && c[1] == 0x8b && c[2]&0xc7 == 0x40: // mov d8(%rax),%reg
			return Stub{table, table + uint64(int64(int8(c[3])))}, true
		case c[0] == 0xff && c[1] == 0x60: // jmp *d8(%rax)
			return Stub{table, table + uint64(int64(int8(c[2])))}, true
		}
	}
	return Stub{}, false
}

// returned returns what a getter returns; 0: it is none.
func returned(mem io.ReaderAt, getter uint64) uint64 {
	var code [48]byte
	if _, err := mem.ReadAt(code[:], int64(getter)); err != nil {
		return 0
	}
	const bytesOfMov = 7
	at := bytes.Index(code[:len(code)-bytesOfMov], []byte("\x48\x8b\x05")) // mov rel32(%rip),%rax
	if at < 0 || code[at+bytesOfMov] != 0xc3 {
		return 0
	}
	return word(mem, getter+uint64(at)+bytesOfMov+relative(code[at+3:]))
}

// relative returns a displacement of 32 bits.
func relative(b []byte) uint64 { return uint64(int64(int32(binary.LittleEndian.Uint32(b)))) }
