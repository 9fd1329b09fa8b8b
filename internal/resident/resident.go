// Package resident finds a payload that is loaded in a target: its control block, its ring,
// its entry points, and the recorder that holds it.
package resident

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
)

// ErrNone means that the target has no payload, has only inherited one by fork, or has one that
// another tool is still loading.
var ErrNone = errors.New("no payload is resident")

// Open maps the control block of the payload that the target has loaded. The error is
// ErrNone if there is no payload.
func Open(t *target.Target) (*ring.Control, error) {
	found, err := t.FindMemfd(ring.ControlName)
	if err != nil {
		return nil, err
	}
	refusal := ErrNone
	for _, m := range found {
		c, err := openControl(t, m)
		if err == nil {
			return c, nil
		}
		refusal = err
	}
	return nil, refusal
}

func openControl(t *target.Target, m target.MemfdMapping) (*ring.Control, error) {
	f, err := t.OpenMemfd(m)
	if err != nil {
		return nil, fmt.Errorf("open the control block: %w", err)
	}
	defer f.Close()
	c, err := ring.OpenControl(f)
	if errors.Is(err, ring.ErrUnfinished) {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err != nil {
		return nil, err
	}
	c.Sent = testpoint.Sent
	own := t.NSPID[len(t.NSPID)-1]
	if s := c.Snapshot(); int(s.PID) != own {
		return nil, errors.Join(fmt.Errorf("control block says pid %d, the target is %d: %w", s.PID, own, ErrNone), c.Close())
	}
	return c, nil
}

// OpenRing maps the ring of the session that s describes. maxBytes bounds what a hostile
// control block can make the tool map.
func OpenRing(t *target.Target, s ring.Snapshot, maxBytes uint64) (*ring.Reader, error) {
	found, err := t.FindMemfd(ring.RingName)
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		if m.Inode != s.RingInode {
			continue
		}
		f, err := t.OpenMemfd(m)
		if err != nil {
			return nil, fmt.Errorf("open the ring: %w", err)
		}
		defer f.Close()
		return ring.Open(f, s.Generation, maxBytes)
	}
	return nil, fmt.Errorf("the target has no mapping of its ring: %w", ring.ErrMalformed)
}

// IsImage reports whether m may be the first mapping of a payload's image. An application that records itself
// has it in librtl.so.
func IsImage(m target.Map) bool {
	return m.Offset == 0 && (strings.HasPrefix(m.Path, "/memfd:") || strings.Contains(m.Path, "librtl-attach") ||
		strings.Contains(m.Path, "/librtl.so"))
}

// EntryPoint returns the address of the function that the resident payload exports by that
// name.
func EntryPoint(t *target.Target, name string) (target.Addr, error) {
	maps, err := t.Maps()
	if err != nil {
		return 0, err
	}
	for _, m := range maps {
		if !IsImage(m) {
			continue
		}
		image, err := target.OpenImage(t, m.Start)
		if err != nil {
			continue // another program's memfd
		}
		if addr, ok, err := image.Symbol(name); ok && err == nil {
			return addr, nil
		}
	}
	return 0, fmt.Errorf("the resident payload has no %s: %w", name, ErrNone)
}

// UnlessAbsent returns nil if err means that there is no payload (no process, or none in it), and
// otherwise err.
func UnlessAbsent(err error) error {
	if errors.Is(err, ErrNone) || target.IsAbsent(err) {
		return nil
	}
	return err
}
