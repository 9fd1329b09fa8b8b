package hostile

import (
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestLook: ps, doctor and avail keep the promises, too, whatever they look at; and
// what stands in a payload's place, or an image's, they predict or call unclear. A
// process that makes each look at it long may be named as one that ps could not look
// into in time.
func TestLook(t *testing.T) {
	for _, c := range []string{
		"hostile honest", "hostile names", "hostile scribble", "hostile short", "hostile unsealed", "hostile bare",
		"hostile stub", "hostile swap", "hostile holders", "hostile text", "hostile mute",
		"hostile_image plain", "hostile_image maps 60000", "hostile_image loop", "hostile_image long 5000",
		"hostile_image wild", "hostile_image threads 64", "hostile_image groups", "hostile_image groups 2000", "hostile_image fifo",
		"hostile_image boot 0", "hostile_image boot 1", "hostile_image names", "hostile_image stall",
	} {
		t.Run(c, func(t *testing.T) {
			words := strings.Fields(c)
			v := victim.Start(t, words[0], words[1:]...)
			pid := strconv.Itoa(v.PID)
			for _, args := range [][]string{{"doctor", pid}, {"doctor", "--json", pid}, {"avail", pid}, {"avail", "--json", pid}, {"ps"}, {"ps", "--json"}} {
				codes := []int{0}
				if args[0] != "ps" {
					codes = []int{0, 1, 3, 4}
				}
				said := ""
				names := func() bool {
					r := tool(t, args...)
					r.end(t, codes...)
					said = r.Stdout.String() + r.Stderr.String()
					return strings.Contains(said, pid)
				}
				// On a busy machine ps may give up on many processes, of which it names one.
				if !names() && (!strings.Contains(said, "could not be read in time") || !hang.Eventually(names)) {
					t.Errorf("%v does not name it:\n%.2000s", args, said)
				}
			}
		})
	}
}
