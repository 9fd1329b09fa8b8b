/*
 * privileges.c: before anything else runs, this process drops the capabilities
 * that the tool never needs. Capabilities belong to threads: at this moment the
 * process has one thread, from which all others inherit.
 */
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ONE(cap) (UINT64_C(1) << (cap))
#define PERFMON 38 /* since Linux 5.8 */
#define BPF 39
#define CHECKPOINT_RESTORE 40 /* since Linux 5.9 */

static const uint64_t needed =
	/* to read the target's memory, mappings and seccomp filters */
	ONE(CAP_SYS_PTRACE) | ONE(CHECKPOINT_RESTORE) | ONE(CAP_SYS_ADMIN) | ONE(CAP_KILL) |
	/* for short stops, and to collect at a lower priority than the target's */
	ONE(CAP_SYS_NICE) | ONE(CAP_SYS_RESOURCE) |
	/* the stops as the scheduler sees them */
	ONE(BPF) | ONE(PERFMON) |
	/* the trace in the user's folder, the payload in a folder of the target's */
	ONE(CAP_CHOWN) | ONE(CAP_DAC_OVERRIDE) | ONE(CAP_DAC_READ_SEARCH) | ONE(CAP_FOWNER) |
	/* to drop all of these while collecting */
	ONE(CAP_SETUID) | ONE(CAP_SETGID);

__attribute__((constructor)) static void drop_capabilities(int argc, char **argv)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	/* The program that is started has the user's own rights, and inherits this process's (run.go). */
	if (argc > 1 && !strcmp(argv[1], "run"))
		return;
	/* Best effort: the tool also works with more capabilities than it needs. */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_capget, &head, data))
		return;
	for (int i = 0; i < 2; i++) {
		uint32_t keep = (uint32_t)(needed >> (32 * i));

		data[i].effective &= keep;
		data[i].permitted &= keep;
		data[i].inheritable = 0;
	}
	syscall(SYS_capset, &head, data);
}
