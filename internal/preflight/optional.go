package preflight

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/failure"

	"github.com/moby/sys/capability"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/pausemeter"
	"github.com/rtl-attach/rtl-attach/internal/privilege"
)

// Optional parts: an attach works better with them, and works without them.

func niceCheck() CheckResult {
	if !privilege.Effective(capability.CAP_SYS_NICE) {
		return off("no CAP_SYS_NICE", "stops are made at normal priority: other processes may come in between, and lengthen them", failure.SudoFix)
	}
	return fine("stops are made at real-time priority")
}

func mapFilesCheck() CheckResult {
	if !privilege.Effective(capability.CAP_CHECKPOINT_RESTORE) && !privilege.Effective(capability.CAP_SYS_ADMIN) {
		return off("neither", "a payload's shared memory is opened through the target's descriptors: without those, a resident payload cannot be used", failure.SudoFix)
	}
	return fine("shared memory is opened through its mapping")
}

func filtersCheck() CheckResult {
	if !inject.MayReadFilters() {
		return off("no", "seccomp filters cannot be read: processes that have some are refused",
			"run this as root on the host: it takes CAP_SYS_ADMIN, and no filter on the tool itself")
	}
	return fine("seccomp filters can be read")
}

func stampsCheck() CheckResult {
	source := readLine("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if !TSCIsClock() {
		return off(source, "the processors' time-stamp counters do not agree: launches are stamped by a system call each, which takes longer", "none, short of another machine")
	}
	return fine(source + ": launches are stamped without a system call")
}

// bpfCheck checks whether the kernel's clock can measure pauses.
func bpfCheck() CheckResult {
	if found, fix := missingForBPF(); found != "" {
		return off(found, "pauses are measured by the tool's own clock, which includes waits for a processor, not by the kernel's", fix)
	}
	return fine("BPF can be used: pauses are measured by the kernel's clock")
}

// threadsCheck checks whether threads can be observed.
func threadsCheck() CheckResult {
	found, fix := missingForBPF()
	if release := readLine("/proc/sys/kernel/osrelease"); found == "" && !isAtLeast(release, 5, 19) {
		found, fix = "Linux "+release, "none needed for recording: Linux 5.19 or later has what threads need"
	}
	if found != "" {
		return off(found, "--sample records the Python functions of threads only, by reading the process's memory, or without Python native stacks of running threads by perf events, and --sched nothing", fix)
	}
	return fine("BPF can be used: threads can be sampled, and their waits recorded")
}

// isAtLeast reports whether a kernel's release is not older than a version.
func isAtLeast(release string, major, minor int) bool {
	var x, y int
	_, _ = fmt.Sscanf(release, "%d.%d", &x, &y)
	return x > major || x == major && y >= minor
}

// missingForBPF returns what BPF programs lack here, and what to do; "": nothing.
func missingForBPF() (found, fix string) {
	granted := privilege.Effective(capability.CAP_SYS_ADMIN) ||
		privilege.Effective(capability.CAP_BPF) && privilege.Effective(capability.CAP_PERFMON)
	_, btf := os.Stat("/sys/kernel/btf/vmlinux")
	const none = "none needed for recording"
	switch {
	case readLine("/proc/sys/kernel/unprivileged_bpf_disabled") == "":
		return "no BPF in this kernel", none
	case btf != nil:
		return "no types of this kernel", none
	case !pausemeter.InFirstNamespace():
		return "in another pid namespace than the kernel's", none
	case strings.Contains(readLine("/sys/kernel/security/lockdown"), "[confidentiality]"):
		return "lockdown: confidentiality", none
	case !granted:
		return "uid " + strconv.Itoa(os.Geteuid()) + " without CAP_BPF and CAP_PERFMON", "root on the host has them"
	}
	return "", ""
}
