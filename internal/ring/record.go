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
func (r *Record) Unavailable() *Unavailable { return (*Unavailable)(unsafe.Pointer(&r.line)) }
func (r *Record) End() *EndRecord           { return (*EndRecord)(unsafe.Pointer(&r.line)) }
func (r *Record) Period() *Period           { return (*Period)(unsafe.Pointer(&r.line)) }
func (r *Record) Counters() *CountersRecord { return (*CountersRecord)(unsafe.Pointer(&r.line)) }

// As returns a record as the layout T of a kind's own record type, of up to RecordLines lines. The
// caller must check that the record has as many lines as the layout.
func As[T any](r *Record) *T { return (*T)(unsafe.Pointer(&r.line)) }

// AppendTo appends the record to b in the form that Load reads: its lines; or, of a string record,
// its first line and then the whole text.
func (r *Record) AppendTo(b []byte) []byte {
	for i := range r.keptLines() {
		b = append(b, r.bytes(i)...)
	}
	return append(b, r.Text...)
}

// keptLines returns how many lines of the record are in line.
func (r *Record) keptLines() int {
	if r.Type() < KindTypes {
		return 1
	}
	return min(max(int(r.Lines()), 1), RecordLines)
}

// Load reads the record at the begin of b, which AppendTo has written, and returns what is behind it.
// The text of a string record refers to b.
func (r *Record) Load(b []byte) (rest []byte) {
	copy(r.bytes(0), b[:LineBytes])
	for i := 1; i < r.keptLines(); i++ {
		copy(r.bytes(i), b[i*LineBytes:])
	}
	b = b[r.keptLines()*LineBytes:]
	r.Text = nil
	if r.Type() == TypeString {
		n := r.StringLine().LenBytes
		r.Text, b = b[:n:n], b[n:]
	}
	return b
}

// bytes returns line i of the record.
func (r *Record) bytes(i int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&r.line[i*LineBytes/8])), LineBytes)
}
