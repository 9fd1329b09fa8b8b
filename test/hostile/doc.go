// Package hostile holds the tests of the tool against processes that mean it
// harm: the built tool runs as root, and each of testdata/victims/hostile* shows
// it something else that no honest process would. Whatever it is, the tool ends
// by itself in bounded time with one of its exit codes, uses bounded memory,
// writes nothing but the trace that was asked for, and says nothing that a
// terminal would obey.
//
// It is a package of its own beside test/cli: its targets need no GPU, simulated or
// not, and what is looked at is the tool, not the target.
package hostile
