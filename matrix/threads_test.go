package matrix

import (
	"fmt"
	"testing"
)

// Group A: the state in which threads are found.
var threads = []row{
	{"01", "leader in an AVX loop", "no register changes", leaderInAVX},
}

func leaderInAVX(t *testing.T) string {
	v := onGPU(t, "busy", "spin", "futex")
	n, timed := repeat(3, 200), int64(0)
	for range n {
		timed += record(t, v.PID).ok(t)
	}
	h := v.sound(t)
	return fmt.Sprintf("%d attaches, %d dispatches timed, %d rounds of AVX, harm %d", n, timed, h.Beats, h.Harm)
}
