package preflight

import (
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/inject"
)

// TestFiltersFix: what could not be read although it was asked for is not to be asked for.
func TestFiltersFix(t *testing.T) {
	for asked, fix := range map[bool]string{false: "doctor --read-filters 7", true: "run this again"} {
		e := &examination{limits: limits{readFilters: asked}, feasibility: &inject.Feasibility{Filters: 8}}
		e.request.PID = 7
		if c := e.seccompCheck(); c.Result != Unclear || !strings.Contains(c.Fix, fix) {
			t.Errorf("asked %v: %+v", asked, c)
		}
	}
}
