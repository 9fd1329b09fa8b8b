package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/control"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

// commanded is what lets others command a recording.
type commanded struct {
	servers []*control.Server
	signals chan os.Signal
}

// signalLimit limits how long a signal waits for its trace.
const signalLimit = 30 * time.Second

// takeCommands lets signals and control channels command the recording that o describes.
func takeCommands(o *session.Options, channels []string, ui *ui) (*commanded, error) {
	o.Commands = session.NewCommands()
	c := &commanded{signals: make(chan os.Signal, 4)}
	h := handler{o.Commands}
	for _, channel := range channels {
		s, err := control.Open(channel, h)
		if err != nil {
			c.close(ui)
			return nil, failure.NoControl(channel, err)
		}
		c.servers = append(c.servers, s)
	}
	if err := c.openPrivate(h); err != nil {
		ui.Debug("rtl-attach trigger and flush cannot reach this recorder: " + failure.FirstLine(err))
	}
	if o.Flight != nil {
		signal.Notify(c.signals, unix.SIGUSR1)
		go c.obey(o.Commands, ui)
	}
	return c, nil
}

func (c *commanded) openPrivate(h control.Handler) error {
	self, err := resident.Self()
	if err != nil {
		return err
	}
	s, err := control.OpenPrivate(self, h)
	if err == nil {
		c.servers = append(c.servers, s)
	}
	return err
}

// obey triggers the flight recorder at each SIGUSR1.
func (c *commanded) obey(to *session.Commands, ui *ui) {
	for range c.signals {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), signalLimit)
			defer cancel()
			if o, err := to.Trigger(ctx, "SIGUSR1"); err != nil && o.Err == nil { // the recorder reports its own errors
				ui.Warn("SIGUSR1: " + failure.FirstLine(err))
			}
		}()
	}
}

// close closes the channels, and removes the files that they had.
func (c *commanded) close(ui *ui) {
	signal.Stop(c.signals)
	close(c.signals)
	for _, s := range c.servers {
		if err := s.Close(); err != nil {
			ui.Warn("control channel: " + failure.FirstLine(err))
		}
	}
}

// handler carries out the commands of control channels.
type handler struct{ commands *session.Commands }

func (h handler) Enable(ctx context.Context) error  { return h.commands.Switch(ctx, true) }
func (h handler) Disable(ctx context.Context) error { return h.commands.Switch(ctx, false) }

func (h handler) Flush(ctx context.Context) error { return h.commands.Flush(ctx) }

func (h handler) Trigger(ctx context.Context) (control.Written, error) {
	o, err := h.commands.Trigger(ctx, "rtl-attach trigger")
	if err != nil {
		return control.Written{}, err
	}
	path, err := filepath.Abs(o.Path)
	return control.Written{Number: o.Number, File: path}, err
}

func (h handler) Stop() { h.commands.Stop() }

func (h handler) State() any { return h.commands.State() }
