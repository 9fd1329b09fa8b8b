/* fault.c: see fault.h. */
#include "core/fault.h"

#ifdef RTL_TEST

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define HANG_NS (27 * NS_PER_S)             /* the tool waits for 25 s at most */
#define RECORDER_PATIENCE_NS (2 * NS_PER_S) /* it acquires the control block while the payload arms */

/* Returns when the recorder has been dead for a moment: what this thread does next happens
 * without a recorder. */
static void kill_recorder(void)
{
	uint64_t until = now_monotonic() + RECORDER_PATIENCE_NS, owner;

	if (!control)
		return; /* there is no recorder yet */
	while (!(owner = __atomic_load_n(&control->recorder.owner, __ATOMIC_ACQUIRE)) && now_monotonic() < until)
		sys_sleep_ns(NS_PER_MS);
	pid_t pid = (pid_t)(owner >> 32);
	while (pid > 0 && !kill(pid, SIGKILL) && now_monotonic() < until)
		sys_sleep_ns(NS_PER_MS);
}

static struct rtl_config asked;

void fault_expect(const void *env, uint64_t len)
{
	char err[RTL_TEXT_MAX];

	if (rtl_env_parse(env, len, &asked, err, sizeof err))
		asked.test_fail_step[0] = 0;
}

int fault_at(const char *step)
{
	if (strcmp(asked.test_fail_step, step))
		return 0;
	asked.test_fail_step[0] = 0;
	switch (asked.test_fault) {
	case RTL_TEST_FAULT_HANG:
		sys_sleep_ns(HANG_NS);
		return 0;
	case RTL_TEST_FAULT_DIE:
		kill(getpid(), SIGKILL);
		return 0;
	case RTL_TEST_FAULT_ORPHAN:
		kill_recorder();
		return 0;
	default:
		return -EIO;
	}
}

#endif
