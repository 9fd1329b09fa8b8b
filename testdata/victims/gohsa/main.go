// Gohsa is a Go program that stands on libc, as one with ROCm does: its
// goroutines run on small stacks of their own, its runtime handles signals.
package main

// #include <stdlib.h>
import "C"

import (
	"fmt"
	"os"
	"sync/atomic"
)

func main() {
	var rounds atomic.Uint64
	for range 3 {
		go func() {
			for {
				C.free(C.malloc(C.size_t(1 + rounds.Add(1)%5000)))
			}
		}()
	}
	fmt.Println("ready")
	for letter := make([]byte, 1); ; {
		if n, err := os.Stdin.Read(letter); n == 0 || err != nil {
			return
		}
		fmt.Println("rounds", rounds.Load(), "harm 0")
	}
}
