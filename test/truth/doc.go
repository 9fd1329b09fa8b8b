// Package truth compares what the built tool records, attaching to unprepared
// programs, with the simulator's log of what the GPUs executed.
package truth
