package simlog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// The workloads' unique ids are thread << idShift | sequence, sequences from 1.
const idShift = 40

// Counts are the dispatches that a workload says it made, by thread.
type Counts map[uint64]uint64

// Once collects unique ids and finds those executed twice or never. A thread's
// sequences are dense, so one bit each is enough for the longest run.
type Once struct {
	seen   map[uint64][]uint64 // by thread: a bit per sequence
	twice  []*Record
	nTwice int
}

// maxReported bounds the examples in an error.
const maxReported = 5

// Add notes what a record executed; records without an id are ignored.
func (o *Once) Add(r *Record) {
	if r.Kind != Kernel || r.UniqueID == 0 {
		return
	}
	if o.seen == nil {
		o.seen = map[uint64][]uint64{}
	}
	thread, seq := r.UniqueID>>idShift, r.UniqueID&(1<<idShift-1)
	bits := o.seen[thread]
	word, bit := int(seq/64), uint64(1)<<(seq%64)
	if word >= len(bits) {
		bits = slices.Grow(bits, word+1-len(bits))[:word+1]
	}
	if bits[word]&bit != 0 {
		if o.nTwice++; len(o.twice) < maxReported {
			o.twice = append(o.twice, r)
		}
	}
	bits[word] |= bit
	o.seen[thread] = bits
}

// Check compares with what each thread says it dispatched: sequences 1 to counts[thread].
func (o *Once) Check(counts Counts) error {
	var errs []error
	if o.nTwice > 0 {
		errs = append(errs, fmt.Errorf("%d dispatches executed more than once, such as %v", o.nTwice, o.twice[0]))
	}
	for thread, bits := range o.seen {
		if _, known := counts[thread]; !known && len(bits) > 0 {
			errs = append(errs, fmt.Errorf("thread %d dispatched, but gave no count", thread))
		}
	}
	for thread, count := range counts {
		errs = append(errs, checkThread(thread, count, o.seen[thread]))
	}
	return errors.Join(errs...)
}

func checkThread(thread, count uint64, bits []uint64) error {
	var missing, beyond uint64
	example := ""
	for seq := uint64(1); seq <= max(count, uint64(len(bits))*64); seq++ {
		executed := seq/64 < uint64(len(bits)) && bits[seq/64]>>(seq%64)&1 == 1
		switch {
		case seq <= count && !executed:
			if missing++; missing == 1 {
				example = fmt.Sprintf(", the first is %d", seq)
			}
		case seq > count && executed:
			beyond++
		}
	}
	if missing == 0 && beyond == 0 {
		return nil
	}
	return fmt.Errorf("thread %d: of %d dispatches %d never executed%s; %d executed beyond its count",
		thread, count, missing, example, beyond)
}

// ExactlyOnce says whether every dispatch of every thread executed once.
func ExactlyOnce(records []*Record, counts Counts) error {
	var once Once
	for _, r := range records {
		once.Add(r)
	}
	return once.Check(counts)
}

// ByPacket returns the records of one queue in the order of their packets. Most queues
// have one record for each place from their first to their last: these need no comparing,
// of which the race detector would make the greater part of a test's time.
func ByPacket(records []*Record) []*Record {
	if places, whole := placed(records); whole {
		return places
	}
	slices.SortStableFunc(records, func(a, b *Record) int { return cmp.Compare(a.Packet, b.Packet) })
	return records
}

// placed is whole when no place is empty.
func placed(records []*Record) (places []*Record, whole bool) {
	if len(records) == 0 {
		return nil, true
	}
	first, last := records[0].Packet, records[0].Packet
	for i := range records {
		first, last = min(first, records[i].Packet), max(last, records[i].Packet)
	}
	if last-first != uint64(len(records)-1) {
		return nil, false
	}
	places = make([]*Record, len(records))
	for i := range records {
		places[records[i].Packet-first] = records[i]
	}
	for i := range places {
		if places[i] == nil {
			return nil, false // another place has two
		}
	}
	return places, true
}
