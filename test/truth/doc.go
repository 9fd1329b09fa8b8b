// Package truth compares the recordings of the built tool, which attaches to unprepared programs,
// with the simulator's log of the packets that the GPUs executed.
package truth
