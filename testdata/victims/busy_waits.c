/* busy_waits.c: threads that wait, in every system call that knows how. */
#include "busy.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>

static int alternate_changed(const struct thread *t)
{
	stack_t is;

	sigaltstack(NULL, &is);
	return is.ss_sp != t->alternate.ss_sp || is.ss_flags != t->alternate.ss_flags ||
	       is.ss_size != t->alternate.ss_size;
}

long wait6(struct thread *t, long nr, long a, long b, long c, long d, long e, long f)
{
	const long args[6] = {a, b, c, d, e, f};
	uint64_t harm = 0, mask = mask_now();
	long r;

	errno = ENOTRECOVERABLE;
	t->ready = 1;
	r = checked_syscall(nr, args, &harm);
	t->harm += harm + (errno != ENOTRECOVERABLE) + (uint64_t)alternate_changed(t);
	t->mask += mask != mask_now();
	/* -512 to -516 are the kernel's own, for its restart logic. */
	t->eintr += r == -EINTR || (r <= -512 && r >= -516);
	t->beats++;
	return r;
}

void wake_futex(struct thread *t)
{
	syscall(SYS_futex, &t->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void kind_futex(struct thread *t)
{
	t->wake = wake_futex;
	for (;;)
		WAIT(t, SYS_futex, &t->word, FUTEX_WAIT_PRIVATE, 0, NULL);
}

static void wake_write(struct thread *t)
{
	if (write(t->wake_fd, "12345678", 8) != 8)
		abort();
}

static void kind_read(struct thread *t)
{
	int fd[2];
	char c[8];

	if (pipe(fd))
		abort();
	t->wake_fd = fd[1];
	t->wake = wake_write;
	for (;;)
		WAIT(t, SYS_read, fd[0], c, sizeof(c), 0);
}

static void kind_epoll(struct thread *t)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int fd = epoll_create1(0);
	uint64_t n;

	t->wake_fd = eventfd(0, 0);
	epoll_ctl(fd, EPOLL_CTL_ADD, t->wake_fd, &ev);
	t->wake = wake_write;
	for (;;) {
		WAIT(t, SYS_epoll_wait, fd, &ev, 1, -1);
		if (read(t->wake_fd, &n, sizeof(n)) != sizeof(n))
			abort();
	}
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

void kind_sleep(struct thread *t)
{
	WAIT_1MS(t, SYS_nanosleep, &one_ms, NULL, 0, 0);
}

/* A long wait: its end must not move, however often it is interrupted. */
static void wait_3s(struct thread *t, long nr, long a, long b, long c)
{
	for (;;) {
		uint64_t begin = now(), took;

		WAIT(t, nr, a, b, c, NULL);
		took = now() - begin;
		t->early += took < 3000ull * MILLI;
		if (took - 3000ull * MILLI > t->late_ns)
			t->late_ns = took - 3000ull * MILLI;
	}
}

static void kind_sleep3(struct thread *t)
{
	const struct timespec three = {3, 0};

	wait_3s(t, SYS_nanosleep, (long)&three, 0, 0);
}

static void kind_poll3(struct thread *t)
{
	wait_3s(t, SYS_poll, 0, 0, 3000);
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

const struct kind wait_kinds[] = {
	{"futex", kind_futex},   {"read", kind_read},     {"epoll", kind_epoll},
	{"epoll1", kind_epoll1}, {"recv", kind_recv},     {"sleep", kind_sleep},
	{"sleep3", kind_sleep3}, {"poll3", kind_poll3},   {"poll", kind_poll},
	{"ppoll", kind_ppoll},   {"select", kind_select}, {"cond", kind_cond},
	{"timedfutex", kind_timedfutex}, {"sigtimedwait", kind_sigtimedwait}, {NULL, NULL},
};
