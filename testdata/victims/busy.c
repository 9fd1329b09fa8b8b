/*
 * busy.c: a program with threads of every kind that notices what is done to
 * them. Each argument is one thread, the first of them the leader:
 *
 *   busy [-o KIND] [spin malloc futex read epoll epoll1 sigtimedwait recv sleep
 *        poll ppoll select sem cond pipe altstack sigsuspend ...]
 *
 * It prints "ready" and then answers each line "?" on its standard input with
 * one line of JSON: work done, and harm seen (a register, vector or red zone
 * word that changed, a changed signal mask, an EINTR without a signal). -o says
 * what the answering thread waits in: read (default), poll, epoll or spin.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

long checked_syscall(long nr, const long args[6], uint64_t *harm);
uint64_t spin512(uint64_t rounds);
uint64_t spin256(uint64_t rounds);

struct thread {
	const char *kind;
	int tid;
	_Atomic int ready; /* has all its descriptors */
	_Atomic uint64_t beats, harm, eintr, mask, early, late_ns;
	pthread_t id;
};

enum { THREADS_MAX = 64, MILLI = 1000000 };
static struct thread threads[THREADS_MAX];
static int thread_count;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static uint64_t mask_now(void)
{
	uint64_t mask = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
	return mask;
}

/* One wait, with everything checked around it. */
static long wait6(struct thread *t, long nr, long a, long b, long c, long d, long e, long f)
{
	const long args[6] = {a, b, c, d, e, f};
	uint64_t harm = 0, mask = mask_now();
	long r;

	t->ready = 1;
	r = checked_syscall(nr, args, &harm);
	t->harm += harm;
	t->mask += mask != mask_now();
	/* -512 to -516 are the kernel's own, for its restart logic. */
	t->eintr += r == -EINTR || (r <= -512 && r >= -516);
	t->beats++;
	return r;
}
#define WAIT(t, nr, a, b, c, d) wait6(t, nr, (long)(a), (long)(b), (long)(c), (long)(d), 8, 0)

/* A wait that must last one millisecond at least. */
#define WAIT_1MS(t, nr, a, b, c, d)                     \
	do {                                            \
		uint64_t begin = now(), took;           \
		WAIT(t, nr, a, b, c, d);                \
		took = now() - begin;                   \
		t->early += took < MILLI * 98 / 100;    \
		if (took > MILLI && took - MILLI > t->late_ns) \
			t->late_ns = took - MILLI;      \
	} while (1)

static void kind_spin(struct thread *t)
{
	int wide = __builtin_cpu_supports("avx512bw");

	t->ready = 1;
	for (;;) {
		t->harm += wide ? spin512(2000) : spin256(2000);
		t->beats++;
	}
}

static void kind_malloc(struct thread *t)
{
	void *p[64] = {0};
	unsigned r = (unsigned)t->tid;

	t->ready = 1;
	for (;;) {
		for (int i = 0; i < 2000; i++) {
			unsigned j;

			r = r * 1103515245 + 12345;
			j = r >> 16 & 63;
			free(p[j]);
			p[j] = malloc((r >> 4 & 255) ? (r >> 8 & 0x3fff) + 1 : 200000);
			*(char *)p[j] = 1;
		}
		t->beats++;
	}
}

static void kind_futex(struct thread *t)
{
	static uint32_t word;

	for (;;)
		WAIT(t, SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL);
}

static void kind_read(struct thread *t)
{
	int fd[2];
	char c;

	if (pipe(fd))
		abort();
	for (;;)
		WAIT(t, SYS_read, fd[0], &c, 1, 0);
}

static void kind_epoll(struct thread *t)
{
	struct epoll_event ev;
	int fd = epoll_create1(0);

	for (;;)
		WAIT(t, SYS_epoll_wait, fd, &ev, 1, -1);
}

static void kind_epoll1(struct thread *t)
{
	struct epoll_event ev;
	int fd = epoll_create1(0);

	for (;;)
		WAIT(t, SYS_epoll_wait, fd, &ev, 1, 1);
}

static const struct timespec one_ms = {0, MILLI};

static void kind_sigtimedwait(struct thread *t)
{
	uint64_t set = 1ull << (SIGRTMIN + 5 - 1);

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, sizeof(set));
	WAIT_1MS(t, SYS_rt_sigtimedwait, &set, NULL, &one_ms, sizeof(set));
}

static void kind_recv(struct thread *t)
{
	struct timeval tv = {0, 1000};
	int fd[2];
	char c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		abort();
	setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	t->ready = 1;
	for (;;) {
		const long args[6] = {fd[0], (long)&c, 1, 0, 0, 0};
		uint64_t harm = 0;

		t->eintr += checked_syscall(SYS_recvfrom, args, &harm) == -EINTR;
		t->harm += harm;
		t->beats++;
	}
}

static void kind_sleep(struct thread *t)
{
	WAIT_1MS(t, SYS_nanosleep, &one_ms, NULL, 0, 0);
}

/* A long sleep: its end must not move, however often it is interrupted. */
static void kind_sleep3(struct thread *t)
{
	struct timespec three = {3, 0};

	for (;;) {
		uint64_t begin = now(), took;

		WAIT(t, SYS_nanosleep, &three, NULL, 0, 0);
		took = now() - begin;
		t->early += took < 3000ull * MILLI;
		if (took - 3000ull * MILLI > t->late_ns)
			t->late_ns = took - 3000ull * MILLI;
	}
}

static void kind_poll(struct thread *t)
{
	WAIT_1MS(t, SYS_poll, NULL, 0, 1, 0);
}

static void kind_ppoll(struct thread *t)
{
	uint64_t mask = ~0ull;

	/* The fifth argument, the size of the mask, is WAIT's 8. */
	for (;;)
		WAIT(t, SYS_ppoll, NULL, 0, &((struct timespec){0, MILLI}), &mask);
}

static void kind_select(struct thread *t)
{
	t->ready = 1;
	for (;;) {
		struct timeval tv = {0, 1000};
		const long args[6] = {0, 0, 0, 0, (long)&tv, 0};
		uint64_t harm = 0;

		t->eintr += checked_syscall(SYS_select, args, &harm) == -EINTR;
		t->harm += harm;
		t->beats++;
	}
}

static void kind_timedfutex(struct thread *t)
{
	static uint32_t word;

	WAIT_1MS(t, SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &one_ms);
}

static void kind_cond(struct thread *t)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t c = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&m);
	t->ready = 1;
	for (;;) {
		struct timespec x;

		clock_gettime(CLOCK_REALTIME, &x);
		x.tv_nsec += MILLI;
		if (x.tv_nsec >= 1000000000) {
			x.tv_nsec -= 1000000000;
			x.tv_sec++;
		}
		t->eintr += pthread_cond_timedwait(&c, &m, &x) == EINTR;
		t->beats++;
	}
}

/* A signal with a value, sent by a timer-like partner: all must arrive. */
static _Atomic uint64_t rt_sent, rt_got;
static void on_rt(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	rt_got += info->si_value.sival_int == 7;
}

static void kind_rtsignals(struct thread *t)
{
	struct timespec pause_ns = {0, 100000};

	t->ready = 1;
	for (;;) {
		union sigval v = {.sival_int = 7};

		if (!sigqueue(getpid(), SIGRTMIN + 7, v))
			rt_sent++;
		nanosleep(&pause_ns, NULL);
		t->beats++;
	}
}

static void kind_sigsuspend(struct thread *t)
{
	uint64_t own = 1ull << (SIGUSR2 - 1), during = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &own, NULL, sizeof(own));
	t->ready = 1;
	for (;;) {
		const long args[6] = {(long)&during, sizeof(during)};
		uint64_t harm = 0, mask = mask_now();

		checked_syscall(SYS_rt_sigsuspend, args, &harm);
		t->harm += harm;
		t->mask += mask != mask_now();
		t->beats++;
	}
}

static _Atomic int *alternate_ready;
static void on_alternate(int sig)
{
	int fd[2];
	char c;

	(void)sig;
	if (pipe(fd))
		abort();
	*alternate_ready = 1;
	if (read(fd[0], &c, 1))
		abort();
}

static void kind_altstack(struct thread *t)
{
	static char stack[16384];
	stack_t ss = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction sa = {.sa_handler = on_alternate, .sa_flags = SA_ONSTACK};

	alternate_ready = &t->ready;
	t->beats++;
	sigaltstack(&ss, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	pthread_kill(pthread_self(), SIGUSR1);
}

static void kind_thread(struct thread *t);

static const struct {
	const char *name;
	void (*run)(struct thread *);
} kinds[] = {
	{"spin", kind_spin},     {"malloc", kind_malloc},   {"futex", kind_futex},
	{"read", kind_read},     {"epoll", kind_epoll},     {"epoll1", kind_epoll1},
	{"recv", kind_recv},     {"sleep", kind_sleep},     {"sleep3", kind_sleep3},
	{"poll", kind_poll},     {"ppoll", kind_ppoll},     {"select", kind_select},
	{"timedfutex", kind_timedfutex}, {"cond", kind_cond}, {"sigtimedwait", kind_sigtimedwait},
	{"rtsignals", kind_rtsignals}, {"sigsuspend", kind_sigsuspend}, {"altstack", kind_altstack},
	{"thread", kind_thread},
};

static void *run(void *arg)
{
	struct thread *t = arg;

	t->tid = (int)syscall(SYS_gettid);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, t->kind))
			kinds[i].run(t);
	fprintf(stderr, "busy: no kind %s\n", t->kind);
	exit(2);
}

static void *nothing(void *arg)
{
	return arg;
}

/* Threads come and go all the time. */
static void kind_thread(struct thread *t)
{
	t->ready = 1;
	for (;;) {
		pthread_t id;

		if (!pthread_create(&id, NULL, nothing, NULL))
			pthread_join(id, NULL);
		t->beats++;
	}
}

static void answer(void)
{
	uint64_t harm = 0, eintr = 0, mask = 0, early = 0, beats = 0;

	printf("{\"threads\":[");
	for (int i = 0; i < thread_count; i++) {
		struct thread *t = &threads[i];

		printf("%s{\"kind\":\"%s\",\"tid\":%d,\"beats\":%lu,\"harm\":%lu,\"eintr\":%lu,\"mask\":%lu,"
		       "\"early\":%lu,\"late_ns\":%lu}",
		       i ? "," : "", t->kind, t->tid, t->beats, t->harm, t->eintr, t->mask, t->early, t->late_ns);
		harm += t->harm;
		eintr += t->eintr;
		mask += t->mask;
		early += t->early;
		beats += t->beats;
	}
	printf("],\"beats\":%lu,\"harm\":%lu,\"eintr\":%lu,\"mask\":%lu,\"early\":%lu,\"rt_sent\":%lu,\"rt_got\":%lu}\n",
	       beats, harm, eintr, mask, early, rt_sent, rt_got);
	fflush(stdout);
}

/* Reads one byte of standard input, waiting for it as told. */
static int next_byte(const char *how, int epoll)
{
	struct pollfd p = {.fd = 0, .events = POLLIN};
	struct epoll_event ev;
	char c;

	while (!strcmp(how, "poll") && poll(&p, 1, 20) == 0)
		;
	while (!strcmp(how, "epoll") && epoll_wait(epoll, &ev, 1, 20) == 0)
		;
	while (!strcmp(how, "spin") && poll(&p, 1, 0) == 0)
		;
	return read(0, &c, 1) == 1 ? c : -1;
}

static _Atomic int oracle_ready;
static void *oracle(void *how)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int c, fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, 0, &ev);
	oracle_ready = 1;
	while ((c = next_byte(how, fd)) >= 0)
		if (c == '?')
			answer();
	exit(0); /* the test is over */
}

int main(int argc, char **argv)
{
	static const char *all[] = {"spin",  "malloc", "malloc", "futex",  "read",       "epoll", "epoll1",
				    "recv",  "sleep",  "sleep3", "poll",   "ppoll",      "select", "timedfutex",
				    "cond",  "sigtimedwait", "sigsuspend", "altstack", "futex"};
	struct sigaction sa = {.sa_sigaction = on_rt, .sa_flags = SA_SIGINFO | SA_RESTART};
	const char *how = "read";
	pthread_t id;

	if (argc > 2 && !strcmp(argv[1], "-o")) {
		how = argv[2];
		argc -= 2;
		argv += 2;
	}
	thread_count = argc > 1 ? argc - 1 : (int)(sizeof(all) / sizeof(all[0]));
	if (thread_count > THREADS_MAX)
		return 2;
	sigaction(SIGRTMIN + 7, &sa, NULL);
	for (int i = 0; i < thread_count; i++)
		threads[i].kind = argc > 1 ? argv[i + 1] : all[i];
	for (int i = 1; i < thread_count; i++)
		if (pthread_create(&threads[i].id, NULL, run, &threads[i]))
			return 2;
	if (pthread_create(&id, NULL, oracle, (void *)how))
		return 2;
	while (!oracle_ready)
		usleep(100);
	for (int i = 1; i < thread_count; i++)
		while (!threads[i].ready)
			usleep(100);
	printf("ready\n");
	fflush(stdout);
	run(&threads[0]);
	return 0;
}
