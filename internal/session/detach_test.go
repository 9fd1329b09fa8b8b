package session

import (
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// The payload's deadlines end before the tool's, even on a busy machine.
func TestDetachTimeouts(t *testing.T) {
	const margin = 5 * time.Second
	most := ring.DetachMostMS * time.Millisecond
	for _, k := range envbuf.Keys {
		if k.Name == envbuf.DrainTimeout {
			most += time.Duration(k.Default) * time.Millisecond
		}
	}
	if most+margin > detachTimeout {
		t.Errorf("a detach may take %v, the tool waits %v", most, detachTimeout)
	}
	if detachTimeout+margin > handOver {
		t.Errorf("a recorder may detach for %v, another waits %v for it", detachTimeout, handOver)
	}
}
