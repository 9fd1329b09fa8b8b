/* checked.h: waits of a program that notices what is done to it meanwhile. */
#pragma once
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A system call with patterns in all registers and in the red zone (checked.S). */
long checked512(long nr, const long args[6], uint64_t *harm);
long checked256(long nr, const long args[6], uint64_t *harm);

static inline long checked_syscall(long nr, const long args[6], uint64_t *harm)
{
	return (__builtin_cpu_supports("avx512bw") ? checked512 : checked256)(nr, args, harm);
}

static inline uint64_t mask_now(void)
{
	uint64_t mask = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
	return mask;
}

/* Reads one letter, waiting for it without time-out: registers, errno and the
 * signal mask must be the same afterwards. Returns what read does. */
static inline long checked_letter(char *c, uint64_t *harm)
{
	const long args[6] = {0, (long)c, 1};
	uint64_t mask = mask_now(), changed = 0;
	long r;

	errno = ENOTRECOVERABLE;
	r = checked_syscall(SYS_read, args, &changed);
	*harm += changed + (errno != ENOTRECOVERABLE) + (mask_now() != mask) + (r < 0);
	return r;
}
