/* busy_stacks.c: threads on stacks that are not their own. */
#include "busy.h"

#include <sys/mman.h>
#include <ucontext.h>

static struct thread *on_it; /* one alternate stack is in use */

static void on_alternate(int sig)
{
	(void)sig;
	on_it->alternate.ss_flags = SS_ONSTACK;
	kind_sleep(on_it);
}

/* In a signal handler, on the alternate stack, for good. */
static void kind_altstack(struct thread *t)
{
	struct sigaction sa = {.sa_handler = on_alternate, .sa_flags = SA_ONSTACK};

	on_it = t;
	sigaction(SIGUSR1, &sa, NULL);
	pthread_kill(pthread_self(), SIGUSR1);
}

struct job {
	void *(*fn)(void *);
	void *arg;
};
static _Thread_local struct job job;

static void run_job(void)
{
	job.fn(job.arg);
}

void on_coroutine(void *(*fn)(void *), void *arg)
{
	enum { STACK_BYTES = 128 << 10 };
	static _Thread_local ucontext_t here, there;

	job = (struct job){fn, arg};
	getcontext(&there);
	there.uc_stack.ss_sp =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	there.uc_stack.ss_size = STACK_BYTES;
	there.uc_link = &here;
	makecontext(&there, run_job, 0);
	if (there.uc_stack.ss_sp == MAP_FAILED || swapcontext(&here, &there))
		abort();
}

static void *wait_there(void *t)
{
	kind_futex(t);
	return NULL;
}

static void kind_coroutine(struct thread *t)
{
	on_coroutine(wait_there, t);
}

/* main gives it the smallest stack there is. */
static void kind_tiny(struct thread *t)
{
	kind_futex(t);
}

const struct kind stack_kinds[] = {
	{"altstack", kind_altstack}, {"coroutine", kind_coroutine}, {"tiny", kind_tiny}, {NULL, NULL},
};
