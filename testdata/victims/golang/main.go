// Golang is a program without a libc: goroutines that work, and a main one that
// waits for the end of its input.
package main

import (
	"fmt"
	"os"
)

func main() {
	for range 3 {
		go func() {
			for n := 0; ; n++ {
				_ = fmt.Sprint(n)
			}
		}()
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
}
