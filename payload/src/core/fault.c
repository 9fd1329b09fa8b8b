/* fault.c: see fault.h. */
#include "core/fault.h"

#ifdef RTL_TEST

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>


#define HANG_NS (27 * NS_PER_S)             /* the tool waits for 25 s at most */
#define RECORDER_PATIENCE_NS (2 * NS_PER_S) /* it takes the control block while we arm */

/* Returns when the recorder is dead and has been so for a moment: what comes
 * next in this thread happens without it. */
static void kill_recorder(void)
{
	uint64_t until = now_monotonic() + RECORDER_PATIENCE_NS, owner;

	if (!control)
		return; /* it is not known yet */
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
