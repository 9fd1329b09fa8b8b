// Package cli tests the tool's promises from outside, with the built tool, unmodified targets on
// the simulated GPU, and tests that kill the tool or the target at any moment. The target is never
// harmed, nothing is lost silently, nothing is left behind.
//
// RTL_LONG=1 makes the random tests long.
package cli
