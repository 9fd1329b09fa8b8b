package attach_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// Record some kernels by their names, and copies, and go through the events. TestExamples runs this with a server on a
// simulated GPU.
func ExampleResult_Events() {
	wanted := regexp.MustCompile(`silu_and_mul|rms_norm`)
	s, err := attach.Process(context.Background(), server.pid, attach.Options{
		Output: server.folder + "/events.db",
		Kinds:  []string{"memory-copy"},
		Filter: attach.Filter{Include: wanted, GPUs: "0"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server.work() // the time to record
	s.Stop()
	result, err := s.Wait()
	if err != nil {
		fmt.Println(err)
		return
	}
	named, onGPU, inOrder, last := true, true, true, int64(0)
	count := map[string]int{}
	for event, err := range result.Events(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		count[event.Kind]++
		onGPU = onGPU && event.GPU == 0
		inOrder = inOrder && event.StartNS >= last && event.EndNS >= event.StartNS
		last = event.StartNS
		if event.Kind == attach.Kernel {
			named = named && wanted.MatchString(event.Name)
		}
	}
	fmt.Printf("kernels by name: %v, on GPU 0: %v, in order: %v, copies: %v\n",
		named && count[attach.Kernel] > 0, onGPU, inOrder, count["memory-copy"] > 0)
}

// Leave a phase of a process out. TestExamples runs this with a server on a simulated GPU.
func ExampleSession_Disable() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := attach.Process(ctx, server.pid, attach.Options{Output: server.folder + "/phases.db", Switchable: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	server.work() // recorded
	if err := s.Disable(ctx); err != nil {
		fmt.Println(err)
	}
	server.work() // not recorded, at the speed of a process that nothing is attached to
	if err := s.Enable(ctx); err != nil {
		fmt.Println(err)
	}
	server.work() // recorded
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
	fmt.Println("sessions:", len(summary.Sessions))
}

// Keep the last ten seconds, and write them when something has happened. TestExamples runs this with a server on a
// simulated GPU.
func ExampleSession_Trigger() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := attach.Process(ctx, server.pid, attach.Options{
		Output: server.folder + "/last.db",
		Keep:   attach.Keep{Last: 10 * time.Second, Triggers: []string{"gap>30m"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server.work() // until something happens
	path, err := s.Trigger(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Stop()
	if _, err := s.Wait(); err != nil {
		fmt.Println(err)
	}
	summary, err := attach.Result{Path: path}.Summary(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(filepath.Base(path), "kernels:", len(summary.Kernels))
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
