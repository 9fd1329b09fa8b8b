// Package rate estimates at which rate a process's GPUs take packets, and how uncertain that is, from samples of a
// counter; and whether a recording has changed it (docs/decisions/0039).
package rate

import (
	"errors"
	"math"
	"time"
)

// Sample is the value of a counter at a time.
type Sample struct {
	NS      uint64 // CLOCK_BOOTTIME
	Packets uint64
}

// Estimate is a rate in one phase of a recording.
type Estimate struct {
	FromNS, UntilNS uint64
	Packets         uint64
	PerSecond       float64
	Uncertainty     float64 // of PerSecond: half of the interval in which it lies with 95 %
}

// The errors of an estimate.
var (
	ErrShort    = errors.New("it was too short")
	ErrFew      = errors.New("too few packets")
	ErrBackward = errors.New("a counter of the queues went backward")
	ErrBlocks   = errors.New("the recording is shorter than ten times the time before it: --measure-cost with a shorter time")
)

const (
	samplesMost = 2048
	packetsMin  = 200 // fewer tell nothing about a per cent
)

// Phase collects the samples of one phase, in bounded memory. The zero value has none.
type Phase struct {
	BlockNS uint64 // 0, or as long as a shorter phase, see UseBlocks; set before the first sample

	samples []Sample
	every   int // of the samples is kept
	seen    int
	last    Sample

	block    Sample    // begin of the block that is going on
	blocks   variation // of the rates of the blocks
	backward bool
}

// Add adds a sample, which must be later than the last one.
func (p *Phase) Add(s Sample) {
	if p.seen > 0 && (s.NS <= p.last.NS || s.Packets < p.last.Packets) {
		p.backward = p.backward || s.Packets < p.last.Packets
		return
	}
	if p.every == 0 {
		p.every, p.block = 1, s
	}
	if p.seen%p.every == 0 {
		if len(p.samples) == samplesMost {
			p.thin()
		}
		if p.seen%p.every == 0 {
			p.samples = append(p.samples, s)
		}
	}
	p.seen++
	p.last = s
	p.addToBlock(s)
}

// thin drops every second sample.
func (p *Phase) thin() {
	for i := range samplesMost / 2 {
		p.samples[i] = p.samples[2*i]
	}
	p.samples = p.samples[:samplesMost/2]
	p.every *= 2
}

func (p *Phase) addToBlock(s Sample) {
	if p.BlockNS == 0 || s.NS-p.block.NS < p.BlockNS {
		return
	}
	p.blocks.add(between(p.block, s))
	p.block = s
}

// between returns packets per second.
func between(a, b Sample) float64 {
	return float64(b.Packets-a.Packets) / time.Duration(b.NS-a.NS).Seconds()
}

// parts is into how many parts of equal length Estimate divides a phase. More of them would be shorter, and show less of
// what varies slowly.
const parts = 10

// Estimate returns the rate from the first sample to the last. Its uncertainty is that of the mean of ten parts.
func (p *Phase) Estimate() (e Estimate, err error) {
	switch {
	case p.backward:
		return e, ErrBackward
	case len(p.samples) <= parts:
		return e, ErrShort
	}
	first := p.samples[0]
	e = Estimate{FromNS: first.NS, UntilNS: p.last.NS, Packets: p.last.Packets - first.Packets, PerSecond: between(first, p.last)}
	e.Uncertainty = student(parts-1) * p.deviation() / math.Sqrt(parts)
	if e.Packets < packetsMin {
		return e, ErrFew
	}
	return e, nil
}

// deviation returns the standard deviation of the rates of the parts.
func (p *Phase) deviation() float64 {
	var v variation
	at := func(part int) Sample { return p.samples[part*(len(p.samples)-1)/parts] }
	for i := range parts {
		v.add(between(at(i), at(i+1)))
	}
	return v.deviation()
}

// blocksLeast is how many blocks tell how much they vary.
const blocksLeast = 10

// UseBlocks replaces the uncertainty of an estimate by what a longer phase shows of it: the variation of the rate over
// times as long as the shorter phase, which has seen only a part of that. Without enough of them it returns ErrBlocks.
func (e *Estimate) UseBlocks(longer *Phase) error {
	b := &longer.blocks
	if b.n < blocksLeast {
		return ErrBlocks
	}
	e.Uncertainty = student(b.n-1) * b.deviation()
	return nil
}

// variation is the mean of numbers, and how much they vary.
type variation struct {
	n           int
	mean, about float64 // about: the sum of squares about the mean
}

func (v *variation) add(x float64) {
	v.n++
	off := x - v.mean
	v.mean += off / float64(v.n)
	v.about += off * (x - v.mean)
}

func (v *variation) deviation() float64 { return math.Sqrt(v.about / float64(v.n-1)) }

// student returns the factor of the standard deviation for 95 %, by degrees of freedom.
func student(freedom int) float64 {
	switch {
	case freedom < 15:
		return 2.26 // of 9, the fewest here
	case freedom < 30:
		return 2.13
	}
	return 2.04
}
