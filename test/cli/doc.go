// Package cli holds the tests of the tool's promises, told from outside: the
// built tool, unmodified targets on the simulated GPU, and somebody who kills
// one of them at the wrong moment. The target is never harmed, nothing is lost
// silently, nothing is left behind.
//
// RTL_LONG=1 makes the random tests long.
package cli
