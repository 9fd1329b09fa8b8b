package export

import (
	"cmp"
	"fmt"
	"math"
	"path"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
)

// Field numbers of samples of stacks.
const (
	packetPerfSample = 66 // of TracePacket

	internedFunctions    = 5 // of InternedData
	internedFrames       = 6
	internedCallstacks   = 7
	internedMappingPaths = 17
	internedMappings     = 19

	frameFunction = 2 // of Frame
	frameMapping  = 3
	framePC       = 4

	callstackFrames = 2 // of Callstack

	mappingStart = 4 // of Mapping
	mappingEnd   = 5
	mappingPath  = 7

	samplePID       = 2 // of PerfSample
	sampleTID       = 3
	sampleCallstack = 4
	sampleMode      = 5

	modeKernel, modeUser = 1, 2 // of Profiling.CpuMode

	sampleSequence = 2
)

// states shows for each thread when it ran, was ready and was blocked.
func (p *perfetto) states() error {
	return p.threadStates(func(s *threadState) error {
		p.packets.names.makeRoom()
		track, err := p.tracks.ofState(s.thread)
		if err != nil {
			return err
		}
		names := &p.packets.names
		event := p.newEvent(typeBegin, track).number(eventNameID, names.fixedName(internedEventNames, s.name)).text(eventCategory, "thread state")
		if s.waker != "" {
			event = names.annotateText(event, "woken by", s.waker)
		}
		p.packets.event = event
		if err := p.packets.write(s.BeginNS, packetTrackEvent, event); err != nil {
			return err
		}
		return p.packets.write(s.EndNS, packetTrackEvent, p.newEvent(typeEnd, track))
	})
}

func (t *tracks) ofState(th *thread) (uint64, error) {
	return t.child(trackKey{"state", part{th.session.Process, th.tid}, 0}, func() (uint64, error) { return t.ofProcess(th.session) },
		th.stateTitle(), "as the kernel scheduled the thread; blocked: until woken, then ready until it ran", 2)
}

// samples writes the samples of threads that ran, on a sequence of their own.
func (p *perfetto) samples() error {
	windows, err := whyidle.Windows(p.ctx, p.trace.Trace)
	if err != nil || len(windows) == 0 {
		return err
	}
	stacks, err := whyidle.OpenStacks(p.trace.Trace)
	if err != nil {
		return err
	}
	defer stacks.Close()
	s := &sampleWriter{packets: packetWriter{w: p.packets.w, sequence: sampleSequence}, stacks: stacks}
	s.reset()
	return whyidle.EachSample(p.ctx, p.trace.Trace, func(one *whyidle.Sample) error {
		th := p.trace.threads[one.Thread]
		if th == nil || !p.trace.isExported(th.session) || !p.trace.inWindow(one.TimeNS) || one.State == cputrace.DidNotRun ||
			!p.tracks.ownsPID(th.session) || th.tid <= 0 || th.tid > math.MaxInt32 {
			return nil
		}
		return s.write(one, th)
	})
}

// sampleWriter writes samples with their stacks.
type sampleWriter struct {
	packets   packetWriter
	stacks    *whyidle.Stacks
	callstack map[int64]uint64 // by stack
	frames    map[perfettoFrame]uint64
	mappings  map[string]uint64
}

// perfettoFrame is a frame as readers distinguish it: by function, mapping and address.
type perfettoFrame struct {
	name, file string // the name is as Frame.Text returns it
	line       int64
	object     string // the ELF file, or the source file of what is in none
}

func (s *sampleWriter) reset() {
	s.packets.names.reset()
	s.callstack, s.frames, s.mappings = map[int64]uint64{}, map[perfettoFrame]uint64{}, map[string]uint64{}
}

func (s *sampleWriter) write(one *whyidle.Sample, th *thread) error {
	if s.packets.names.isFull() {
		s.reset()
	}
	m := message(nil).number(samplePID, uint64(th.session.Process.ID.PID)).number(sampleTID, uint64(th.tid))
	mode := uint64(modeUser)
	if one.State == cputrace.RanKernel {
		mode = modeKernel
	}
	callstack, err := s.callstackOf(one.Stack)
	if err != nil {
		return err
	}
	return s.packets.write(one.TimeNS, packetPerfSample, m.number(sampleCallstack, callstack).number(sampleMode, mode))
}

// callstackOf interns a stack. One that is not known has a frame that says so: readers drop samples without one.
func (s *sampleWriter) callstackOf(stack int64) (uint64, error) {
	if id, known := s.callstack[stack]; known {
		return id, nil
	}
	frames, cut, err := s.stacks.Of(stack)
	if err != nil {
		return 0, err
	}
	var ids message
	if cut || len(frames) == 0 {
		ids = ids.number(callstackFrames, s.frame(perfettoFrame{name: "[not known]"}))
	}
	for i := len(frames) - 1; i >= 0; i-- {
		f := frames[i]
		ids = ids.number(callstackFrames, s.frame(perfettoFrame{f.Text(), f.File, f.Line, cmp.Or(f.ELF(), f.File)}))
	}
	id := s.intern(internedCallstacks, ids)
	s.callstack[stack] = id
	return id, nil
}

// frame interns a frame. Older readers want a mapping and an address of each frame, and show no lines: the
// address is the line, and the name has it.
func (s *sampleWriter) frame(f perfettoFrame) uint64 {
	if id, known := s.frames[f]; known {
		return id
	}
	name := sanitize.Text(f.name)
	if f.line > 0 {
		name = fmt.Sprintf("%s (%s:%d)", name, sanitize.Text(path.Base(f.file)), f.line)
	}
	function := s.packets.names.add(internedFunctions, name)
	id := s.intern(internedFrames, message(nil).number(frameFunction, function).number(frameMapping, s.mapping(f.object)).number(framePC, uint64(f.line)))
	s.frames[f] = id
	return id
}

func (s *sampleWriter) mapping(file string) uint64 {
	if id, known := s.mappings[file]; known {
		return id
	}
	text := s.packets.names.add(internedMappingPaths, sanitize.Text(file))
	id := s.intern(internedMappings, message(nil).number(mappingStart, 0).number(mappingEnd, traceread.LatestNS).number(mappingPath, text))
	s.mappings[file] = id
	return id
}

// intern adds a message with a number to the interned data.
func (s *sampleWriter) intern(field protowire.Number, m message) uint64 {
	in := &s.packets.names
	id := in.next
	in.next++
	in.bytes += len(m)
	in.pending = in.pending.message(field, append(message(nil).number(internedID, id), m...))
	return id
}
