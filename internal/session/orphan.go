package session

import (
	"bytes"
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// If a tool dies after it has loaded the payload and before it has called its entry, it
// leaves an orphaned copy, which has no control block and is never unloaded. The next attach
// uses this copy instead of a second one: a target never has two copies of one build.

const (
	bootThread  = "rtl-boot" // name of the bootstrap thread (internal/inject/boot)
	bootPeriod  = 5 * time.Millisecond
	bootTimeout = 10 * time.Second // the thread ends after two seconds without a command
	notesBytes  = 4096             // the payload's first page has the build id
)

// awaitBootstrap waits until the bootstrap thread of a dead tool has ended: it may still load
// the payload, or call its entry. It cannot be a live tool's: this tool holds the lock.
func (r *recording) awaitBootstrap(ctx context.Context) {
	tick := time.NewTicker(bootPeriod)
	defer tick.Stop()
	for deadline := time.Now().Add(bootTimeout); time.Now().Before(deadline) && r.hasBootstrap(); {
		select {
		case <-ctx.Done():
			return
		case <-r.watch.gone:
			return
		case <-tick.C:
		}
	}
}

func (r *recording) hasBootstrap() bool {
	threads, err := r.Target.Threads()
	if err != nil {
		return false
	}
	for _, tid := range threads {
		if stat, err := r.Target.ThreadStat(tid); err == nil && stat.Comm == bootThread {
			return true
		}
	}
	return false
}

// orphanEntry returns the entry point of an orphaned copy of this tool's payload build, if
// there is one and no thread is still loading it.
func (r *recording) orphanEntry() (target.Addr, bool) {
	maps, err := r.Target.Maps()
	if err != nil || r.hasBootstrap() {
		return 0, false
	}
	for _, m := range maps {
		notes := make([]byte, notesBytes)
		if !resident.IsImage(m) || r.Target.Read(m.Start, notes) != nil || !bytes.Contains(notes, r.Build) {
			continue
		}
		if image, err := target.OpenImage(r.Target, m.Start); err == nil {
			if entry, ok, err := image.Symbol("rtl_attach"); ok && err == nil {
				return entry, true
			}
		}
	}
	return 0, false
}

// enter calls rtl_attach in the target, in an orphaned copy or in a copy that it loads.
func (r *recording) enter(ctx context.Context, env []byte) (*inject.Report, error) {
	if entry, ok := r.orphanEntry(); ok {
		rep, err := inject.Inject(ctx, r.Target, r.tracer,
			inject.Request{EntryAddr: entry, Env: env, Progress: r.progress})
		if err != nil || rep.EntryResult != -int32(unix.ECHILD) {
			return rep, err
		}
		r.notePauses(rep, "attach") // inherited by fork from the parent: of no use here
	}
	return inject.Inject(ctx, r.Target, r.tracer,
		inject.Request{Library: r.Library, Entry: "rtl_attach", Env: env, Progress: r.progress})
}
