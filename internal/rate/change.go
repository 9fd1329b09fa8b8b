package rate

import "math"

// Verdict says what a change means.
type Verdict string

// The verdicts.
const (
	NoDifference Verdict = "no difference" // within the uncertainty
	Different    Verdict = "different"
	OneSided     Verdict = "one-sided"    // different, but before or after is missing: the load itself may have changed
	LoadChanged  Verdict = "load changed" // before and after differ: nothing can be said about the recording
	Unsteady     Verdict = "unsteady"     // the uncertainty is too large for a statement
	Unknown      Verdict = "unknown"      // a phase is missing
)

// unsteadiest is the largest uncertainty of a statement, in per cent, and the largest difference between before and after.
const unsteadiest = 20

// Change is a rate while recording, compared with that before and after, in per cent.
type Change struct {
	Percent     float64
	Uncertainty float64
	Verdict     Verdict
}

// Compare compares the rate while recording with the ones before and after; nil: not known.
func Compare(before, during, after *Estimate) Change {
	if before == nil {
		before, after = after, nil
	}
	if before == nil || during == nil || before.PerSecond <= 0 {
		return Change{Verdict: Unknown}
	}
	without, changed, apart := *before, false, 0.0
	if after != nil {
		apart = math.Abs(after.PerSecond - before.PerSecond)
		changed = apart > math.Hypot(before.Uncertainty, after.Uncertainty)
		without = together(before, after)
	}
	ratio := during.PerSecond / without.PerSecond
	c := Change{
		Percent:     100 * (ratio - 1),
		Uncertainty: 100 * math.Hypot(ratio*without.Uncertainty, during.Uncertainty) / without.PerSecond,
		Verdict:     NoDifference,
	}
	switch {
	case changed:
		c.Verdict = LoadChanged
	case c.Uncertainty > unsteadiest: // before and after may differ by chance
		c.Verdict = Unsteady
	case apart > before.PerSecond*unsteadiest/100:
		c.Verdict = LoadChanged
	case math.Abs(c.Percent) > c.Uncertainty && after == nil:
		c.Verdict = OneSided
	case math.Abs(c.Percent) > c.Uncertainty:
		c.Verdict = Different
	}
	return c
}

// together returns the rate of two phases that do not differ. They may drift alike, so the uncertainty is not that of
// independent ones.
func together(a, b *Estimate) Estimate {
	share := float64(a.UntilNS-a.FromNS) / float64(a.UntilNS-a.FromNS+b.UntilNS-b.FromNS)
	return Estimate{
		PerSecond:   share*a.PerSecond + (1-share)*b.PerSecond,
		Uncertainty: share*a.Uncertainty + (1-share)*b.Uncertainty,
	}
}
