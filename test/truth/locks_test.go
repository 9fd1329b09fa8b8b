package truth

import (
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

// Rings in the GPU's memory that take no locked instructions: the payload writes into them, and never by one. Which
// instructions the simulator looks at is a sample; TestViolations of test/simulator shows that it finds locked ones.
func TestDeviceLocks(t *testing.T) {
	needsSecretMemory(t)
	for name, args := range map[string][]string{"plain": nil, "extended": {"--extended", "2"}} {
		t.Run(name, func(t *testing.T) {
			w := harness.Stress(10, 5, 64, append(args, "--pace", "300")...)
			w.Sim = []string{"SOFTGPU_MODE=no-locks"}
			p := harness.Start(t, w)
			var runs []harness.Run
			for range 3 {
				runs = append(runs, recordToRest(t, p))
			}
			payload := p.Code(t, func(path string) bool { return strings.Contains(path, "rtl-payload") })
			runs = append(runs, p.RecordLast(t, 300*time.Millisecond, 1000))
			c := check(t, p, p.TIDs(), runs...)
			c.MustHaveRecorded(500)
			if ours := c.WritersIn(payload); len(ours) < 2 { // a signal comes, and goes
				t.Errorf("%d instructions of the payload's were seen: this shows little", len(ours))
			}
		})
	}
}
