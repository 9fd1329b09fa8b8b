package harness

import (
	"cmp"
	"database/sql"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/markers"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Roctx64 returns the libroctx64 of the release that the workloads run in, or the one that `make roctx` gets: Debian 12 has
// none. Without it the test is left out.
func Roctx64(t testing.TB) string {
	t.Helper()
	r, file := given(t), filepath.Join("roctx", "libroctx64.so.4")
	if r != nil && r.Version(t, "libroctx64-4") != "" {
		return filepath.Base(file)
	}
	if _, err := os.Stat(filepath.Join(testenv.BuildDir(), file)); err != nil {
		testenv.Skip(t, "no libroctx64 (run: make roctx), or the mirror does not have it")
	}
	if r != nil {
		return filepath.Join(inRootBuild, file)
	}
	return filepath.Join(testenv.BuildDir(), file)
}

// Marking is the program markers, with a library of ROCTx. Its pace is one at which nothing is lost
// while the payload's worker waits for a processor.
func Marking(library string, args ...string) Workload {
	return Workload{Program: "markers", Args: append([]string{"--pace", "2000"}, args...), Sim: []string{"RTL_ROCTX=" + library}, LogsCalls: true}
}

// The operations, as ROCTx numbers them.
const (
	MarkerMark = iota
	MarkerPush
	MarkerPop
	MarkerStart
	MarkerStop
)

// MarkerCall is a call in the program's log, or one that a trace tells of.
type MarkerCall struct {
	Operation         int
	Range             int64  // of start and stop
	Text              string // as a trace has it
	BeforeNS, AfterNS int64

	row          int64         // of the trace
	level        sql.NullInt64 // the same
	isIncomplete bool          // its range has no other end there
}

// MarkerCalls reads the log of an ended program: its calls, by thread and in order. seen is how
// many of all calls its own tool saw.
func (p *Process) MarkerCalls(t testing.TB) (calls map[int64][]MarkerCall, made, seen int) {
	t.Helper()
	b, err := os.ReadFile(p.calls)
	if err != nil {
		t.Fatal(err)
	}
	calls = map[int64][]MarkerCall{}
	for line := range strings.Lines(string(b)) {
		if after, ok := strings.CutPrefix(line, "tool "); ok {
			if err := scanLine(after, &made, &seen); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			continue
		}
		var c MarkerCall
		var tid int64
		var length int
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 7)
		if err := scanLine(line, &tid, &c.Operation, &c.Range, &length, &c.BeforeNS, &c.AfterNS); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if c.Text = f[6]; length > len(c.Text) {
			c.Text += "…"
		}
		calls[tid] = append(calls[tid], c)
	}
	return calls, made, seen
}

// ReadMarkers reads the calls that a trace tells of, by thread and in the order of their times.
func ReadMarkers(t testing.TB, path string) map[int64][]MarkerCall {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	calls := map[int64][]MarkerCall{}
	err = each(db, `SELECT m.id, m.form, coalesce(b.tid, 0), coalesce(e.tid, 0), m.level, coalesce(n.string, ''), coalesce(m.number, 0),
			m.start_ns, m.end_ns, m.missing <> 0
		FROM rtl_marker m LEFT JOIN rocpd_string n ON n.id = m.name_id LEFT JOIN rtl_thread b ON b.id = m.thread_id
		LEFT JOIN rtl_thread e ON e.id = m.end_thread_id`, func(r *sql.Rows) error {
		var c MarkerCall
		var form, begun, ended int64
		var startNS, endNS sql.NullInt64
		err := r.Scan(&c.row, &form, &begun, &ended, &c.level, &c.Text, &c.Range, &startNS, &endNS, &c.isIncomplete)
		if startNS.Valid {
			first := c
			first.Operation = []int{MarkerMark, MarkerPush, MarkerStart}[form]
			first.BeforeNS, first.AfterNS = startNS.Int64, startNS.Int64
			calls[begun] = append(calls[begun], first)
		}
		if endNS.Valid && form != 0 {
			last := c
			last.Operation, last.Text = []int{0, MarkerPop, MarkerStop}[form], ""
			last.BeforeNS, last.AfterNS = endNS.Int64, endNS.Int64
			calls[ended] = append(calls[ended], last)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range calls {
		slices.SortFunc(of, func(a, b MarkerCall) int { return cmp.Compare(a.BeforeNS, b.BeforeNS) })
	}
	return calls
}

// MarkerComparison compares traces with the program's log: each call of the time of a session is
// recorded exactly once, in order, with its text, or counted as lost; and ranges have the ends and levels that the
// order of calls gives them.
type MarkerComparison struct {
	faults
	calls    map[int64][]MarkerCall
	Plain    bool  // what is recorded are calls, without ranges
	All      bool  // each session began before the program's first call: it has the first ones, too
	Lost     int64 // calls that the sessions' reports count as lost; set before Add
	Recorded int
	Missing  int // of those that had to be recorded
	Nested   int // calls within two ranges or more
	Across   int // ranges that another thread ended
}

// NewMarkerComparison returns a comparison with a program's log.
func NewMarkerComparison(t Reporter, calls map[int64][]MarkerCall) *MarkerComparison {
	return &MarkerComparison{faults: faults{t: t, n: map[string]int{}}, calls: calls}
}

// Add compares what one session recorded.
func (c *MarkerComparison) Add(recorded map[int64][]MarkerCall) {
	c.t.Helper()
	from, until := int64(0), int64(0)
	for _, calls := range recorded {
		if first := calls[0].BeforeNS; from == 0 || first < from {
			from = first
		}
		last := calls[max(0, len(calls)-2)] // a thread's very last one may have been delayed
		until = max(until, last.BeforeNS)
	}
	if c.All {
		from = 0
	}
	starters := map[int64]int64{}
	for tid, calls := range recorded {
		if c.calls[tid] == nil {
			c.wrong("thread", "%d has made no calls, but %d are recorded for it", tid, len(calls))
		}
		for _, one := range calls {
			if one.Operation == MarkerStart {
				starters[one.Range] = tid
			}
		}
	}
	for tid, made := range c.calls {
		c.thread(made, recorded[tid], from+stampToleranceNS, until-stampToleranceNS)
		if !c.Plain && c.Lost == 0 { // a lost call leaves a range with one end
			c.nesting(recorded[tid])
		}
		for _, one := range recorded[tid] {
			if by, known := starters[one.Range]; one.Operation == MarkerStop && known && by != tid {
				c.Across++
			}
		}
	}
}

// thread finds each recorded call of one thread in its log, and counts those between the two times that have no record.
func (c *MarkerComparison) thread(made, recorded []MarkerCall, fromNS, untilNS int64) {
	leave := func(calls []MarkerCall) {
		for i := range calls {
			if calls[i].BeforeNS > fromNS && calls[i].AfterNS < untilNS {
				if c.Missing++; int64(c.Missing) > c.Lost {
					c.wrong("missing", "%+v", calls[i])
				}
			}
		}
	}
	for i := range recorded {
		at := slices.IndexFunc(made, func(m MarkerCall) bool {
			return m.is(&recorded[i]) || m.BeforeNS > recorded[i].BeforeNS+stampToleranceNS
		})
		if at < 0 || !made[at].is(&recorded[i]) {
			c.wrong("call", "%+v is recorded, and was not made", recorded[i])
			continue
		}
		leave(made[:at])
		made = made[at+1:]
		c.Recorded++
	}
	leave(made)
}

func (m *MarkerCall) is(recorded *MarkerCall) bool {
	return m.Operation == recorded.Operation && m.Text == recorded.Text && m.Range == recorded.Range &&
		recorded.BeforeNS >= m.BeforeNS-stampToleranceNS && recorded.AfterNS <= m.AfterNS+stampToleranceNS
}

// nesting checks the ranges of a thread against a stack.
func (c *MarkerComparison) nesting(recorded []MarkerCall) {
	var stack []MarkerCall
	for _, one := range recorded {
		depth := int64(len(stack))
		if depth >= 2 {
			c.Nested++
		}
		switch one.Operation {
		case MarkerMark, MarkerPush:
			if one.level.Int64 != depth || !one.level.Valid {
				c.wrong("level", "%+v lies in %d ranges", one, depth)
			}
			if one.Operation == MarkerPush {
				stack = append(stack, one)
			}
		case MarkerPop:
			if len(stack) == 0 {
				if !one.isIncomplete {
					c.wrong("end", "%+v ends no range", one)
				}
				continue
			}
			if last := stack[len(stack)-1]; last.row != one.row {
				c.wrong("end", "%+v ends %+v", one, last)
			}
			stack = stack[:len(stack)-1]
		}
	}
	for _, open := range stack {
		if !open.isIncomplete {
			c.wrong("end", "%+v has an end that no call gave it", open)
		}
	}
}

// Finish reports what was found.
func (c *MarkerComparison) Finish() {
	c.t.Helper()
	c.count()
	c.t.Logf("%d calls recorded, %d lost, %d within ranges of ranges, %d ranges ended by another thread", c.Recorded, c.Missing, c.Nested, c.Across)
}

// RoctxSlot returns the word of libroctx64's data that holds a tool's callback:
// roctxRegisterTracerCallback is mov %rdi,S(%rip); ret.
func (p *Process) RoctxSlot(t testing.TB) uint64 {
	t.Helper()
	f, at := p.symbol(t, "libroctx64.so", "roctxRegisterTracerCallback")
	code := make([]byte, 16)
	p.readMemory(t, at, code)
	if [4]byte(code) == [4]byte{0xf3, 0x0f, 0x1e, 0xfa} { // endbr64
		at, code = at+4, code[4:]
	}
	if [3]byte(code) != [3]byte{0x48, 0x89, 0x3d} {
		t.Fatalf("%s: no store at roctxRegisterTracerCallback", f)
	}
	return p.word(t, at+7+uint64(int64(int32(binary.LittleEndian.Uint32(code[3:])))))
}

// RoctxTable returns the table of the test double of the SDK's library.
func (p *Process) RoctxTable(t testing.TB) []byte {
	t.Helper()
	_, at := p.symbol(t, "librocprofiler-sdk-roctx.so", "_ZZN12_GLOBAL__N_14makeEvE4core")
	table := make([]byte, 6*8)
	p.readMemory(t, at, table)
	return table
}

// symbol returns the address of a symbol of a library that p has loaded.
func (p *Process) symbol(t testing.TB, library, name string) (path string, at uint64) {
	t.Helper()
	path = p.Library(t, library)
	f, err := elf.Open(p.proc("root") + path) // its own file of that name
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, _ := f.DynamicSymbols()
	static, _ := f.Symbols()
	for _, s := range append(symbols, static...) {
		if s.Name == name {
			return path, p.base(t, path) + s.Value
		}
	}
	t.Fatalf("no %s in %s", name, path)
	return "", 0
}

// base returns where a library is mapped.
func (p *Process) base(t testing.TB, path string) uint64 {
	t.Helper()
	for _, line := range p.lines(t, "maps") {
		if strings.HasSuffix(line, path) {
			from, _, _ := strings.Cut(line, "-")
			at, err := strconv.ParseUint(from, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
	}
	t.Fatalf("%s is not mapped", path)
	return 0
}

func (p *Process) word(t testing.TB, at uint64) uint64 {
	t.Helper()
	b := make([]byte, 8)
	p.readMemory(t, at, b)
	return binary.LittleEndian.Uint64(b)
}

func (p *Process) readMemory(t testing.TB, at uint64, into []byte) {
	t.Helper()
	f, err := os.Open(p.proc("mem"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAt(into, int64(at)); err != nil {
		t.Fatal(err)
	}
}

// SaysOfMarkers returns a summary's section on markers; nil: none.
func SaysOfMarkers(t testing.TB, s report.Summary) *markers.Report {
	t.Helper()
	said := s.Kinds[markers.Kind.ID.String()]
	if said == nil {
		return nil
	}
	text, err := json.Marshal(said)
	all := &markers.Report{}
	if err := errors.Join(err, json.Unmarshal(text, all)); err != nil {
		t.Fatal(err)
	}
	return all
}
