package harness

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// HIPCalls is the workload hipcalls, which logs the API calls that it makes.
func HIPCalls(args ...string) Workload {
	return Workload{Program: "hipcalls", Args: args, LogsCalls: true}
}

// RCCLCalls is the workload rcclcalls, which logs the calls of RCCL's functions that it makes.
func RCCLCalls(args ...string) Workload {
	return Workload{Program: "rcclcalls", Args: args, LogsCalls: true}
}

// apiArguments is how many arguments an entry of the log has room for.
const apiArguments = 11

// APICall is the program's log entry of one call (struct CallEntry of call_log.h).
type APICall struct {
	TID                int64
	Sequence           uint32
	Function           string
	ByPointer          bool  // of dlsym
	InHandler          bool  // of a signal
	InPlugin           bool  // by a library that was loaded a moment ago: not recorded at once
	BeforeNS, AfterNS  int64 // AfterNS 0: it has not returned
	Result             uint64
	ResultBytes, Count int
	Arguments          [apiArguments]uint64
	Bytes              [apiArguments]uint8
	ContentOf          int // the argument that pointed to Content; -1: none
	Content            uint64
}

func (c *APICall) String() string {
	return fmt.Sprintf("thread %d: %s(%#x) = %d at %d to %d", c.TID, c.Function, c.Arguments[:c.Count], int32(c.Result), c.BeforeNS, c.AfterNS)
}

// APICalls reads the log of an ended program: all calls, by thread and in order.
func (p *Process) APICalls(t testing.TB) map[int64][]*APICall {
	t.Helper()
	f, err := os.Open(p.calls)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	calls, err := readAPICalls(f)
	if err != nil {
		t.Fatalf("%s: %v", p.calls, err)
	}
	return calls
}

func readAPICalls(f *os.File) (map[int64][]*APICall, error) {
	const entryBytes, headerBytes, nameBytes, names = 152, 16384, 64, 64
	header := make([]byte, headerBytes)
	if _, err := f.ReadAt(header, 0); err != nil {
		return nil, err
	}
	if string(header[:8]) != "RTLCALLS" || binary.LittleEndian.Uint32(header[8:]) != entryBytes {
		return nil, errors.New("not such a log")
	}
	known := make([]string, binary.LittleEndian.Uint32(header[12:]))
	for i := range known {
		known[i] = strings.TrimRight(string(header[names+i*nameBytes:][:nameBytes]), "\x00")
	}
	all := make([]byte, binary.LittleEndian.Uint64(header[16:])*entryBytes)
	if _, err := f.ReadAt(all, headerBytes); err != nil {
		return nil, err
	}
	calls := map[int64][]*APICall{}
	for ; len(all) > 0; all = all[entryBytes:] {
		if c := decodeAPICall(all[:entryBytes], known); c.TID != 0 {
			calls[c.TID] = append(calls[c.TID], c)
		}
	}
	for _, of := range calls {
		slices.SortStableFunc(of, func(a, b *APICall) int {
			return cmp.Or(cmp.Compare(a.BeforeNS, b.BeforeNS), cmp.Compare(a.Sequence, b.Sequence))
		})
	}
	return calls, nil
}

func decodeAPICall(b []byte, names []string) *APICall {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	flags, bytes := b[130], b[135:]
	c := &APICall{
		TID: int64(binary.LittleEndian.Uint32(b[120:])), Sequence: binary.LittleEndian.Uint32(b[124:]),
		Function: names[binary.LittleEndian.Uint16(b[128:])], ByPointer: flags&1 != 0, InHandler: flags&2 != 0, InPlugin: flags&4 != 0,
		BeforeNS: int64(word(0)), AfterNS: int64(word(1)), Result: word(2), ResultBytes: int(b[131]), Count: int(b[132]),
		ContentOf: int(b[133]) - 1, Content: word(14),
	}
	for i := range c.Count {
		c.Arguments[i], c.Bytes[i] = word(3+i), bytes[i]
	}
	return c
}
