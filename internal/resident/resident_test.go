package resident

import (
	"errors"
	"os"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// TestUnfinished: between the mapping of its control block and the block's first words a
// payload is not there yet, and nothing is wrong with it.
func TestUnfinished(t *testing.T) {
	payload := ringtest.NewTarget(t)
	self, err := target.OpenLight(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	payload.Control.Magic = 0
	if _, err := Open(self); !errors.Is(err, ErrNone) || !errors.Is(err, ring.ErrUnfinished) {
		t.Errorf("nothing in it: %v", err)
	}
	payload.Control.Magic = 1
	if _, err := Open(self); !errors.Is(err, ring.ErrMalformed) {
		t.Errorf("something else in it: %v", err)
	}
}
