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

// A tool that dies between the loading of the payload and its entry leaves a
// copy that has no control block, and that nobody will ever unload. It is used
// instead of a second copy: a target never has more than one of a build.

const (
	bootThread  = "rtl-boot" // as the bootstrap's thread calls itself (internal/inject/boot)
	bootPeriod  = 5 * time.Millisecond
	bootTimeout = 10 * time.Second // it leaves by itself when its tool is silent for two
	notesBytes  = 4096             // the build id lies in the payload's first page
)

// awaitBootstrap lets the bootstrap of a dead tool leave: it may be loading the
// payload, or entering it. A live tool's cannot be there, as the lock is ours.
func (r *recording) awaitBootstrap(ctx context.Context) {
	tick := time.NewTicker(bootPeriod)
	defer tick.Stop()
	for deadline := time.Now().Add(bootTimeout); time.Now().Before(deadline) && r.hasBootstrap(); {
		select {
		case <-ctx.Done():
			return
		case <-r.gone:
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

// strandedEntry finds the entry of a copy of our build that is loaded, once no
// thread is loading it any more.
func (r *recording) strandedEntry() (target.Addr, bool) {
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

// enter calls rtl_attach in the target: of a stranded copy, or of one that is
// loaded for it.
func (r *recording) enter(ctx context.Context, env []byte) (*inject.Report, error) {
	if entry, ok := r.strandedEntry(); ok {
		rep, err := inject.Inject(ctx, r.Target, r.tracer,
			inject.Request{EntryAddr: entry, Env: env, Progress: r.progress})
		if err != nil || rep.EntryResult != -int32(unix.ECHILD) {
			return rep, err
		}
		r.notePauses(rep, "attach") // a parent's, inherited by fork: of no use here
	}
	return inject.Inject(ctx, r.Target, r.tracer,
		inject.Request{Library: r.Library, Entry: "rtl_attach", Env: env, Progress: r.progress})
}
