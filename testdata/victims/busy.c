/*
 * busy.c: a program with threads of every kind that notices what is done to
 * them. Each argument is one thread, the first of them the leader:
 *
 *   busy [-o KIND] [spin malloc futex read epoll epoll1 sigtimedwait recv sleep
 *        poll ppoll select sem cond pipe altstack sigsuspend ...]
 *
 * It prints "ready" and then answers each line "?" on its standard input with
 * one line of JSON: work done, and harm seen (a register, vector or red zone
 * word, errno, an alternate stack or a disposition that changed, a changed
 * signal mask, an EINTR without a signal). Threads in waits without end are
 * woken for that, to look at themselves. -o says what the answering thread
 * waits in: read (default), poll, epoll, spin, or coroutine, read on a stack of
 * its own making.
 */
#include "busy.h"

#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>

struct thread threads[THREADS_MAX];
int thread_count;

uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void (*find_kind(const char *name))(struct thread *)
{
	const struct kind *const all[] = {loop_kinds, wait_kinds, signal_kinds, stack_kinds};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (const struct kind *k = all[i]; k->name; k++)
			if (!strcmp(k->name, name))
				return k->run;
	fprintf(stderr, "busy: no kind %s\n", name);
	exit(2);
}

static void *run(void *arg)
{
	enum { ALTERNATE_BYTES = 64 << 10 };
	struct thread *t = arg;

	t->tid = (int)syscall(SYS_gettid);
	t->id = pthread_self();
	t->alternate = (stack_t){.ss_sp = malloc(ALTERNATE_BYTES), .ss_size = ALTERNATE_BYTES};
	sigaltstack(&t->alternate, NULL);
	find_kind(t->kind)(t);
	return NULL;
}

/* The kernel's view of all dispositions, as one number. */
static uint64_t dispositions(void)
{
	uint64_t hash = 1469598103934665603u;

	for (int sig = 1; sig <= 64; sig++) {
		uint64_t action[4] = {0};

		syscall(SYS_rt_sigaction, sig, NULL, action, sizeof(uint64_t));
		for (int i = 0; i < 4; i++)
			hash = (hash ^ action[i]) * 1099511628211u;
	}
	return hash;
}

/* A thread that does not come back from its wait is harmed. */
static void wake(struct thread *t)
{
	uint64_t before = t->beats, begin = now();

	if (!t->wake)
		return;
	while (t->beats == before && now() - begin < 5000ull * MILLI) {
		t->wake(t); /* again: it may have been in a signal handler */
		usleep(200);
	}
	t->harm += t->beats == before;
}

/* Signals on their way arrive. */
static void settle_signals(void)
{
	uint64_t begin = now();

	lull = 1;
	while ((sending || rt_sent != rt_got) && now() - begin < 5000ull * MILLI)
		usleep(200);
}

static uint64_t dispositions_before;

static void answer(void)
{
	uint64_t harm = 0, eintr = 0, mask = 0, early = 0, beats = 0;

	settle_signals();
	printf("{\"threads\":[");
	for (int i = 0; i < thread_count; i++) {
		struct thread *t = &threads[i];

		wake(t);
		printf("%s{\"kind\":\"%s\",\"tid\":%d,\"beats\":%lu,\"harm\":%lu,\"eintr\":%lu,\"mask\":%lu,"
		       "\"early\":%lu,\"late_ns\":%lu}",
		       i ? "," : "", t->kind, t->tid, t->beats, t->harm, t->eintr, t->mask, t->early, t->late_ns);
		harm += t->harm;
		eintr += t->eintr;
		mask += t->mask;
		early += t->early;
		beats += t->beats;
	}
	printf("],\"beats\":%lu,\"harm\":%lu,\"eintr\":%lu,\"mask\":%lu,\"early\":%lu,\"rt_sent\":%lu,\"rt_got\":%lu,"
	       "\"timer_due\":%lu,\"timer_ticks\":%lu,\"dispositions\":%d}\n",
	       beats, harm, eintr, mask, early, rt_sent, rt_got, timer_due, timer_ticks,
	       dispositions() != dispositions_before);
	lull = 0;
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

static void *listen_to(void *how)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int c, fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, 0, &ev);
	for (int i = 0; i < thread_count; i++)
		while (!threads[i].ready)
			usleep(100);
	dispositions_before = dispositions();
	printf("ready\n");
	fflush(stdout);
	while ((c = next_byte(how, fd)) >= 0)
		if (c == '?')
			answer();
	exit(0); /* the test is over */
}

static void *oracle(void *how)
{
	if (!strcmp(how, "coroutine"))
		on_coroutine(listen_to, how);
	return listen_to(how);
}

static int start(struct thread *t)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	if (!strcmp(t->kind, "tiny"))
		pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN);
	return pthread_create(&t->id, &attr, run, t);
}

int main(int argc, char **argv)
{
	static const char *all[] = {"spin",  "malloc", "malloc", "futex",  "read",       "epoll", "epoll1",
				    "recv",  "sleep",  "sleep3", "poll",   "ppoll",      "select", "timedfutex",
				    "cond",  "sigtimedwait", "sigsuspend", "altstack", "futex"};
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
	for (int i = 0; i < thread_count; i++)
		threads[i].kind = argc > 1 ? argv[i + 1] : all[i];
	for (int i = 1; i < thread_count; i++)
		if (start(&threads[i]))
			return 2;
	if (pthread_create(&id, NULL, oracle, (void *)how))
		return 2;
	run(&threads[0]);
	return 0;
}
