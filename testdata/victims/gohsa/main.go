// Gohsa is a Go program that stands on libc, as one with ROCm does: its
// goroutines run on small stacks of their own, its runtime handles signals. It
// answers letters with its rounds of work and the harm that it has noticed.
package main

/*
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// wait_in_c reads a byte in C, on a thread that waits there without time-out, and
// counts what has changed meanwhile: errno, the signal mask, the alternate stack.
static uint64_t wait_in_c(int fd)
{
	sigset_t before, after;
	stack_t stack, now;
	uint64_t harm;
	char c;

	memset(&before, 0, sizeof(before));
	memset(&after, 0, sizeof(after));
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	sigaltstack(NULL, &stack);
	errno = ENOTRECOVERABLE;
	harm = read(fd, &c, 1) != 1;
	harm += errno != ENOTRECOVERABLE;
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	sigaltstack(NULL, &now);
	return harm + (memcmp(&before, &after, sizeof(before)) != 0) + (now.ss_sp != stack.ss_sp || now.ss_flags != stack.ss_flags);
}
*/
import "C"

import (
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

var rounds, harm, waits atomic.Uint64

// work computes the same again and again, in Go's memory and in libc's.
func work() {
	numbers := make([]byte, 4096)
	for i := range numbers {
		numbers[i] = byte(i * i >> 3)
	}
	sum, wave := crc32.ChecksumIEEE(numbers), series()
	for {
		p := C.malloc(C.size_t(1 + rounds.Add(1)%5000))
		*(*byte)(p) = 0x5a
		if crc32.ChecksumIEEE(numbers) != sum || series() != wave || *(*byte)(p) != 0x5a {
			harm.Add(1)
		}
		C.free(p)
	}
}

// series keeps floating-point registers alive.
func series() (s float64) {
	for i := range 200 {
		s += math.Sqrt(float64(i)) / 3
	}
	return s
}

// waitInC keeps one thread in C but for a moment after each byte.
func waitInC(from *os.File) {
	runtime.LockOSThread()
	for fd := C.int(from.Fd()); ; waits.Add(1) {
		harm.Add(uint64(C.wait_in_c(fd)))
	}
}

// wake lets the thread in C look at itself: if it does not, it is harmed.
func wake(to *os.File) {
	const patience = 5 * time.Second
	before, deadline := waits.Load(), time.Now().Add(patience)
	if _, err := to.Write([]byte{1}); err != nil {
		harm.Add(1)
	}
	for waits.Load() == before {
		if time.Now().After(deadline) {
			harm.Add(1)
			return
		}
		runtime.Gosched()
	}
}

func main() {
	from, to, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	for range 3 {
		go work()
	}
	go waitInC(from)
	fmt.Println("ready")
	for letter := make([]byte, 1); ; {
		if n, err := os.Stdin.Read(letter); n == 0 || err != nil {
			return
		}
		wake(to)
		fmt.Println("rounds", rounds.Load(), "harm", harm.Load())
	}
}
