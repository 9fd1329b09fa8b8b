package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
)

// notifier tells the program that has started this one how the recording goes, through the descriptor of
// --notify-fd (clib/rocattach.c). The recording ends when the other end of it is closed. A nil notifier tells
// nobody.
type notifier struct {
	file *os.File
	told atomic.Bool // that the recording has begun
}

// newNotifier returns the notifier for a descriptor; nil for 0.
func newNotifier(fd int) *notifier {
	if fd <= 0 {
		return nil
	}
	unix.CloseOnExec(fd)
	return &notifier{file: os.NewFile(uintptr(fd), "--notify-fd")}
}

// until returns a context that ends with ctx, or when the other end is closed.
func (n *notifier) until(ctx context.Context) context.Context {
	if n == nil {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, n.file)
		cancel()
	}()
	return ctx
}

// attached tells that the recording has begun.
func (n *notifier) attached() {
	if n != nil && n.told.CompareAndSwap(false, true) {
		n.tell("attached")
	}
}

// concluded tells how the recording has ended, or why it has not begun.
func (n *notifier) concluded(code failure.ExitCode, err error) {
	switch {
	case n == nil:
	case n.told.Load():
		var explained *failure.Error
		if errors.As(err, &explained) {
			code = explained.Code
		}
		n.tell(fmt.Sprintf("ended %d", code))
	case err != nil:
		n.tell(failureLine(code, err))
	default: // it has ended at once
		n.tell("attached")
		n.tell(fmt.Sprintf("ended %d", code))
	}
}

func failureLine(code failure.ExitCode, err error) string {
	text := err.Error()
	var explained *failure.Error
	if errors.As(err, &explained) {
		code = explained.Code
		text = fmt.Sprintf("%s; cause: %s; fix: %s", explained.What, explained.Cause, explained.Fix)
	}
	return fmt.Sprintf("failed %d %s", code, line(text))
}

// tell writes one line. An error means that the other end is closed: the recording ends then.
func (n *notifier) tell(text string) { _, _ = io.WriteString(n.file, text+"\n") }
