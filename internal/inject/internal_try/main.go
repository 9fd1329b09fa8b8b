package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

func init() { runtime.LockOSThread() }

func main() {
	pid, _ := strconv.Atoi(os.Args[1])
	t, err := target.Open(pid)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	lib, _ := os.ReadFile(os.Args[2])
	r, err := inject.Inject(context.Background(), t, ptrace.NewTracer(), inject.Request{Library: lib, Entry: os.Args[3]})
	fmt.Printf("%+v\n%v\n", r, err)
}
