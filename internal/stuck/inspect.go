package stuck

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collectives"
	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/ps"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
)

// Inspect looks at processes twice, with a time between, and tells what their queues and threads wait for.
// It fails only if no process could be read. version is this tool's; patterns are the names of collectives' kernels, nil those of
// known libraries.
func Inspect(pids []int, between time.Duration, version string, patterns *collectives.Patterns) (*Report, error) {
	if patterns == nil {
		patterns = collectives.Default()
	}
	return watchdog.Do(pids[0], func() (*Report, error) {
		r := &Report{Version: version, Watched: seconds(between), Collective: []Collective{}}
		var looks []*look
		var first error
		for _, pid := range pids {
			l, err := open(pid)
			if err != nil {
				err = failure.Explain("look into", pid, err, failure.Untouched)
				if first == nil {
					first = err
				}
				r.Processes = append(r.Processes, hidden(pid, err))
				continue
			}
			defer l.t.Close()
			looks = append(looks, l)
			r.Processes = append(r.Processes, l.process)
		}
		if len(looks) == 0 {
			return nil, first
		}
		time.Sleep(between)
		for _, l := range looks {
			if err := l.again(); err != nil {
				*l.process = *hidden(l.t.PID, failure.Explain("look into", l.t.PID, err, failure.Untouched))
			}
		}
		r.Collective = insideOf(r.Processes, patterns)
		return r, nil
	})
}

func hidden(pid int, err error) *Process {
	return &Process{PID: pid, Hidden: failure.BareText(err), Queues: []Queue{}, Threads: []Thread{}, Unseen: []string{}}
}

// look is a process between the first look and the second.
type look struct {
	t           *target.Target
	maps        []target.Map
	process     *Process
	queues      []*rawQueue // at the first look
	waits       map[int]wait
	at          time.Time
	program     string // base name of its executable; "": not known
	names       *names
	completions *pending
	claims      map[uint64]uint64 // the payload's states of queues that are recorded, by the queues
	claimants   map[uint32]Claim  // threads, by their ids in the process's pid namespace
	claiming    time.Duration     // so far, to find them
	gpus        map[uint32]int
}

// open makes the first look.
func open(pid int) (*look, error) {
	t, err := target.OpenReadOnly(pid)
	if err != nil {
		return nil, err
	}
	l := &look{t: t, claimants: map[uint32]Claim{}, process: &Process{PID: pid, Command: t.Comm, Rank: discover.RankOf(t), Threads: []Thread{}, Unseen: []string{}}}
	if err := l.first(); err != nil {
		t.Close()
		return nil, err
	}
	return l, nil
}

func (l *look) first() error {
	var err error
	if l.maps, err = l.t.Maps(); err != nil {
		return err
	}
	if len(target.Runtimes(l.maps)) == 0 {
		return fmt.Errorf("pid %d (%s): %w", l.t.PID, l.t.Comm, target.ErrNoHSA)
	}
	l.names = newNames(l.t, l.maps)
	l.program = programOf(l.t, l.maps)
	l.queues, l.process.Search = findQueues(l.t, l.maps, l.t.Present, bounds{bytes: scanBytesMax, time: scanTimeMax})
	l.gpus = gpusByID(ps.Driver())
	l.waits = waitsOf(l.t)
	if c, err := resident.Open(l.t); err == nil {
		l.process.Payload = resident.StateText(c.Snapshot().State)
		c.Close()
	} else if !errors.Is(err, resident.ErrNone) {
		l.unseen("what a payload of rtl-attach says: " + failure.BareText(err))
	}
	if l.recorded() {
		var whole bool
		if l.claims, whole = findClaims(l.t, l.maps, l.t.Present, l.queues); !whole {
			l.unseen("packets that are claimed while rtl-attach records: not all of the memory was searched for its write indexes")
		}
	}
	l.readIndexes()
	l.at = time.Now()
	return l.t.CheckIdentity()
}

func (l *look) unseen(what string) { l.process.Unseen = append(l.process.Unseen, what) }

// recorded reports whether rtl-attach records the process.
func (l *look) recorded() bool {
	return l.process.Payload == "active" || l.process.Payload == "draining"
}

// readIndexes reads the indexes again: the search may have taken a while.
func (l *look) readIndexes() {
	for i, q := range l.queues {
		if now, err := readQueue(l.t, q.at); err == nil && now.doorbell == q.doorbell {
			seenByProgram(l.t, l.claims, now)
			l.queues[i] = now
		}
	}
}

// again makes the second look.
func (l *look) again() error {
	p := l.process
	pending := newPending()
	second := make([]*rawQueue, len(l.queues))
	for i, was := range l.queues {
		if q, err := readQueue(l.t, was.at); err == nil && queueOf(l.t, doorbell{q.doorbell, q.at}) != nil {
			seenByProgram(l.t, l.claims, q)
			second[i] = q
			pending.add(l.t, q)
		}
	}
	p.Watched = seconds(time.Since(l.at))
	p.Queues = []Queue{}
	for i, was := range l.queues {
		p.Queues = append(p.Queues, l.queue(was, second[i], pending))
	}
	l.completions = pending
	l.readThreads()
	l.noteWaiters()
	l.noteSubmitters()
	l.noteUnseen()
	return l.t.CheckIdentity()
}

// queue tells about a queue by the two looks at it; now is nil if it is gone.
func (l *look) queue(was, now *rawQueue, pending *pending) Queue {
	if now == nil {
		return Queue{ID: was.id, Address: was.at, Slots: was.slots, Read: was.read, Write: was.write, State: StateGone}
	}
	q := Queue{ID: now.id, Address: now.at, Slots: now.slots, Read: now.read, Write: now.write, Moved: now.read != was.read}
	if now.claims != nil {
		q.Passed = &now.passed
	}
	q.GPUID = l.gpuOf(now)
	if n, ok := l.gpus[q.GPUID]; ok && q.GPUID != 0 {
		q.GPU = &n
	}
	q.Running = l.running(now)
	var raw rawPacket
	err := error(nil)
	if now.read < now.write {
		if raw, err = readPacket(l.t, now, now.read); err == nil {
			packet := l.packet(now.read, raw, pending)
			packet.Claim = l.claimOf(now, now.read)
			q.Packet = &packet
		}
	}
	for i := range q.Running {
		pending.resolve(q.Running[i].Completion)
	}
	q.State = stateOf(&q, err)
	return q
}

// stateOf returns a queue's state; err is that of reading the packet at the read index.
func stateOf(q *Queue, err error) State {
	waits := func(s *Signal) bool { return s.Valid && s.Value != 0 }
	switch {
	case q.Moved:
		return StateMoves
	case err != nil:
		return StateUnreadable
	case q.Packet == nil && len(q.Running) > 0:
		return StateRunning
	case q.Packet == nil:
		return StateIdle
	case q.Packet.Type == "invalid":
		return StateUnpublished
	case q.Packet.Barrier && len(q.Running) > 0:
		return StateBehind
	case q.Packet.unmet,
		q.Packet.Type == "barrier-and" && slices.ContainsFunc(q.Packet.Dependencies, waits),
		q.Packet.Type == "barrier-or" && len(q.Packet.Dependencies) > 0 && !slices.ContainsFunc(q.Packet.Dependencies, func(s *Signal) bool { return s.Valid && s.Value == 0 }):
		return StateSignal
	}
	return StateAtGPU
}

var packetTypes = map[int]string{
	typeVendor: "vendor", typeInvalid: "invalid", typeDispatch: "dispatch", typeBarrierAND: "barrier-and",
	typeAgent: "agent", typeBarrierOR: "barrier-or",
}

func (l *look) packet(index uint64, raw rawPacket, pending *pending) Packet {
	p := Packet{Index: index, Type: packetTypes[raw.kind], Barrier: raw.barrier}
	switch raw.kind {
	case typeInvalid:
		return p
	case typeDispatch:
		l.describe(&p, raw)
	case typeVendor:
		if raw.vendorFormat == barrierValue {
			signal := l.signal(raw.dependencies[0])
			p.Type, p.Dependencies, p.Condition = "barrier-value", []*Signal{pending.resolve(signal)}, raw.conditionText()
			p.unmet = signal.Valid && !raw.met(signal.Value)
		}
	case typeBarrierAND, typeBarrierOR:
		for _, handle := range raw.dependencies {
			if handle != 0 {
				p.Dependencies = append(p.Dependencies, pending.resolve(l.signal(handle)))
			}
		}
	}
	if p.Type == "" {
		p.Type = "unknown"
	}
	if raw.completion != 0 && raw.kind <= typeBarrierOR {
		p.Completion = pending.resolve(l.signal(raw.completion))
	}
	return p
}

// describe adds what only dispatches have.
func (l *look) describe(p *Packet, raw rawPacket) {
	p.KernelObject, p.Kernel = raw.kernelObject, l.names.kernel(raw.kernelObject)
	n := min(max(1, raw.dimensions), len(raw.grid))
	p.Grid, p.Workgroup = slices.Clone(raw.grid[:n]), slices.Clone(raw.workgroup[:n])
}

func (l *look) signal(handle uint64) *Signal {
	s := &Signal{Handle: handle}
	if raw, err := readSignal(l.t, handle); err == nil && raw.kind == kindUser {
		s.Valid, s.Value, s.EventID = true, raw.value, raw.eventID
	}
	return s
}

// backMax is how many consumed packets are looked at.
const backMax = 64

// running returns the packets before the read index whose completion signal is not 0 yet. The GPU sets only the header of
// a packet that it has taken to INVALID. A signal that belongs to a later packet, too, says nothing about the
// earlier.
func (l *look) running(q *rawQueue) (found []Packet) {
	seen := map[uint64]bool{}
	for back := uint64(1); back <= min(backMax, q.read, uint64(q.slots)); back++ {
		index := q.read - back
		if index+uint64(q.slots) < q.write { // its slot has been claimed again
			break
		}
		raw, err := readPacket(l.t, q, index)
		if err != nil {
			break
		}
		if raw.kind != typeInvalid || raw.completion == 0 || seen[raw.completion] {
			continue
		}
		seen[raw.completion] = true
		s := l.signal(raw.completion)
		if !s.Valid || s.Value <= 0 {
			continue
		}
		p := Packet{Index: index, Type: "consumed", Completion: s, Claim: l.claimOf(q, index)}
		if name := l.names.kernel(raw.kernelObject); name != "" {
			p.Type = "dispatch"
			l.describe(&p, raw)
		}
		found = append(found, p)
	}
	slices.Reverse(found)
	return found
}

func (l *look) noteUnseen() {
	p := l.process
	if len(l.queues) == 0 {
		l.unseen("queues: none was found in the memory that could be searched")
	}
	if p.Search.Skipped > 0 {
		l.unseen("queues in the part of the memory that was not searched")
	}
	if n := ps.ComputeQueues(ps.Driver(), p.PID); n > len(p.Queues) {
		l.unseen("some of the queues that the driver lists")
	}
	if l.names.err != nil && len(l.names.objects) == 0 {
		l.unseen("names of kernels: " + failure.BareText(l.names.err))
	}
	l.unseen("whether a doorbell was rung" + l.authorsUnseen())
}
