package cputrace

import (
	"strings"
	"sync"
	"time"
	"unsafe"
)

const (
	leastRotation = 20 * time.Millisecond
	mostRotation  = time.Second // rows are dropped by chunks that took this long
	rotations     = 32          // chunks in the time to keep, at least
	mostCounts    = 4 * rotations
)

// Keeper keeps the last rows of a window that goes on, in bounded memory. Frames and stacks stay: they have a limit of their
// own. Any goroutine may call the methods.
type Keeper struct {
	window Window
	keep   time.Duration
	most   func() uint64 // bytes of samples and waits; it may change
	now    func() uint64 // CLOCK_BOOTTIME, ns

	mu     sync.Mutex
	frames []Frame
	stacks []Stack
	chunks []*rows // the oldest first; the last one gets further rows
	bytes  uint64
	fromNS uint64 // everything since then is kept
	counts []count

	completeNS uint64
	losses     []Loss // until then, since the window's begin
	waits      []Wait // that had not ended then
	detail     string
}

// rows are samples and waits that came one after the other.
type rows struct {
	samples          []Sample
	waits            []Wait
	beganNS, endedNS uint64 // when they came
}

// count is what was missing at a time, since the window's begin.
type count struct {
	ns     uint64
	losses []Loss
}

// NewKeeper returns a keeper of the rows of that much time, of at most as many bytes as most returns.
func NewKeeper(w Window, keep time.Duration, most, now func() uint64) *Keeper {
	return &Keeper{window: w, keep: keep, most: most, now: now, fromNS: w.BegunNS, completeNS: w.BegunNS}
}

func (r *rows) bytes() uint64 {
	return uint64(len(r.samples))*uint64(unsafe.Sizeof(Sample{})) + uint64(len(r.waits))*uint64(unsafe.Sizeof(Wait{}))
}

// Add keeps rows. What is counted of short waits is left out.
func (k *Keeper) Add(b *Batch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frames = append(k.frames, b.Frames...)
	k.stacks = append(k.stacks, b.Stacks...)
	now := k.now()
	if len(b.Samples)+len(b.Waits) > 0 {
		last := k.open(now)
		before := last.bytes()
		last.samples = append(last.samples, b.Samples...)
		last.waits = append(last.waits, b.Waits...)
		last.endedNS = now
		k.bytes += last.bytes() - before
	}
	k.age(now)
}

// open returns the chunk for further rows. The caller holds k.mu.
func (k *Keeper) open(now uint64) *rows {
	rotation := min(max(k.keep/rotations, leastRotation), mostRotation)
	if n := len(k.chunks); n > 0 && now-k.chunks[n-1].beganNS < uint64(rotation) {
		return k.chunks[n-1]
	}
	k.chunks = append(k.chunks, &rows{beganNS: now})
	return k.chunks[len(k.chunks)-1]
}

// age drops what is too old, or too much. The caller holds k.mu.
func (k *Keeper) age(now uint64) {
	for len(k.chunks) > 0 {
		first := k.chunks[0]
		if first.endedNS+uint64(k.keep) >= now && k.bytes <= k.most() {
			return
		}
		k.bytes -= first.bytes()
		k.fromNS = first.endedNS
		k.chunks[0] = nil
		k.chunks = k.chunks[1:]
	}
}

// Complete notes what is known at a time up to which all rows have been added: what is missing since the window's begin, the
// waits that go on, and what could not be observed.
func (k *Keeper) Complete(atNS uint64, losses []Loss, waits []Wait, detail string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.completeNS, k.losses, k.waits, k.detail = atNS, losses, waits, detail
}

// WantsCount reports whether it is time for Count.
func (k *Keeper) WantsCount() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.counts)
	return n == 0 || k.now()-k.counts[n-1].ns >= uint64(k.keep)/(mostCounts/2)
}

// Count notes what is missing since the window's begin.
func (k *Keeper) Count(losses []Loss) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if len(k.counts) == mostCounts {
		k.counts = append(k.counts[:0], k.counts[1:]...)
	}
	k.counts = append(k.counts, count{now, losses})
}

// Bytes returns the memory of the kept samples and waits.
func (k *Keeper) Bytes() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bytes
}

// Explain adds to a detail what a flight recorder's trace does not have.
func (k *Keeper) Explain(detail string) string {
	if !k.window.Scheduling {
		return detail
	}
	return strings.TrimPrefix(detail+"; "+keptDetail, "; ")
}

// FrameIDs returns the ids of all frames.
func (k *Keeper) FrameIDs() map[uint32]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	ids := make(map[uint32]bool, len(k.frames))
	for _, f := range k.frames {
		ids[f.ID] = true
	}
	return ids
}

// Name replaces the descriptions of frames.
func (k *Keeper) Name(named []Frame) {
	k.mu.Lock()
	defer k.mu.Unlock()
	by := byID(named)
	frames := make([]Frame, len(k.frames)) // a cut may have the others
	for i, f := range k.frames {
		if better, ok := by[f.ID]; ok {
			f = better
		}
		frames[i] = f
	}
	k.frames = frames
}

func byID(frames []Frame) map[uint32]Frame {
	by := make(map[uint32]Frame, len(frames))
	for _, f := range frames {
		by[f.ID] = f
	}
	return by
}
