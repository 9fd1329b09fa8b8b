package tracedb

import (
	"errors"
	"sync"
)

// ErrRevoked says that a session may not write any more.
var ErrRevoked = errors.New("the recording was given up")

// Guard lets a recording write its sessions. It is revoked for a recording that is given up
// while a thread of it hangs: when that thread goes on, the file may be complete, or belong
// to the other recordings in it. Several goroutines may call its methods.
type Guard struct {
	mu      sync.Mutex
	revoked bool
}

// Revoke stops all writes of the sessions that were begun with g. It waits for a write that
// is under way.
func (g *Guard) Revoke() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.revoked = true
}

// enter begins a write, which leave ends. A nil Guard lets everything pass.
func (g *Guard) enter() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	if g.revoked {
		g.mu.Unlock()
		return ErrRevoked
	}
	return nil
}

func (g *Guard) leave() {
	if g != nil {
		g.mu.Unlock()
	}
}
