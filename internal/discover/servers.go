package discover

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// server is a GPU process, or several that descend from one child of the given pid.
type server struct {
	head    Process // the child, or the GPU process itself
	workers []Process
}

var errSeveralServers = errors.New("several servers are below it")

// Resolve returns the processes that s selects. Without s.Yes it refuses a pid with several
// servers below it, such as init's or a shell's.
func (s Selection) Resolve() (*Choice, error) {
	c, err := s.resolve()
	if err == nil {
		err = s.selectRanks(c)
	}
	return c, err
}

func (s Selection) resolve() (*Choice, error) {
	c, err := s.choose()
	if err != nil || s.Yes || !s.Tree || len(s.PIDs) == 0 {
		return c, err
	}
	tree, err := target.ReadProcTree()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, pid := range s.PIDs {
		if contains(c.Targets, pid) {
			continue // a GPU process, with its workers
		}
		if err := RefuseSeveral(pid, c.Targets, tree); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// RefuseSeveral returns a *failure.Error if the processes that descend from pid belong to
// several servers.
func RefuseSeveral(pid int, processes []Process, tree target.ProcTree) error {
	servers := serversBelow(pid, processes, tree)
	if len(servers) < 2 || isOneServer(pid, servers) {
		return nil
	}
	name := tree[pid].Comm
	return &failure.Error{
		What:   fmt.Sprintf("pid %d (%s) is no GPU process, and several servers are below it", pid, name),
		Cause:  fmt.Sprintf("%d servers would be meant: %s", len(servers), describeServers(servers)),
		Fix:    "give the pid of one of them, or --yes for all",
		Target: failure.Untouched, Code: failure.Usage, Err: errSeveralServers,
	}
}

// serversBelow groups processes by the child of pid from which they descend.
func serversBelow(pid int, processes []Process, tree target.ProcTree) (servers []server) {
	at := map[int]int{}
	for _, p := range processes {
		head, below := headOf(pid, p, tree)
		if !below {
			continue
		}
		i, known := at[head.PID]
		if !known {
			i = len(servers)
			at[head.PID] = i
			servers = append(servers, server{head: head})
		}
		servers[i].workers = append(servers[i].workers, p)
	}
	return servers
}

// headOf returns the child of pid from which p descends; false: p is not below pid.
func headOf(pid int, p Process, tree target.ProcTree) (head Process, below bool) {
	head = p
	for _, above := range tree.Ancestors(p.PID) {
		if above == pid {
			return head, true
		}
		head = ProcessOf(tree[above])
	}
	return Process{}, false
}

// isOneServer reports whether the servers below pid are the workers of one server: each has
// its own rank from a launcher, or each runs the program of pid, in pid's process group. A
// shell, a supervisor and init start every job in a separate process group.
func isOneServer(pid int, servers []server) bool {
	return haveRanks(servers) || areCopies(pid, servers)
}

func haveRanks(servers []server) bool {
	met := map[int]bool{}
	for _, s := range servers {
		for _, w := range s.workers {
			rank := RankOfPID(w.PID)
			if rank == nil || met[*rank] {
				return false
			}
			met[*rank] = true
		}
	}
	return true
}

func areCopies(pid int, servers []server) bool {
	program, group := programOf(pid)
	if program == "" {
		return false
	}
	for _, s := range servers {
		for _, w := range s.workers {
			if p, g := programOf(w.PID); p != program || g != group {
				return false
			}
		}
	}
	return true
}

// programOf returns the file that a process runs, "" if this user may not read it, and its
// process group.
func programOf(pid int) (file string, group int) {
	file, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "", 0
	}
	group, err = unix.Getpgid(pid)
	if err != nil {
		return "", 0
	}
	return file, group
}

// describeServers lists servers by their heads' pids.
func describeServers(servers []server) string {
	const most = 12
	var words []string
	for i, s := range servers {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(servers)-most))
			break
		}
		word := fmt.Sprintf("pid %d (%s)", s.head.PID, s.head.Command)
		if n := len(s.workers); n > 1 {
			word += fmt.Sprintf(" with %s", humanize.Things(n, "GPU process"))
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
