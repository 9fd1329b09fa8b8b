/* edge_sessions.c: sessions that end at a bad moment. */
#define _GNU_SOURCE
#include "edge.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control.h"
#include "entry.h"
#include "hooks.h"
#include "session.h"
#include "worker.h"
#include "wrappers.h"

/* exit() in a signal handler, in the middle of a publication. */
static void exit_inside_doorbell(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(queue_trylock(queue_find(q)));
	wrap_queue_destroy(q); /* an exit handler */
	OnUnload();
	CHECK(control->last_end == RTL_END_SHUT_DOWN);
	CHECK(counters->timed_pool == 1);
}

/* A thread that stays in a doorbell puts a detach off, not out of reach. */
static void detach_waits_for_doorbell(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	struct queue *s = queue_find(q);
	CHECK(queue_trylock(s));
	CHECK(rtl_detach() == -EBUSY);
	queue_unlock(s);
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == 2);
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
}

static void *detach(void *unused)
{
	rtl_detach();
	return unused;
}

/* The runtime does not end under a detach that waits for a slow kernel. */
static void shut_down_during_drain(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	pthread_t other;

	begin("RTL_DRAIN_TIMEOUT_MS", "60000");
	submit(q, 0x1000);
	take_packet(q); /* and it goes on for ever */
	pthread_create(&other, NULL, detach, NULL);
	while (control->state != RTL_STATE_DRAINING)
		sys_yield();
	sys_sleep_ns(20 * NS_PER_MS); /* into the drain */
	wrap_shut_down();
	CHECK(control->state == RTL_STATE_DORMANT);
	pthread_join(other, NULL);
}

static void *shut_down_cancelled(void *unused)
{
	pthread_cancel(pthread_self()); /* takes effect at the next cancellation point */
	wrap_shut_down();
	return unused;
}

/* A thread that is to be cancelled ends the session, and then itself. */
static void cancelled_in_shut_down(void)
{
	pthread_t other;

	begin(NULL, NULL);
	pthread_create(&other, NULL, shut_down_cancelled, NULL);
	pthread_join(other, NULL);
	CHECK(control->state == RTL_STATE_DORMANT);
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
}

/* A child of a process in which HSA_TOOLS_LIB has loaded the payload. */
static void child_of_tools_lib(void)
{
	struct rtl_status s;
	int status;

	CHECK(OnLoad(NULL, 0, 0, NULL));
	pid_t child = fork();
	if (!child) {
		CHECK(!OnLoad(NULL, 0, 0, NULL));
		CHECK(rtl_status(&s) == 0 && s.control_tid == 0);
		CHECK(rtl_detach() == -ENOENT);
		OnUnload();
		_exit(0);
	}
	waitpid(child, &status, 0);
	CHECK(status == 0);
}

const struct edge_case session_cases[] = {
	{"exit inside a doorbell", exit_inside_doorbell},
	{"detach waits for a doorbell", detach_waits_for_doorbell},
	{"shut down during a drain", shut_down_during_drain},
	{"cancelled in shut down", cancelled_in_shut_down},
	{"child of HSA_TOOLS_LIB", child_of_tools_lib},
	{0},
};
