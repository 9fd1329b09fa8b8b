package attach_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rtl-attach/rtl-attach/attach"
)

// Record a process for a time that something else decides. TestExamples runs this with a server on a simulated GPU.
func ExampleProcess() {
	s, err := attach.Process(context.Background(), server.pid, attach.Options{
		Output: server.folder + "/trace.db",
		Kinds:  []string{"memory-copy"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server.work() // the time to record
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Flush(ctx); err != nil { // other processes can read what has happened so far
		fmt.Println(err)
	}
	s.Stop()
	result, err := s.Wait()
	if err != nil {
		fmt.Println(err)
		return
	}
	summary, err := result.Summary(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("complete:", summary.Coverage.Complete(), "kernels:", len(summary.Kernels))
}

// An error says what was looked up: cause, fix, and the state of the process.
func ExampleError() {
	_, err := attach.Process(context.Background(), os.Getpid(), attach.Options{Output: os.DevNull + "/t.db"})
	var explained *attach.Error
	if errors.As(err, &explained) {
		fmt.Println(explained.Code == attach.Failed, explained.Target)
	}
	// Output: true not touched
}

// Options that mean nothing are an error before any process is looked at.
func ExampleOptions() {
	_, err := attach.Process(context.Background(), 1, attach.Options{Kinds: []string{"counters"}})
	fmt.Println(err)
	// Output: no kind of record is named "counters": memory-copy, hip-runtime, hip-compiler, hsa-core, hsa-amd, rccl, memory-allocation, scratch-memory, marker
}
