package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// endSignals returns the signals that end the recording. A signal that was ignored
// when the tool started, as under nohup or behind & in a script, stays ignored:
// Notify would change that.
func endSignals() []os.Signal {
	return slices.DeleteFunc([]os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP}, signal.Ignored)
}

// untilEnded returns a context that ends at the first signal of endSignals.
func untilEnded(parent context.Context) (context.Context, context.CancelFunc) {
	if signals := endSignals(); len(signals) > 0 { // with no signals, NotifyContext takes all
		return signal.NotifyContext(parent, signals...)
	}
	return context.WithCancel(parent)
}

// killAfter is the time after the second signal from which another one kills the tool.
const killAfter = 2 * time.Second

// interrupts handles the signals of a recording. The first one cancels the context:
// the recording ends. The second closes the channel: the drain ends, too. Another one,
// killAfter later, kills the tool: without a recorder the payload detaches by itself.
func interrupts(ui *ui) (context.Context, <-chan struct{}, func()) {
	stop, cancel := context.WithCancel(context.Background())
	skip := make(chan struct{})
	signals := make(chan os.Signal, 4)
	if endings := endSignals(); len(endings) > 0 { // with no signals, Notify takes all
		signal.Notify(signals, endings...)
	}
	signal.Ignore(unix.SIGPIPE) // the tool must detach even if its terminal is closed
	go func() {
		var second time.Time
		for n := 0; ; n++ {
			signalled, open := <-signals
			switch {
			case !open:
				return
			case n == 0:
				ui.interrupted()
				cancel()
				ui.sayInterrupted(signalled)
			case n == 1:
				second = time.Now()
				close(skip)
			case time.Since(second) > killAfter:
				signal.Reset(signalled)
				_ = unix.Kill(unix.Getpid(), signalled.(unix.Signal))
			}
		}
	}()
	return stop, skip, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

// unlessEnded returns work's result, or the context's error if the context ends first.
// work then runs until the tool exits.
func unlessEnded(ended context.Context, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-ended.Done():
		return ended.Err()
	}
}
