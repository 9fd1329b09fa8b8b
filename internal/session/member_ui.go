package session

import (
	"fmt"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// memberUI passes on messages about one member, and collects the rest for the group.
type memberUI struct {
	member *member

	mu       sync.Mutex
	progress collector.Progress
	paused   time.Duration
	threads  int // paused threads
}

func (u *memberUI) latest() collector.Progress {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.progress
}

func (u *memberUI) who() string { return fmt.Sprintf("pid %d: ", u.member.PID) }

func (u *memberUI) Preflight(string) {}

func (u *memberUI) Attached(how string, threads int, paused time.Duration) {
	u.paused, u.threads = paused, threads
	u.Debug(fmt.Sprintf("%s, %s paused for %s in all", how, humanize.Things(threads, "thread"), humanize.Duration(paused)))
}

func (u *memberUI) Recording(_, _ time.Duration, p collector.Progress, _ uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.progress = p
}

func (u *memberUI) Triggered(what string) { u.member.group.ui.Triggered(what) }

func (u *memberUI) Detaching(why string, _ bool) {
	if why != tracedb.EndInterrupted { // the group ends the window in this way
		u.member.why = why
		u.Debug("detaching: " + why)
	}
}

func (u *memberUI) Detached(how string) { u.Debug("detached: " + how) }

func (u *memberUI) Warn(text string) { u.member.group.ui.Warn(u.who() + text) }

func (u *memberUI) Debug(text string) { u.member.group.ui.Debug(u.who() + text) }
