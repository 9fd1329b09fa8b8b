package rate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

const (
	ms     = 1_000_000
	period = 10 * ms
)

// load makes packets of a rate that bursts, with a known mean.
type load struct {
	random *rand.Rand
	ns     uint64
	next   uint64
	count  float64
}

// run adds samples of a time at a rate to a phase. About every 30 ms there is a burst of a random size.
func (l *load) run(p *Phase, forNS uint64, perSecond float64) {
	for end := l.ns + forNS; l.ns < end; l.ns += period {
		p.Add(Sample{l.ns, uint64(l.count)})
		for l.next <= l.ns {
			l.count += perSecond * 0.03 * (0.9 + 0.2*l.random.Float64())
			l.next += uint64(float64(20*ms) + 20*ms*l.random.Float64())
		}
	}
}

type run struct{ before, during, after Phase }

// record records a load whose rates in the three phases are given; the first and the last have a length, the second
// twenty times of it.
func record(seed, lengthNS uint64, rates [3]float64) Change {
	l := load{random: rand.New(rand.NewPCG(seed, 1))}
	r := run{during: Phase{BlockNS: lengthNS}}
	l.run(&r.before, lengthNS, rates[0])
	l.run(&r.during, 20*lengthNS, rates[1])
	l.run(&r.after, lengthNS, rates[2])
	return r.change()
}

func (r *run) change() Change {
	before, _ := r.before.Estimate()
	during, _ := r.during.Estimate()
	after, _ := r.after.Estimate()
	if before.UseBlocks(&r.during) != nil || after.UseBlocks(&r.during) != nil {
		return Change{Verdict: Unknown}
	}
	return Compare(&before, &during, &after)
}

// A steady load shows no difference, and a change is found with its size, if there is time to measure; if not, there is
// no statement. Of the statements at most the twentieth that the uncertainty allows is wrong.
func TestClaims(t *testing.T) {
	const runs = 100
	for name, c := range map[string]struct {
		rates [3]float64
		want  Verdict
	}{
		"steady":                {[3]float64{5000, 5000, 5000}, NoDifference},
		"slower while recorded": {[3]float64{5000, 4000, 5000}, Different},
		"faster while recorded": {[3]float64{5000, 6000, 5000}, Different},
		"slower from then on":   {[3]float64{5000, 2500, 2500}, LoadChanged},
		"slower afterwards":     {[3]float64{5000, 5000, 2500}, LoadChanged},
	} {
		truth := 100 * (c.rates[1]/c.rates[0] - 1)
		for _, length := range []uint64{200 * ms, 2000 * ms} {
			right, wrong := 0, 0
			for seed := range uint64(runs) {
				got := record(seed, length, c.rates)
				if got.Verdict == c.want {
					right++
				}
				if got.Verdict != LoadChanged && got.Verdict != Unsteady && math.Abs(got.Percent-truth) > got.Uncertainty {
					wrong++
				}
			}
			text := fmt.Sprintf("%s, %d ms: of %d runs %d right, %d farther from the truth than they say", name, length/ms, runs, right, wrong)
			t.Log(text)
			if wrong > runs/20 || length > 1000*ms && right < runs*8/10 {
				t.Error(text)
			}
		}
	}
}

// A load that changes in the middle of the recording is no cost of the recording.
func TestChangeInTheMiddle(t *testing.T) {
	l := load{random: rand.New(rand.NewPCG(1, 1))}
	r := run{during: Phase{BlockNS: 300 * ms}}
	l.run(&r.before, 300*ms, 5000)
	l.run(&r.during, 2000*ms, 5000)
	l.run(&r.during, 2000*ms, 2500)
	l.run(&r.after, 300*ms, 5000)
	if c := r.change(); c.Verdict != Unsteady {
		t.Errorf("%+v", c)
	}
	l.run(&r.after, 1000*ms, 2500) // a fifth and more apart, and less than the uncertainty
	if c := r.change(); c.Verdict != Unsteady {
		t.Errorf("%+v", c)
	}
}

// A recording that is too short to show how much a load varies gets no statement.
func TestShortRecording(t *testing.T) {
	for _, c := range []struct {
		times uint64
		want  error
	}{{5, ErrBlocks}, {9, ErrBlocks}, {12, nil}} {
		l := load{random: rand.New(rand.NewPCG(1, 1))}
		r := run{during: Phase{BlockNS: 200 * ms}}
		l.run(&r.before, 200*ms, 5000)
		l.run(&r.during, c.times*200*ms, 5000)
		e, err := r.before.Estimate()
		if own := e.Uncertainty; err != nil || !errors.Is(e.UseBlocks(&r.during), c.want) || (e.Uncertainty == own) != (c.want != nil) {
			t.Errorf("%d times as long: %+v, %v", c.times, e, err)
		}
	}
}

// No estimate from too little, or from what cannot be.
func TestAbstains(t *testing.T) {
	phase := func(samples int, each uint64) *Phase {
		var p Phase
		for i := range uint64(samples) {
			p.Add(Sample{i * period, i * each})
		}
		return &p
	}
	backward := phase(100, 10)
	backward.Add(Sample{1 << 40, 5})
	for name, c := range map[string]struct {
		phase *Phase
		want  error
	}{
		"enough": {phase(100, 10), nil}, "none": {phase(0, 0), ErrShort}, "short": {phase(8, 1000), ErrShort},
		"few": {phase(100, 1), ErrFew}, "nothing": {phase(100, 0), ErrFew}, "backward": {backward, ErrBackward},
	} {
		if _, err := c.phase.Estimate(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c := Compare(nil, &Estimate{PerSecond: 1}, nil); c.Verdict != Unknown {
		t.Errorf("%+v", c)
	}
	slow, fast := &Estimate{PerSecond: 1}, &Estimate{PerSecond: 2}
	for _, c := range []Change{Compare(fast, slow, nil), Compare(nil, slow, fast)} {
		if c.Verdict != OneSided || c.Percent != -50 {
			t.Errorf("%+v", c)
		}
	}
}

// A long phase needs no more memory, and loses nothing at its ends.
func TestLongPhase(t *testing.T) {
	p := Phase{BlockNS: 200 * ms}
	const samples = 1_000_000
	for i := range uint64(samples) {
		p.Add(Sample{i * period, i * 50})
	}
	e, err := p.Estimate()
	if err != nil || e.Packets != 50*(samples-1) || e.PerSecond != 5000 || e.Uncertainty > 1e-6 || e.UntilNS != (samples-1)*period {
		t.Errorf("%+v, %v", e, err)
	}
	if len(p.samples) > samplesMost || cap(p.samples) > 2*samplesMost || p.blocks.n != (samples-1)/20 {
		t.Errorf("%d samples, %d blocks", len(p.samples), p.blocks.n)
	}
}
