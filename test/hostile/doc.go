// Package hostile tests the tool against hostile processes: the built tool runs as root, and each of
// testdata/victims/hostile* shows it another kind of data that no correct process has. In all cases
// the tool ends by itself in limited time with one of its exit codes, uses limited memory, writes
// only the requested trace, and prints nothing that a terminal would execute.
//
// It is separate from test/cli: its targets need no GPU, not even a simulated one, and the tests
// check the tool, not the target.
package hostile
