package markers

import "unsafe"

// Form is what a Marker is.
type Form int64

const (
	Mark         Form = iota // a moment
	Range                    // of a thread, which pushes and pops it
	ProcessRange             // which any thread may start and stop
	forms
)

// Missing is why a Marker lacks its start or its end.
type Missing int64

const (
	MissingNothing Missing = iota
	MissingStart           // the range began before the session
	MissingEnd             // it was open when the session ended
	MissingRecords         // records may be missing between its start and its end
	MissingRoom            // more ranges were open at once than the tool follows
	MissingThread          // of no known thread
	missings
)

// Marker is a mark, or a range.
type Marker struct {
	Form           Form
	TID, EndTID    uint32 // of the calls that began it and ended it; 0: not known
	Level          int64  // in how many of its thread's ranges it lies; NoLevel: not known
	Text           string
	HasText        bool   // false: the call with the text is not recorded
	Number         uint64 // of a process range
	StartNS, EndNS uint64 // 0: not known
	Missing        Missing
}

// NoLevel is the level of a process range, and of one whose start is not recorded.
const NoLevel = -1

// Libraries is how the markers of each library come.
type Libraries struct{ ROCTx64, SDK Way }

// recorded is a record of up to ring.RecordLines lines.
type recorded struct {
	Call
	more [4 * 64]byte
}

// text returns the stored part of a message, which the fixed part of the record tells the length of.
func (r *recorded) text() string {
	const at = unsafe.Offsetof(r.Text)
	all := (*[unsafe.Sizeof(*r)]byte)(unsafe.Pointer(r))
	return string(all[at : at+uintptr(r.TextBytes)])
}
