package export

import (
	"bufio"
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of Perfetto's protos (perfetto/protos/perfetto/trace), as far as
// they are written here.
const (
	tracePacket = 1 // of Trace

	packetClockSnapshot = 6 // of TracePacket
	packetTimestamp     = 8
	packetSequence      = 10
	packetTrackEvent    = 11
	packetInterned      = 12
	packetFlags         = 13
	packetTrack         = 60

	flagCleared, flagNeeds = 1, 2 // of TracePacket.sequence_flags

	internedEventNames      = 2 // of InternedData
	internedAnnotationNames = 3
	internedStrings         = 29

	internedID, internedName = 1, 2 // of EventName, DebugAnnotationName, InternedString

	trackUUID        = 1 // of TrackDescriptor
	trackName        = 2
	trackProcess     = 3
	trackThread      = 4
	trackParent      = 5
	trackCounter     = 8
	trackOrdering    = 11
	trackRank        = 12
	trackDescription = 14
	trackMerge       = 15

	orderExplicit = 3
	mergeNever    = 2

	processPID  = 1 // of ProcessDescriptor
	processName = 6

	threadPID  = 1 // of ThreadDescriptor
	threadTID  = 2
	threadName = 5

	counterUnit = 3 // of CounterDescriptor
	unitCount   = 2
	unitBytes   = 3

	eventAnnotation = 4 // of TrackEvent
	eventType       = 9
	eventNameID     = 10
	eventTrack      = 11
	eventCategory   = 22
	eventCounter    = 30
	eventFlow       = 47
	eventFlowEnd    = 48

	typeBegin, typeEnd, typeInstant, typeCounter = 1, 2, 3, 4

	annotationNameID   = 1 // of DebugAnnotation
	annotationInt      = 4
	annotationString   = 6
	annotationStringID = 17

	snapshotClock        = 1 // of ClockSnapshot
	snapshotPrimary      = 2
	clockID, clockTime   = 1, 2 // of ClockSnapshot.Clock
	realtime, monotonic  = 1, 3 // of BuiltinClock
	boottime, sequenceID = 6, 1
)

// message is a partly written protobuf message.
type message []byte

func (m message) number(field protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

func (m message) signed(field protowire.Number, v int64) message { return m.number(field, uint64(v)) }

func (m message) fixed(field protowire.Number, v uint64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), v)
}

func (m message) text(field protowire.Number, v string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), v)
}

func (m message) message(field protowire.Number, v message) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), v)
}

// mostInterned and mostInternedBytes limit the names that a reader of a sequence must hold.
// At the limit a packet clears the names, and later packets define them again.
const (
	mostInterned      = 1 << 16
	mostInternedBytes = 32 << 20
)

// interned assigns numbers to strings in a sequence of packets.
type interned struct {
	events   map[int64]uint64 // of kernel names, by their ids in the trace
	launches map[int64]uint64 // of geometries, by launch
	said     map[string]uint64
	next     uint64
	bytes    int
	fresh    bool    // the next packet clears what readers know
	pending  message // InternedData of the next packet
}

func (in *interned) reset() {
	*in = interned{
		events: map[int64]uint64{}, launches: map[int64]uint64{}, said: map[string]uint64{}, fresh: true, next: 1,
	}
}

// makeRoom drops all names at the limit. The caller must not be inside a packet.
func (in *interned) makeRoom() {
	if in.isFull() {
		in.reset()
	}
}

func (in *interned) isFull() bool { return in.next > mostInterned || in.bytes > mostInternedBytes }

func (in *interned) add(field protowire.Number, text string) uint64 {
	id := in.next
	in.next++
	in.bytes += len(text)
	in.pending = in.pending.message(field, message(nil).number(internedID, id).text(internedName, text))
	return id
}

// fixedName interns one of the tool's own names.
func (in *interned) fixedName(field protowire.Number, text string) uint64 {
	id, ok := in.said[text]
	if !ok {
		id = in.add(field, text)
		in.said[text] = id
	}
	return id
}

// packetWriter writes packets of one sequence.
type packetWriter struct {
	w        *bufio.Writer
	sequence uint64
	names    interned
	packet   message // both are reused
	event    message
}

// write writes a packet with a field of its own, in a message.
func (p *packetWriter) write(atNS int64, field protowire.Number, m message) error {
	flags := uint64(flagNeeds)
	if p.names.fresh {
		flags |= flagCleared
	}
	p.packet = p.packet[:0]
	if atNS >= 0 {
		p.packet = p.packet.signed(packetTimestamp, atNS)
	}
	p.packet = p.packet.number(packetSequence, p.sequence).number(packetFlags, flags)
	if len(p.names.pending) > 0 {
		p.packet = p.packet.message(packetInterned, p.names.pending)
		p.names.pending = p.names.pending[:0]
	}
	p.names.fresh = false
	p.packet = p.packet.message(field, m)
	var head [binary.MaxVarintLen64 + 1]byte
	begin := protowire.AppendVarint(protowire.AppendTag(head[:0], tracePacket, protowire.BytesType), uint64(len(p.packet)))
	if _, err := p.w.Write(begin); err != nil {
		return err
	}
	_, err := p.w.Write(p.packet)
	return err
}

// timeless is for packets without a time.
const timeless = -1
