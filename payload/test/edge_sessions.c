/* edge_sessions.c: sessions that end at a bad moment. */
#define _GNU_SOURCE
#include "edge.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/shared_hooks.h"
#include "core/session_flags.h"
#include "core/threads.h"
#include "kinds/dispatch/publish.h"
#include "record/event.h"
#include "record/ring.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "session/session.h"
#include "toy.h"
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
	OnUnload();
	OnUnload(); /* as the destructor does */
	CHECK(control->last_end == RTL_END_SHUT_DOWN);
	CHECK(atomic_load(&session_flags.track)); /* the queue is still virtual */
	CHECK(counters->timed_pool == 1);
	queue_unlock(queue_find(q)); /* the process goes on: another hsa_init has kept the runtime */
	CHECK(rtl_detach() == 0 && control->state == RTL_STATE_DORMANT);
	CHECK(control->last_end == RTL_END_SHUT_DOWN);
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
}

/* The same, and exit handlers destroy the queue: no thread publishes there any more, and the
 * session ends. So does one with a thread that sleeps there, and leaves in the end. */
static void destroyed_inside_doorbell(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	struct queue *s = queue_find(q);
	CHECK(queue_trylock(s));
	submit(q, 0x1000); /* for the holder to publish */
	wrap_queue_destroy(q);
	CHECK(!queue_find(q));
	CHECK(worker_round(ROUND_MOST_NS));
	queue_unlock(s);
	queue_drain_pend(s);
	CHECK(worker_round(ROUND_MOST_NS));
	CHECK(t.amd.write_dispatch_id == 1);
	CHECK(rtl_detach() == 0 && control->state == RTL_STATE_DORMANT);
	CHECK(counters->timed_pool == 1);
}

/* A thread that stays in a doorbell delays a detach until it has left. */
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

/* The runtime does not end while a detach waits for a slow kernel. */
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

static pthread_t canceller;

static void *shut_down(void *unused)
{
	wrap_shut_down();
	return unused;
}

static void *exit_process(void *unused)
{
	OnUnload();
	return unused;
}

static void cancel_by(void *(*thread)(void *))
{
	pthread_create(&canceller, NULL, thread, NULL);
	while (!__atomic_load_n(&session_cancelled, __ATOMIC_RELAXED))
		sys_yield();
}

static void shut_down_begins(void)
{
	cancel_by(shut_down);
}

static void exit_begins(void)
{
	cancel_by(exit_process);
}

/* A cancel that comes when a detach has just got the lock cuts its drain short. */
static void cancel_at_the_first_moment(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin("RTL_DRAIN_TIMEOUT_MS", "600000");
	submit(q, 0x1000);
	take_packet(q); /* and it goes on for ever */
	after_lock = shut_down_begins;
	CHECK(rtl_detach() == 0);
	pthread_join(canceller, NULL);
	CHECK(control->state == RTL_STATE_DORMANT && !session_cancelled);
}

static void cancel_is_there(void)
{
	CHECK(session_cancelled);
}

/* The same when an attach has just got the lock: the grace period ends. */
static void cancel_of_an_attach(void)
{
	CHECK(OnLoad(NULL, 0, 0, NULL));
	at_grace = cancel_is_there;
	after_lock = exit_begins;
	CHECK(rtl_reattach("\0\0\0", 4) == 0);
	pthread_join(canceller, NULL);
	CHECK(control->state == RTL_STATE_DORMANT && !session_cancelled);
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

/* A thread in a wrapper takes an outcome and sleeps until its session has ended: that session
 * counts it, and no other records it. */
static void event_of_another_session(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin("RTL_DRAIN_TIMEOUT_MS", "10");
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(worker_round(ROUND_MOST_NS));
	struct queue *s = queue_find(q);
	struct event late = {
		.kind = RTL_KIND_DISPATCH,
		.what = EVENT_UNTIMED,
		.lane = lane_of(RTL_KIND_DISPATCH, s),
		.reason = RTL_REASON_REARMED,
		.generation = control->generation,
		.in_transit = 1,
	};
	s->in_transit = 1; /* the worker has seen that the outcome was taken */
	CHECK(rtl_detach() == 0);
	CHECK(counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_NOT_COMPLETED] == 1 && counters->records_lost == 1);

	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(event_push(&late));
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == 1);
	CHECK(counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_REARMED] == 0 && counters->records_lost == 0);
}

/* A forked child that goes on has the ring's descriptor: the ring's memory is freed all the same. */
static void child_has_the_ring(void)
{
	enum { SIZE = 1 << 20 };
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	uint64_t size, inode;
	int fd, ended[2], status;
	struct stat st;
	char word;

	begin("RTL_BUFFER_SIZE", "1048576");
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(worker_round(ROUND_MOST_NS));
	ring_describe(&size, &inode, &fd);
	CHECK(!pipe(ended));
	pid_t child = fork();
	if (!child) {
		close(ended[1]);
		CHECK(read(ended[0], &word, 1) == 1);
		CHECK(!fstat(fd, &st) && st.st_ino == inode && st.st_blocks * 512 <= 3 * RTL_PAGE);
		_exit(0);
	}
	struct rtl_ring *ring = map_ring();
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	const struct rtl_header *last = (struct rtl_header *)((char *)ring + RTL_PAGE + head);
	__atomic_store_n(&ring->tail, head, __ATOMIC_RELEASE);
	CHECK(rtl_detach() == 0);
	CHECK(ring->ended && ring->head > head && last->type == RTL_TYPE_WINDOW); /* what was not read is still there */
	CHECK(write(ended[1], "", 1) == 1);
	waitpid(child, &status, 0);
	CHECK(status == 0);
	munmap(ring, RTL_PAGE + SIZE);
}

/* The application closes all descriptors that it does not know, and reuses their numbers. */
static void descriptor_is_another_files(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	static char bytes[1 << 20] = {[0 ... (1 << 20) - 1] = 'x'}, there[sizeof bytes];
	uint64_t size, inode;
	int fd, of_ring;

	begin("RTL_BUFFER_SIZE", "65536");
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(worker_round(ROUND_MOST_NS));
	ring_describe(&size, &inode, &of_ring);
	struct rtl_ring *ring = map_ring();
	fd = memfd_create("application", 0);
	CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
	CHECK(dup2(fd, of_ring) == of_ring && dup2(fd, (int)control->control_fd) >= 0);
	CHECK(rtl_detach() == 0 && ring->ended);
	CHECK(pread(of_ring, there, sizeof there, 0) == sizeof there && !memcmp(bytes, there, sizeof bytes));
	CHECK(fcntl((int)control->control_fd, F_GETFD) >= 0);
	munmap(ring, RTL_PAGE + 65536);
}

/* A state cannot be used again while a thread is inside. The packets of its queue count once. */
static void destroyed_with_a_thread_inside(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(worker_round(ROUND_MOST_NS));
	struct queue *s = queue_find(q);
	atomic_fetch_add(&s->inflight, 1);
	wrap_queue_destroy(q);
	for (int i = 0; i < 5; i++)
		CHECK(worker_round(ROUND_MOST_NS));
	CHECK(counters->kind[RTL_KIND_DISPATCH].begun == 1);
	atomic_fetch_sub(&s->inflight, 1);
	for (int i = 0; i < 5; i++)
		CHECK(worker_round(ROUND_MOST_NS));
	CHECK(counters->kind[RTL_KIND_DISPATCH].begun == 1 && !atomic_load(&s->in_use));
	CHECK(rtl_detach() == 0);
	CHECK(counters->kind[RTL_KIND_DISPATCH].begun == 1);
}

static struct toy_queue code_queue;

/* Its thread holds the names' lock; a signal handler calls exit() there. */
static hsa_status_t exit_in_destroy(hsa_executable_t e)
{
	hsa_queue_t *q = &code_queue.amd.hsa_queue;

	(void)e;
	submit(q, 0x2000); /* the worker has not named it yet */
	fire(take_packet(q));
	OnUnload();
	return HSA_STATUS_SUCCESS;
}

/* exit() in a signal handler, in the middle of an executable's destruction. */
static void exit_inside_executable_destroy(void)
{
	make_queue(&code_queue, 1);
	shared_hooks[EXECUTABLE_DESTROY].next = (uintptr_t)exit_in_destroy;
	begin(NULL, NULL);
	wrap_executable_destroy((hsa_executable_t){1});
	CHECK(control->last_end == RTL_END_SHUT_DOWN);
	CHECK(control->state == RTL_STATE_DORMANT);
}

/* A seccomp filter refuses the question whether a ring is mapped. */
static void withdrawn_without_asking(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(t.ring[0].completion_signal.handle);
	no_read_memory = true;
	CHECK(rtl_detach() == 0);
	CHECK(!t.ring[0].completion_signal.handle);
}

/* A wrong offset is neither read nor used. */
static void thread_id_offset_out_of_bounds(void)
{
	static const char env[] = "\1\0\0\0RTL_THREAD_ID_OFFSET\00065536";
	uint32_t found;

	CHECK(rtl_attach(env, sizeof env) == -EINVAL);
	thread_find_tid_offset(0);
	CHECK((found = atomic_load(&session_flags.tid_offset)));
	thread_find_tid_offset(1ul << 46);
	CHECK(atomic_load(&session_flags.tid_offset) == found);
	thread_find_tid_offset(found + 1);
	CHECK(atomic_load(&session_flags.tid_offset) == found);
}

/* 4 bytes of this thread's descriptor that glibc does not use. */
#define UNUSED_AT 0x100
static uint32_t *unused(unsigned long at)
{
	char *self;

	__asm__("movq %%fs:0x10, %0" : "=r"(self));
	return (uint32_t *)(self + UNUSED_AT + at);
}

static void *check_on_another_thread(void *right)
{
	thread_check_tid_offset();
	CHECK(atomic_load(&session_flags.tid_offset) == *(uint32_t *)right);
	CHECK(current_tid() == (uint32_t)sys_gettid());
	return NULL;
}

/* A word in front of the thread's id has the same value: half of a pointer, or a whole word. */
static void thread_id_by_chance(void)
{
	uint32_t right;
	pthread_t t;

	thread_find_tid_offset(0);
	CHECK((right = atomic_load(&session_flags.tid_offset)) > UNUSED_AT + 8);
	CHECK(!*unused(0) && !*unused(4));
	*unused(4) = (uint32_t)sys_gettid();
	thread_find_tid_offset(0);
	CHECK(atomic_load(&session_flags.tid_offset) == right);
	*unused(0) = (uint32_t)sys_gettid();
	thread_find_tid_offset(0);
	CHECK(atomic_load(&session_flags.tid_offset) == UNUSED_AT);
	CHECK(!pthread_create(&t, NULL, check_on_another_thread, &right));
	CHECK(!pthread_join(t, NULL));
	*unused(0) = *unused(4) = 0;
}

const struct edge_case session_cases[] = {
	{"withdrawn without asking", withdrawn_without_asking},
	{"thread id's offset out of bounds", thread_id_offset_out_of_bounds},
	{"thread id by chance", thread_id_by_chance},
	{"exit inside a doorbell", exit_inside_doorbell},
	{"destroyed inside a doorbell", destroyed_inside_doorbell},
	{"detach waits for a doorbell", detach_waits_for_doorbell},
	{"shut down during a drain", shut_down_during_drain},
	{"cancel at the first moment of a detach", cancel_at_the_first_moment},
	{"cancel at the first moment of an attach", cancel_of_an_attach},
	{"cancelled in shut down", cancelled_in_shut_down},
	{"event of another session", event_of_another_session},
	{"child has the ring", child_has_the_ring},
	{"descriptor is another file's", descriptor_is_another_files},
	{"destroyed with a thread inside", destroyed_with_a_thread_inside},
	{"exit inside an executable's destruction", exit_inside_executable_destroy},
	{"child of HSA_TOOLS_LIB", child_of_tools_lib},
	{0},
};
