package session

import (
	"context"
	"errors"
	"testing"
)

// TestSwitchBeforeSessions: what is switched off before any process of a started program is recorded stays off for the next one,
// if it has windows; of a recording without later processes it is an error.
func TestSwitchBeforeSessions(t *testing.T) {
	ctx := context.Background()
	windowed, plain := &drain{windows: &windows{}}, &drain{}
	c := NewCommands()
	if err := c.Switch(ctx, false); !errors.Is(err, ErrNotRecording) {
		t.Errorf("no process will come: %v", err)
	}
	if c.add(windowed) {
		t.Error("a failed command has an effect")
	}
	c.remove(windowed)
	c.join(true)
	if err := c.Switch(ctx, false); err != nil {
		t.Error(err)
	}
	if !c.add(windowed) || c.add(plain) {
		t.Error("only a process with windows is switched off")
	}
	c.remove(windowed)
	c.remove(plain)
	if err := c.Switch(ctx, true); err != nil || c.add(windowed) {
		t.Errorf("switched on again: %v", err)
	}
	c.remove(windowed)
	c.join(false)
	if err := c.Switch(ctx, false); !errors.Is(err, ErrNotRecording) || c.add(windowed) {
		t.Errorf("a flight recorder: %v", err)
	}
	var none *Commands
	if none.join(true); none.add(plain) {
		t.Error("nil takes requests")
	}
}
