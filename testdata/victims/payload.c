/*
 * payload.c: what tests inject. Its entries count their calls.
 *   SECOND             another library with the same entry
 *   UNDEFINED          needs a symbol that nobody has
 *   SLOW_CONSTRUCTOR   its constructor ends when the file $RTL_HOLD is gone, or after 3 s without one
 *   CRASH_CONSTRUCTOR  its constructor dies
 *   FAIL               its entry returns -EBUSY
 *   BIG_TLS            wants more static TLS than is left
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static int calls;

#ifdef UNDEFINED
extern int rtl_nobody_has_this(void);
int rtl_call_it(void) { return rtl_nobody_has_this(); }
#endif
#ifdef SLOW_CONSTRUCTOR
__attribute__((constructor)) static void slow(void)
{
	const char *held = getenv("RTL_HOLD");

	if (!held)
		sleep(3);
	while (held && !access(held, F_OK))
		usleep(10000);
}
#endif
#ifdef CRASH_CONSTRUCTOR
__attribute__((constructor)) static void crash(void) { __builtin_trap(); }
#endif
#ifdef BIG_TLS
static __thread char big[1 << 20];
EXPORT char *rtl_big(void) { return big; }
#endif

/* 0 and the number of calls so far plus the length of env; the buffer's last
 * byte must be its length modulo 256. */
EXPORT int rtl_attach(const void *env, uint64_t len)
{
	const unsigned char *b = env;

#ifdef SECOND
	calls += 1000;
#endif
#ifdef FAIL
	return -EBUSY;
#endif
	if (len && b[len - 1] != (len & 255))
		return -EINVAL;
	return ++calls + (int)len * 10000;
}

EXPORT int rtl_fail(const void *env, uint64_t len)
{
	(void)env;
	(void)len;
	return -EBUSY;
}

/* Takes 2 s. */
EXPORT int rtl_slow(const void *env, uint64_t len)
{
	(void)env;
	(void)len;
	return usleep(2000000);
}

/* Are we a proper thread: all signals blocked but 32 and 33? */
EXPORT int rtl_mask(const void *env, uint64_t len)
{
	/* SIGKILL and SIGSTOP cannot be blocked, 32 and 33 must not be. */
	const uint64_t expected = ~(1ull << 8 | 1ull << 18 | 1ull << 31 | 1ull << 32);
	uint64_t mask = 0;

	(void)env;
	(void)len;
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
	return mask != expected;
}

/* Dies. */
EXPORT int rtl_crash(const void *env, uint64_t len)
{
	(void)env;
	(void)len;
	__builtin_trap();
}
