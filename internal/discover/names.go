package discover

import (
	"fmt"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
)

// Names lists processes by their command names; a server may have many of one name.
func Names(list []Process) string {
	const most = 8
	var order []string
	pids := map[string][]int{}
	for _, c := range list {
		if len(pids[c.Command]) == 0 {
			order = append(order, c.Command)
		}
		pids[c.Command] = append(pids[c.Command], c.PID)
	}
	var words []string
	for i, name := range order {
		if i == most {
			words = append(words, "and "+humanize.Things(len(order)-most, "name")+" more")
			break
		}
		if n := len(pids[name]); n > 1 {
			words = append(words, fmt.Sprintf("%s ×%d", name, n))
		} else {
			words = append(words, fmt.Sprintf("%s (pid %d)", name, pids[name][0]))
		}
	}
	return strings.Join(words, ", ")
}
