/*
 * odd.c STATE...: a program that is odd in one or more ways before it says
 * "ready":
 *   nondumpable   it cannot be looked into
 *   fsbase        three threads, named so, run with a thread pointer that is not
 *                 libc's: one works, two wait, one of these with a block on its
 *                 own stack, as libc's are; they notice when it changes
 *   twolibcs      a second libc, in a namespace of its own (dlmopen)
 *   mallocs       two threads allocate and free all the time
 *   polls         it waits for letters in poll
 *   CALL=refuse   seccomp, for all threads: CALL (clone, exec for executable
 *   CALL=kill     mappings, memfd, reboot, restart) is refused, or kills the process
 *   only=N,N...   every call but these, by their numbers, kills the process
 * Letters make it do things:
 *   ?  answer: rounds of work and harm noticed
 *   v  vfork a child that stays until the next letter; answer its status
 *   w  no memory may become executable any more (PR_SET_MDWE); answer errno
 *   n  lower its limit of processes to 1 (RLIMIT_NPROC), N  raise it again; answer errno
 *   e  map executable memory; answer errno
 *   k  switch the main thread's shadow stack on; answer errno
 *   s  install the filters that were named (a GPU program cannot start with them)
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "checked.h"

#ifndef PR_SET_MDWE /* Linux 6.3 */
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

#ifndef ARCH_SHSTK_ENABLE /* Linux 6.6 */
#define ARCH_SHSTK_ENABLE 0x5001
#define ARCH_SHSTK_SHSTK 1
#endif

static _Atomic uint64_t rounds, harm;

/* A thread with a thread pointer that is not libc's. */
static struct stray {
	int waits, own_stack; /* own_stack: there is its block */
	uint32_t parked;
	_Atomic uint64_t looks; /* at itself */
} strays[] = {{0}, {.waits = 1}, {.waits = 1, .own_stack = 1}};
enum { STRAYS = sizeof(strays) / sizeof(strays[0]) };
static int strayed, polls;

/* libc's own would store errno through the thread pointer. Whoever switches its
 * shadow stack on may not return, not even from here. */
__attribute__((always_inline)) static inline long raw4(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return r;
}

/* Never returns to libc: no stack protector, no calls. */
__attribute__((optimize("no-stack-protector"), noinline)) static void live_elsewhere(uint64_t *block, struct stray *s)
{
	raw4(SYS_arch_prctl, ARCH_SET_FS, (long)block, 0, 0);
	for (;;) {
		uint64_t fs = 0, word;

		if (s->waits)
			raw4(SYS_futex, (long)&s->parked, FUTEX_WAIT_PRIVATE, 0, 0);
		raw4(SYS_arch_prctl, ARCH_GET_FS, (long)&fs, 0, 0);
		__asm__ volatile("movq %%fs:8, %0" : "=r"(word));
		harm += fs != (uint64_t)block || word != (uint64_t)(block + 1);
		s->looks++;
		rounds++;
	}
}

static void *elsewhere(void *stray)
{
	struct stray *s = stray;
	uint64_t own[2], *block = own;

	prctl(PR_SET_NAME, "elsewhere");
	if (!s->own_stack)
		block = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	block[0] = 0; /* libc's would hold its own address here */
	block[1] = (uint64_t)(block + 1);
	live_elsewhere(block, s);
	return NULL;
}

/* Each stray looks at itself: one that does not is harmed. */
static void look_all(void)
{
	const time_t patience_s = 5, begin = time(NULL);

	for (struct stray *s = strays; strayed && s < strays + STRAYS; s++) {
		const uint64_t before = s->looks;

		while (s->looks == before && time(NULL) - begin < patience_s) {
			syscall(SYS_futex, &s->parked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
			usleep(200);
		}
		harm += s->looks == before;
	}
}

static void *allocate(void *unused)
{
	unsigned char *p[64] = {0};

	for (unsigned i = 0;; i++) {
		unsigned char **at = &p[i * 2654435761u >> 26];

		if (*at)
			harm += **at != 0x5a;
		free(*at);
		*at = malloc(1 + i % 5000);
		**at = 0x5a;
		rounds++;
	}
	return unused;
}

static void begin(void *(*run)(void *), void *arg)
{
	pthread_t id;

	if (pthread_create(&id, NULL, run, arg))
		exit(2);
}

static void second_libc(void)
{
	void *libm = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW); /* brings its libc along */

	if (!libm) {
		fprintf(stderr, "odd: %s\n", dlerror());
		exit(2);
	}
}

static unsigned call_of(const char *rule)
{
	static const struct {
		const char *name;
		unsigned nr;
	} calls[] = {{"clone", SYS_clone}, {"exec", SYS_mmap}, {"memfd", SYS_memfd_create}, {"reboot", SYS_reboot},
		     {"restart", SYS_restart_syscall}};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strncmp(rule, calls[i].name, strlen(calls[i].name)))
			return calls[i].nr;
	exit(2);
}

static int install(struct sock_filter *code, size_t count)
{
	struct sock_fprog prog = {(unsigned short)count, code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog);
}

static int filter_all_but(const char *numbers)
{
	struct sock_filter code[256] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	size_t n = 1;

	for (char *end; n < 250 && *numbers; numbers = end + (*end == ',')) {
		unsigned nr = (unsigned)strtoul(numbers, &end, 10);

		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	return install(code, n);
}

/* One filter: CALL=refuse or CALL=kill. */
static int filter(const char *rule)
{
	unsigned nr = call_of(rule);
	unsigned action = strstr(rule, "=kill") ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
	unsigned bits = nr == SYS_mmap ? PROT_EXEC : ~0u; /* of the third argument; ~0: whatever it is */
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 4),
		BPF_JUMP(BPF_JMP | BPF_JA, bits == ~0u ? 2 : 0, 0, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return install(code, sizeof(code) / sizeof(code[0]));
}

static int filters(char **rules)
{
	int failed = 0;

	for (; *rules; rules++)
		if (!strncmp(*rules, "only=", 5))
			failed |= filter_all_but(*rules + 5);
		else if (strchr(*rules, '='))
			failed |= filter(*rules);
	return failed;
}

static int limit_processes(int low)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NPROC, &r))
		return -1;
	r.rlim_cur = low ? 1 : r.rlim_max;
	return setrlimit(RLIMIT_NPROC, &r);
}

static int executable_memory(void)
{
	const size_t page = 4096;
	void *p = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? errno : munmap(p, page);
}

static int vfork_until_told(void)
{
	int status = -1;
	char c;
	pid_t child = vfork();

	if (!child)
		_exit(read(0, &c, 1) == 1 ? 0 : 1);
	waitpid(child, &status, 0);
	return status;
}

static void become(const char *state)
{
	if (!strcmp(state, "nondumpable")) {
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	} else if (!strcmp(state, "fsbase")) {
		for (int i = 0; i < STRAYS; i++)
			begin(elsewhere, &strays[i]);
		strayed = 1;
	} else if (!strcmp(state, "twolibcs")) {
		second_libc();
	} else if (!strcmp(state, "mallocs")) {
		begin(allocate, NULL);
		begin(allocate, NULL);
	} else if (!strcmp(state, "polls")) {
		polls = 1;
	} else if (!strchr(state, '=')) {
		fprintf(stderr, "odd: no state %s\n", state);
		exit(2);
	}
}

static int letter(char *c, uint64_t *noticed)
{
	struct pollfd in = {.events = POLLIN};

	if (polls)
		poll(&in, 1, -1);
	return checked_letter(c, noticed);
}

int main(int argc, char **argv)
{
	uint64_t noticed = 0;
	char c;

	for (int i = 1; i < argc; i++)
		become(argv[i]);
	puts("ready");
	fflush(stdout);
	while (letter(&c, &noticed) == 1) {
		if (c == '?') {
			look_all();
			printf("rounds %lu harm %lu\n", rounds, harm + noticed);
		} else if (c == 'v')
			printf("%d\n", vfork_until_told());
		else if (c == 'n' || c == 'N')
			printf("%d\n", limit_processes(c == 'n') ? errno : 0);
		else if (c == 'w')
			printf("%d\n", prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) ? errno : 0);
		else if (c == 'e')
			printf("%d\n", executable_memory());
		else if (c == 'k')
			printf("%ld\n", -raw4(SYS_arch_prctl, ARCH_SHSTK_ENABLE, ARCH_SHSTK_SHSTK, 0, 0));
		else if (c == 's')
			printf("%d\n", filters(argv + 1));
		fflush(stdout);
	}
	exit(0); /* main may have no way back, by its shadow stack */
}
