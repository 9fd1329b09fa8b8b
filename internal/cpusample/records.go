package cpusample

import (
	"encoding/binary"
	"errors"
	"unsafe"
)

// Kinds of records in the ring (bpf/records.h).
const (
	kindSample = 1
	kindStack  = 2
	kindWait   = 3
	kindAsleep = 4
	kindExit   = 5
)

// beganBefore is the detail of a wait that has begun before the recording.
const beganBefore = 1

// Limits of a record, as the programs have them.
const (
	callsMax = 96
	stackMax = 28672
)

var errRecord = errors.New("a record of an unknown form")

// stackRecord is a kernelStack whose memory is in the record that it was read from.
type stackRecord struct {
	kernelEvent
	key       uint64
	registers [17]uint64
	calls     []kernelCall // the innermost first
	base      uint64       // address of memory
	memory    []byte
}

// stackHeadBytes is what every stack has before its memory.
const stackHeadBytes = int(unsafe.Offsetof(kernelStack{}.Memory))

// plain are the records that are read as they are.
type plain interface {
	kernelEvent | kernelWait | kernelWall | kernelTotal
}

// read copies a record; it fails if there are fewer bytes.
func read[T plain](b []byte) (v T, err error) {
	if len(b) < int(unsafe.Sizeof(v)) {
		return v, errRecord
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)), b)
	return v, nil
}

// readStack reads a stack into s, whose calls it uses again. The memory remains in b.
func readStack(b []byte, s *stackRecord) error {
	if len(b) < stackHeadBytes {
		return errRecord
	}
	event, err := read[kernelEvent](b)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	s.kernelEvent = event
	s.key = le.Uint64(b[unsafe.Offsetof(kernelStack{}.Key):])
	calls, bytes := le.Uint32(b[unsafe.Offsetof(kernelStack{}.Calls):]), le.Uint32(b[unsafe.Offsetof(kernelStack{}.Bytes):])
	if calls > callsMax || bytes > stackMax || int(bytes) > len(b)-stackHeadBytes {
		return errRecord
	}
	for i := range s.registers {
		s.registers[i] = le.Uint64(b[int(unsafe.Offsetof(kernelStack{}.Registers))+8*i:])
	}
	s.base = s.registers[stackPointer] + uint64(le.Uint32(b[unsafe.Offsetof(kernelStack{}.Skipped):]))
	s.calls = s.calls[:0]
	for i := range int(calls) {
		at := b[int(unsafe.Offsetof(kernelStack{}.Call))+int(unsafe.Sizeof(kernelCall{}))*i:]
		s.calls = append(s.calls, kernelCall{Code: le.Uint64(at), Instr: le.Uint64(at[8:])})
	}
	s.memory = b[stackHeadBytes : stackHeadBytes+int(bytes)]
	return nil
}
