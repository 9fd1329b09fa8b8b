package ring

import "unsafe"

// RecordLines is how many lines of a kind's record a Record has.
const RecordLines = 5

// Record is one record of the ring: its first lines, copied out of shared memory. It belongs to
// the Reader and is valid only during the call that receives it.
type Record struct {
	line [RecordLines * LineBytes / 8]uint64 // uint64 for the alignment of the structs

	// Text returns the text of a string record.
	Text []byte
}

// The layouts of abi.h over the copied line; Type says which one applies. An unknown type is not
// an error: a newer payload may have written it.

func (r *Record) header() *Header           { return (*Header)(unsafe.Pointer(&r.line)) }
func (r *Record) Type() Type                { return Type(r.header().Type) }
func (r *Record) Lines() uint16             { return r.header().Lines }
func (r *Record) Seq() uint32               { return r.header().Seq }
func (r *Record) Dispatch() *Dispatch       { return (*Dispatch)(unsafe.Pointer(&r.line)) }
func (r *Record) Untimed() *Untimed         { return (*Untimed)(unsafe.Pointer(&r.line)) }
func (r *Record) Window() *Window           { return (*Window)(unsafe.Pointer(&r.line)) }
func (r *Record) Lost() *LostRecord         { return (*LostRecord)(unsafe.Pointer(&r.line)) }
func (r *Record) StringLine() *StringLine   { return (*StringLine)(unsafe.Pointer(&r.line)) }
func (r *Record) Launch() *Launch           { return (*Launch)(unsafe.Pointer(&r.line)) }
func (r *Record) Queue() *Queue             { return (*Queue)(unsafe.Pointer(&r.line)) }
func (r *Record) Agent() *Agent             { return (*Agent)(unsafe.Pointer(&r.line)) }
func (r *Record) CodeObject() *CodeObject   { return (*CodeObject)(unsafe.Pointer(&r.line)) }
func (r *Record) KindAccount() *KindAccount { return (*KindAccount)(unsafe.Pointer(&r.line)) }
func (r *Record) End() *EndRecord           { return (*EndRecord)(unsafe.Pointer(&r.line)) }
func (r *Record) Period() *Period           { return (*Period)(unsafe.Pointer(&r.line)) }
func (r *Record) Counters() *CountersRecord { return (*CountersRecord)(unsafe.Pointer(&r.line)) }

// As returns a record as the layout T of a kind's own record type, of up to RecordLines lines. The
// caller must check that the record has as many lines as the layout.
func As[T any](r *Record) *T { return (*T)(unsafe.Pointer(&r.line)) }

// bytes returns line i of the record.
func (r *Record) bytes(i int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&r.line[i*LineBytes/8])), LineBytes)
}
