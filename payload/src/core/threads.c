#define _GNU_SOURCE
#include "core/threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/glibc217.h"
#include "core/session_flags.h"

#define STACK_BYTES (256 * 1024) /* what our functions use, and the runtime's below them */
#define TID_SCAN_FROM 0x40 /* past the TCB head */
#define TID_SCAN_TO 0x900  /* struct pthread is 0x900 bytes or so, in every glibc */

static void like_the_main_thread(void)
{
	static const struct {
		int priority;
	} none;
	unsigned long cpus[128]; /* 8,192 CPUs */
	long n = syscall(SYS_sched_getaffinity, syscall(SYS_getpid), sizeof cpus, cpus);

	if (n > 0)
		syscall(SYS_sched_setaffinity, 0, n, cpus);
	if (syscall(SYS_sched_getscheduler, 0) != SCHED_OTHER)
		syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &none);
}

/*
 * A thread that was created and may not have begun. The struct outlives thread_start(): a
 * thread that was given up finds that out here when it gets a CPU.
 */
#define STARTS 4 /* threads that have not begun: a worker, a control thread, and one of each that was given up */
enum { START_FREE, START_OFFERED, START_TAKEN, START_REVOKED };
struct start {
	void *(*run)(void *);
	uint32_t tid;
	uint32_t state; /* futex */
};
static struct start starts[STARTS];

static bool turn(struct start *s, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&s->state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void *begin(void *data)
{
	struct start *s = data;
	void *(*run)(void *) = s->run;

	like_the_main_thread(); /* first: it may have to wait for those CPUs */
	s->tid = (uint32_t)sys_gettid();
	if (!turn(s, START_OFFERED, START_TAKEN)) {
		__atomic_store_n(&s->state, START_FREE, __ATOMIC_RELEASE);
		return NULL;
	}
	futex_wake(&s->state);
	return run(NULL);
}

static struct start *offer(void *(*run)(void *))
{
	for (struct start *s = starts; s < starts + STARTS; s++) {
		if (turn(s, START_FREE, START_OFFERED)) {
			s->run = run;
			return s;
		}
	}
	return NULL;
}

/*
 * glibc takes the __thread data of all modules from the stack, too. This function, which
 * Rust and Java use as well, returns their size plus the least stack. Without it the stack
 * has the default size.
 */
static void size_stack(pthread_attr_t *attr)
{
	size_t (*least)(const pthread_attr_t *) =
		(__typeof__(least))dlsym(RTLD_DEFAULT, "__pthread_get_minstack");

	if (least)
		pthread_attr_setstacksize(attr, STACK_BYTES + least(attr));
}

/* The new thread inherits the mask. Two signals of glibc must stay unblocked: its
 * pthread_sigmask leaves them out, and so does this raw call. */
static int create(pthread_t *out, struct start *s)
{
	uint64_t blocked = ~(1ull << (32 - 1) | 1ull << (33 - 1)), old;
	pthread_attr_t attr;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, &old, sizeof old);
	pthread_attr_init(&attr);
	size_stack(&attr);
	int err = pthread_create(out, &attr, begin, s);
	pthread_attr_destroy(&attr);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
	return -err;
}

/* False: the thread was given up. */
static bool await_taken(struct start *s)
{
	uint64_t until = now_monotonic() + THREAD_START_MOST_NS;

	while (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == START_OFFERED) {
		uint64_t now = now_monotonic();

		if (now < until)
			futex_wait(&s->state, START_OFFERED, until - now);
		else if (turn(s, START_OFFERED, START_REVOKED))
			return false;
	}
	return true;
}

int thread_listed(void)
{
	char link[64]; /* PID/task/TID */
	long n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/thread-self", link, sizeof link - 1);

	link[n > 0 ? n : 0] = 0;
	const char *last = strrchr(link, '/');
	return last ? atoi(last + 1) : sys_gettid();
}

char thread_state(int listed)
{
	char path[48], stat[128]; /* pid (name) state: a name has 15 characters at most */

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", listed);
	long n = read_file(path, stat, sizeof stat - 1);
	stat[n > 0 ? n : 0] = 0;
	const char *name_end = strrchr(stat, ')');
	return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

#define STARVED_MOST_NS (30 * NS_PER_S)
#define ASLEEP_LOOKS 5 /* in a row: then the worker waits neither for a CPU nor for memory */

_Atomic int worker_listed;

struct starved starved_from_now(void)
{
	return (struct starved){.d = deadline_in(STARVED_MOST_NS)};
}

bool worker_is_starved(struct starved *s)
{
	char state = thread_state(atomic_load(&worker_listed));

	s->asleep = state == 'R' || state == 'D' ? 0 : s->asleep + 1;
	return s->asleep <= ASLEEP_LOOKS && deadline_left(&s->d);
}

int thread_start(pthread_t *out, void *(*run)(void *), uint32_t *tid)
{
	struct start *s = offer(run);
	int r = s ? create(out, s) : -EAGAIN;

	if (r || !await_taken(s)) {
		if (!r)
			pthread_detach(*out); /* it is never joined */
		else if (s)
			__atomic_store_n(&s->state, START_FREE, __ATOMIC_RELEASE);
		return r ? r : -ETIMEDOUT;
	}
	*tid = s->tid;
	__atomic_store_n(&s->state, START_FREE, __ATOMIC_RELEASE);
	return 0;
}

const char *thread_error(int err)
{
	return err == -ETIMEDOUT ? "it has got no CPU for 5 s" : strerror(-err);
}

#define JOIN_LOOK_NS (100 * NS_PER_US)

/* Our only cancellation point on threads of the application, which have the session's lock
 * here. (In an older glibc pthread_tryjoin_np is one, too.) */
static bool has_ended(pthread_t t)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	int busy = pthread_tryjoin_np(t, NULL);
	pthread_setcancelstate(before, &before);
	return !busy;
}

/* Polls: glibc's wait with a deadline uses a clock that can be set. */
bool thread_join(pthread_t t, uint64_t timeout_ns)
{
	struct deadline d = deadline_in(timeout_ns);
	bool ended;

	while (!(ended = has_ended(t)) && deadline_left(&d))
		sys_sleep_ns(d.looks ? LAST_LOOK_NS : JOIN_LOOK_NS);
	return ended;
}

static uint32_t word_at(unsigned long offset)
{
	uint32_t v;

	__asm__("movl %%fs:(%1), %0" : "=r"(v) : "r"(offset));
	return v;
}

/* The id is in the lower half of 8 bytes, in every glibc. The upper half of a pointer, such as 0x7fbb, can be an id. */
static uint32_t find_tid(unsigned long from)
{
	uint32_t tid = (uint32_t)sys_gettid();

	for (unsigned long o = from; o < TID_SCAN_TO; o += 8)
		if (word_at(o) == tid)
			return (uint32_t)o;
	return 0;
}

void thread_find_tid_offset(unsigned long given)
{
	uint32_t tid = (uint32_t)sys_gettid();
	bool is_good = given && given < TID_SCAN_TO && given % sizeof tid == 0 && word_at(given) == tid;

	atomic_store(&session_flags.tid_offset, is_good ? (uint32_t)given : find_tid(TID_SCAN_FROM));
}

/* On another thread: a word that was the first one's id by chance, in front of the right one, is not this one's. */
void thread_check_tid_offset(void)
{
	uint32_t offset = atomic_load(&session_flags.tid_offset);

	if (offset && word_at(offset) != (uint32_t)sys_gettid())
		atomic_store(&session_flags.tid_offset, find_tid((offset & ~7u) + 8));
}
