/* sync.c: waits with deadlines, and threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/sys.h"
#include "embed.h"
#include "glibc217.h"

void condition_init(struct condition *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->cond, &attr);
	pthread_condattr_destroy(&attr);
}

bool condition_wait(struct condition *c, pthread_mutex_t *m, uint64_t until_ns)
{
	struct timespec t = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};

	if (until_ns == UINT64_MAX)
		return !pthread_cond_wait(&c->cond, m);
	return pthread_cond_timedwait(&c->cond, m, &t) != ETIMEDOUT;
}

uint64_t deadline_after_ms(uint32_t ms)
{
	return now_monotonic() + ms * NS_PER_MS;
}

/* glibc's own signals 32 and 33 stay unblocked: its pthread_sigmask leaves them out, and so does this raw call. */
int embed_thread_start(pthread_t *out, void *(*run)(void *), void *data)
{
	uint64_t blocked = ~(1ull << (32 - 1) | 1ull << (33 - 1)), old;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, &old, sizeof old);
	int err = pthread_create(out, NULL, run, data);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
	return -err;
}

void embed_thread_join(pthread_t t)
{
	pthread_join(t, NULL);
}
