package python

import (
	"encoding/binary"
	"fmt"
)

// offsets are places in CPython's structures, in bytes.
type offsets struct {
	interpHead                     uint32 // in _PyRuntime
	interpNext, threadsHead        uint32 // in PyInterpreterState
	gil                            uint32 // of the GIL in _PyRuntime, or of the pointer to it in PyInterpreterState
	gilIn                          gilPlace
	tsNext, tsInterp, tsID, tsTID  uint32 // in PyThreadState; tsID: pthread_self(), tsTID: gettid()
	tsCframe, tsFrame              uint32 // tsCframe 0: the thread state has tsFrame itself
	fCode, fPrev, fInstr           uint32 // in _PyInterpreterFrame
	fMark, markIs                  uint32 // a byte there that marks the end of one call of the evaluation function
	coFile, coName, coLines, coLen uint32 // in PyCodeObject; coLen: the number of its instructions
	coFirst, coCode                uint32
	strLen, strState               uint32 // in PyASCIIObject
	strASCII, strCompact           uint32 // where the characters begin
	bytesLen, bytesData            uint32 // in PyBytesObject
}

// gilPlace says where a version has the GIL.
type gilPlace byte

const (
	gilInRuntime gilPlace = iota // one for all interpreters
	gilPointer                   // a pointer in each interpreter
)

// markedShim is the mark of versions in which a frame without a function, FRAME_OWNED_BY_CSTACK or
// FRAME_OWNED_BY_INTERPRETER, ends a call of the evaluation function. In 3.11 it is the call's first frame itself.
const markedShim = 3

// common has the places that are the same in all versions.
var common = offsets{
	interpHead: 40, tsNext: 8, tsInterp: 16, coFile: 112, coName: 128, coLines: 136, coLen: 16,
	strLen: 16, strState: 32, strASCII: 40, strCompact: 56, bytesLen: 16, bytesData: 32,
}

// of311 and of312 return the places of versions that do not tell them.
func of311() offsets {
	o := common
	o.threadsHead, o.gil, o.gilIn = 16, 360, gilInRuntime
	o.tsID, o.tsTID, o.tsCframe, o.tsFrame = 152, 160, 56, 8
	o.fCode, o.fPrev, o.fInstr, o.fMark, o.markIs = 32, 48, 56, 68, 1
	o.coFirst, o.coCode = 72, 184
	o.strASCII, o.strCompact = 48, 72
	return o
}

func of312() offsets {
	o := common
	o.threadsHead, o.gil, o.gilIn = 72, 384, gilPointer
	o.tsID, o.tsTID, o.tsCframe, o.tsFrame = 136, 144, 56, 0
	o.fCode, o.fPrev, o.fInstr, o.fMark, o.markIs = 0, 8, 56, 70, markedShim
	o.coFirst, o.coCode = 68, 192
	return o
}

// offsetsBytes are the bytes of _Py_DebugOffsets that are read, in which CPython 3.13 and later tell the places.
// They are at the beginning of _PyRuntime.
const (
	offsetsBytes  = 8 * 50
	offsetsCookie = "xdebugpy"
)

// debugWords are the numbers of the words in _Py_DebugOffsets.
type debugWords struct {
	interpHead, interpNext, threadsHead, gil int
	tsNext, tsInterp, tsFrame, tsID, tsTID   int
	fPrev, fCode, fInstr, fMark              int
	coFile, coName, coLines, coFirst, coCode int
}

var words = map[uint64]debugWords{
	0x030d: {
		interpHead: 5, interpNext: 8, threadsHead: 9, gil: 14,
		tsNext: 21, tsInterp: 22, tsFrame: 23, tsID: 24, tsTID: 25,
		fPrev: 29, fCode: 30, fInstr: 31, fMark: 33,
		coFile: 35, coName: 37, coLines: 38, coFirst: 39, coCode: 43,
	},
	0x030e: {
		interpHead: 5, interpNext: 8, threadsHead: 9, gil: 15,
		tsNext: 24, tsInterp: 25, tsFrame: 26, tsID: 27, tsTID: 28,
		fPrev: 32, fCode: 33, fInstr: 34, fMark: 36,
		coFile: 40, coName: 42, coLines: 43, coFirst: 44, coCode: 48,
	},
}

// finalRelease is the level of a release candidate in PY_VERSION_HEX; the structures of alphas and betas change.
const finalRelease = 0xc

// offsetsOf returns the places of a version by PY_VERSION_HEX (0: it does not tell) and the beginning of _PyRuntime.
func offsetsOf(hex uint64, head []byte) (offsets, error) {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(head[8*i:]) }
	cookie := string(head[:len(offsetsCookie)]) == offsetsCookie
	if cookie && word(1) != hex {
		return offsets{}, fmt.Errorf("%w: it says that it is %s and %s", ErrVersion, versionText(hex), versionText(word(1)))
	}
	w, tells := words[hex>>16]
	switch {
	case hex == 0:
		return offsets{}, fmt.Errorf("%w: it is older than 3.11", ErrVersion)
	case hex>>4&0xf < finalRelease:
		return offsets{}, fmt.Errorf("%w: %s is no release", ErrVersion, versionText(hex))
	case hex>>16 == 0x030b && !cookie:
		return of311(), nil
	case hex>>16 == 0x030c && !cookie:
		return of312(), nil
	case !tells || !cookie:
		return offsets{}, fmt.Errorf("%w: %s (known are 3.11 to 3.14)", ErrVersion, versionText(hex))
	case word(2) != 0:
		return offsets{}, fmt.Errorf("%w: %s without the GIL (free-threaded)", ErrVersion, versionText(hex))
	}
	return w.read(hex, word)
}

// Limits of the places that a process tells.
const (
	statePlaceMax = 1 << 20 // in _PyRuntime and PyInterpreterState
	placeMax      = 1 << 10 // in the smaller structures
	framePlaceMax = 120     // in a frame
)

func (w debugWords) read(hex uint64, word func(int) uint64) (offsets, error) {
	var bad error
	place := func(i int, most uint64) uint32 {
		if word(i) > most {
			bad = fmt.Errorf("%w: impossible place %d in _Py_DebugOffsets of %s", ErrVersion, word(i), versionText(hex))
		}
		return uint32(word(i))
	}
	o := common
	o.gilIn, o.markIs = gilPointer, markedShim
	for i, to := range map[int]*uint32{w.interpHead: &o.interpHead, w.interpNext: &o.interpNext, w.threadsHead: &o.threadsHead, w.gil: &o.gil} {
		*to = place(i, statePlaceMax)
	}
	for i, to := range map[int]*uint32{
		w.tsNext: &o.tsNext, w.tsInterp: &o.tsInterp, w.tsFrame: &o.tsFrame, w.tsID: &o.tsID, w.tsTID: &o.tsTID,
		w.coFile: &o.coFile, w.coName: &o.coName, w.coLines: &o.coLines, w.coFirst: &o.coFirst, w.coCode: &o.coCode,
	} {
		*to = place(i, placeMax)
	}
	for i, to := range map[int]*uint32{w.fPrev: &o.fPrev, w.fCode: &o.fCode, w.fInstr: &o.fInstr, w.fMark: &o.fMark} {
		*to = place(i, framePlaceMax)
	}
	return o, bad
}
