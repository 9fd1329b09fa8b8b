package discover

import (
	"os"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

func number(n int) *int { return &n }

// ended is a target with a pid that nobody has.
func ended(pid, parent int, command string, rank *int) Tracked {
	return Tracked{Process: Process{PID: pid, StartTicks: 1, Command: command, parent: parent}, Rank: rank}
}

// TestMatchPredecessor: a late worker takes the place of the target with its rank, or of the only
// one that can be meant.
func TestMatchPredecessor(t *testing.T) {
	living := Tracked{Process: Process{PID: os.Getpid(), Command: "serve", parent: 7}, Rank: number(2)}
	two := []Tracked{ended(4194304, 7, "serve", number(0)), ended(4194305, 7, "serve", number(1)), living}
	for name, c := range map[string]struct {
		targets []Tracked
		n       LateWorker
		want    int
	}{
		"its rank":             {two, LateWorker{Process{9, 2, "serve", 7}, number(1), 0}, 4194305},
		"two without its rank": {two, LateWorker{Process{9, 2, "serve", 7}, nil, 0}, 0},
		"who lives":            {two[2:], LateWorker{Process{9, 2, "serve", 7}, number(2), 0}, 0},
		"the only one":         {two[1:], LateWorker{Process{9, 2, "serve", 7}, nil, 0}, 4194305},
		"another rank":         {two[1:], LateWorker{Process{9, 2, "serve", 7}, number(5), 0}, 0},
		"another parent":       {two[1:], LateWorker{Process{9, 2, "serve", 8}, nil, 0}, 0},
		"another program":      {two[1:], LateWorker{Process{9, 2, "sh", 7}, nil, 0}, 0},
	} {
		var said []string
		l := &WorkerWatcher{note: func(n LateWorker) { said = append(said, n.Warning("")) }}
		for _, one := range c.targets {
			l.Track(one)
		}
		l.add(c.n)
		l.add(c.n) // seen again
		if len(l.found) != 1 || l.found[0].replaces != c.want || len(said) != 1 {
			t.Errorf("%s: %+v, %q", name, l.found, said)
		}
		if c.want != 0 && !strings.Contains(said[0], "takes the place of pid ") {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// TestOurs: below what was meant, or beside a target that has ended.
func TestOurs(t *testing.T) {
	tree := target.ProcTree{
		5: {PID: 5, Parent: 1, Comm: "front"}, 7: {PID: 7, Parent: 5}, 8: {PID: 8, Parent: 7, Comm: "w"},
		9: {PID: 9, Parent: 1, Comm: "w"}, 10: {PID: 10, Parent: 1, Comm: "sh"}, 11: {PID: 11, Parent: 12}, 12: {PID: 12, Parent: 11},
	}
	infoOf := func(pid int) (target.ProcInfo, bool) { k, ok := tree[pid]; return k, ok }
	below := &WorkerWatcher{selection: Selection{Tree: true}, roots: []int{5}}
	beside, living := &WorkerWatcher{}, &WorkerWatcher{}
	beside.Track(ended(20, 7, "w", nil))
	beside.Track(ended(21, 1, "w", nil))
	living.Track(Tracked{Process: Process{PID: os.Getpid(), parent: 7}})
	for pid, want := range map[int][3]bool{7: {true}, 8: {true, true}, 9: {false, true}, 10: {}, 11: {}} {
		got := [3]bool{below.isOurs(tree[pid], infoOf), beside.isOurs(tree[pid], infoOf), living.isOurs(tree[pid], infoOf)}
		if got != want {
			t.Errorf("pid %d: %v, want %v", pid, got, want)
		}
	}
}
