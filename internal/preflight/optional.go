package preflight

import (
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
	granted := privilege.Effective(capability.CAP_SYS_ADMIN) ||
		privilege.Effective(capability.CAP_BPF) && privilege.Effective(capability.CAP_PERFMON)
	_, btf := os.Stat("/sys/kernel/btf/vmlinux")
	const without = "pauses are measured by the tool's own clock, which includes waits for a processor, not by the kernel's"
	switch {
	case readLine("/proc/sys/kernel/unprivileged_bpf_disabled") == "":
		return off("no BPF in this kernel", without, "none needed for recording")
	case btf != nil:
		return off("no types of this kernel", without, "none needed for recording")
	case !pausemeter.InFirstNamespace():
		return off("in another pid namespace than the kernel's", without, "none needed for recording")
	case strings.Contains(readLine("/sys/kernel/security/lockdown"), "[confidentiality]"):
		return off("lockdown: confidentiality", without, "none needed for recording")
	case !granted:
		return off("uid "+strconv.Itoa(os.Geteuid())+" without CAP_BPF and CAP_PERFMON", without, "root on the host has them")
	}
	return fine("BPF can be used: pauses are measured by the kernel's clock")
}
