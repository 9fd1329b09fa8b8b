/* worker.c: the worker's rounds, and the waits of other threads for them. */
#define _GNU_SOURCE
#include "record/worker.h"

#include <pthread.h>
#include <sys/prctl.h>

#include "core/clocks.h"
#include "core/session_flags.h"
#include "core/threads.h"
#include "kinds/kind.h"
#include "record/event.h"
#include "record/lanes.h"
#include "record/names.h"
#include "record/ring.h"
#include "record/session_end.h"

#define PERIOD_LEAST_NS (50 * NS_PER_US)
#define PERIOD_MOST_NS (2 * NS_PER_MS)
#define SLICE_NS (100 * NS_PER_US)
#define PERIOD_DRAIN_NS (100 * NS_PER_US)
#define COMPLETIONS_MANY 400 /* in one round: the next one comes sooner */
#define COMPLETIONS_FEW 100  /* the next one comes later */

static pthread_t thread;
static uint32_t wake_word; /* futex: changed by a thread that wants a round now */
static _Atomic uint32_t asked, done; /* rounds; done follows asked */
static uint32_t done_word;           /* futex: done has changed */
static _Atomic uint64_t outstanding, undelivered_bytes; /* after the last round */
static _Atomic uint32_t draining, abandoning, stopping;
static _Atomic uint32_t tid;
static struct session_end ending;

static void take(const struct event *e, bool abandon)
{
	switch (e->kind) {
#define KIND(number, ID, object, name)     \
	case RTL_KIND_##ID:                \
		object##_take(e, abandon); \
		break;
#include "kinds/kinds.def"
	}
}

static uint64_t take_events(void)
{
	uint32_t generation = atomic_load(&session_flags.generation);
	uint64_t most = atomic_load(&draining) ? UINT64_MAX : EVENT_CELLS, n = 0; /* there is other work */
	bool abandon = atomic_load(&abandoning);
	struct event e;

	for (; n < most && event_pop(&e); n++)
		if (LIKELY(e.generation == generation))
			take(&e, abandon); /* else it is of an earlier session, which has counted it at its end */
	return n;
}

static void update_counters(void)
{
	struct timespec t;

	kinds_update_counters();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	__atomic_store_n(&counters->worker_cpu_ns, (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec, __ATOMIC_RELAXED);
	TALLY(worker_rounds);
	if (lanes_caught_up())
		TALLY(lane_rounds);
}

/* Stores changes only: every wrapper reads that line. */
static void set_full(bool full)
{
	if (full != atomic_load_explicit(&session_flags.full, memory_order_relaxed))
		atomic_store_explicit(&session_flags.full, full, memory_order_relaxed);
}

/* Returns how much there was to do. */
static uint64_t one_round(void)
{
	uint32_t request = atomic_load(&asked); /* before anything is looked at */
	uint64_t n = take_events(), now = now_boottime();

	clocks_sample();
	n += kinds_poll(now, atomic_load(&abandoning));
	n += take_events() + lanes_take();
	ring_flush(); /* before what may take milliseconds */
	set_full(ring_is_full());
	if (!atomic_load(&draining))
		kinds_make_ready();
	update_counters();
	atomic_store(&outstanding, kinds_outstanding() + events_pushed() - events_popped() + lanes_waiting());
	atomic_store(&undelivered_bytes, ring_waiting_bytes());
	if (atomic_exchange(&done, request) != request) {
		__atomic_fetch_add(&done_word, 1, __ATOMIC_RELEASE);
		futex_wake(&done_word);
	}
	return n;
}

static uint64_t next_period(uint64_t period, uint64_t completions)
{
	if (atomic_load(&draining))
		return PERIOD_DRAIN_NS;
	if (completions > COMPLETIONS_MANY)
		period /= 2;
	else if (completions < COMPLETIONS_FEW)
		period *= 2;
	return period < PERIOD_LEAST_NS ? PERIOD_LEAST_NS : period > PERIOD_MOST_NS ? PERIOD_MOST_NS : period;
}

static void *run(void *unused)
{
	uint64_t period = PERIOD_LEAST_NS;

	prctl(PR_SET_NAME, "rtl-worker");
	prctl(PR_SET_TIMERSLACK, 1000);
	sys_short_slices(SLICE_NS);
	atomic_store(&worker_listed, thread_listed());
	thread_check_tid_offset();
	while (!atomic_load(&stopping)) {
		uint32_t word = __atomic_load_n(&wake_word, __ATOMIC_ACQUIRE);

		period = next_period(period, one_round());
		if (atomic_load(&asked) == atomic_load(&done) && !atomic_load(&stopping))
			futex_wait(&wake_word, word, period);
	}
	atomic_store(&draining, 1); /* also where an arming has failed */
	one_round();
	session_end_count();
	session_end_write(&ending);
	return unused;
}

int worker_start(void)
{
	atomic_store(&draining, 0);
	atomic_store(&abandoning, 0);
	atomic_store(&stopping, 0);
	atomic_store(&tid, 0);
	atomic_store(&worker_listed, 0);
	atomic_store(&session_flags.full, 0);
	clocks_start();
	uint32_t started = 0;
	int err = thread_start(&thread, run, &started), unlisted = 0;
	atomic_store(&tid, started);
	atomic_compare_exchange_strong(&worker_listed, &unlisted, (int)started); /* until it says itself how /proc lists it */
	events_set_consumer(!err);
	return err;
}

static void kick_worker(void)
{
	__atomic_fetch_add(&wake_word, 1, __ATOMIC_RELEASE);
	futex_wake(&wake_word);
}

static uint32_t ask_for_round(void)
{
	return atomic_fetch_add(&asked, 1) + 1;
}

static bool await_round(uint32_t mine, uint64_t timeout_ns)
{
	struct deadline d = deadline_in(timeout_ns);

	while (worker_tid()) {
		uint32_t word = __atomic_load_n(&done_word, __ATOMIC_ACQUIRE);
		uint64_t left;

		if ((int32_t)(atomic_load(&done) - mine) >= 0)
			return true;
		if (!(left = deadline_left(&d)))
			return false;
		kick_worker();
		futex_wait(&done_word, word, left < 10 * NS_PER_MS ? left : 10 * NS_PER_MS);
	}
	return false;
}

bool worker_round(uint64_t timeout_ns)
{
	return await_round(ask_for_round(), timeout_ns);
}

bool worker_drain(uint64_t timeout_ns, const uint32_t *skip, const uint32_t *cancel)
{
	uint64_t from = now_monotonic(), until = from + timeout_ns;
	bool dry = false;

	atomic_store(&draining, 1);
	do {
		uint64_t now = now_monotonic();

		if (!worker_round(now < until ? until - now : WORKER_DRAIN_OVER_NS))
			break;
		dry = atomic_load(&outstanding) == 0;
		if (!dry)
			sys_sleep_ns(PERIOD_DRAIN_NS);
	} while (!dry && now_monotonic() < until && !__atomic_load_n(skip, __ATOMIC_RELAXED) &&
		 !__atomic_load_n(cancel, __ATOMIC_RELAXED));
	__atomic_store_n(&counters->drain_ns, now_monotonic() - from, __ATOMIC_RELAXED);
	return dry;
}

void worker_deliver(const uint32_t *skip, const uint32_t *cancel)
{
	uint64_t moved = now_monotonic(), least = UINT64_MAX, waits;

	while ((waits = atomic_load(&undelivered_bytes))) {
		uint64_t now = now_monotonic();

		if (waits < least)
			moved = now;
		least = waits;
		if (now - moved > WORKER_DELIVERY_STALLED_NS || __atomic_load_n(skip, __ATOMIC_RELAXED) ||
		    __atomic_load_n(cancel, __ATOMIC_RELAXED))
			return;
		sys_sleep_ns(PERIOD_DRAIN_NS);
	}
}

void worker_abandon(void)
{
	atomic_store(&abandoning, 1);
	names_stop_waiting();
	if (worker_round(WORKER_ABANDON_MOST_NS / 2))
		worker_round(WORKER_ABANDON_MOST_NS / 2); /* what wrappers handed over meanwhile */
}

void worker_stop_touching_runtime(bool frees)
{
	struct starved s = starved_from_now();

	atomic_store(&draining, 1);
	atomic_store(&abandoning, 1);
	atomic_store(&session_flags.lost, 1);
	names_stop_waiting();
	uint32_t round = ask_for_round();
	while (!await_round(round, STARVED_LOOK_NS) && frees && worker_is_starved(&s))
		;
}

bool worker_stop(uint32_t why, uint64_t armed_ns, uint64_t detached_ns)
{
	if (!worker_tid())
		return true; /* it has ended before */
	if (!atomic_load(&stopping)) {
		ending = (struct session_end){.why = why, .armed_ns = armed_ns, .detached_ns = detached_ns};
		atomic_store(&stopping, 1);
	}
	kick_worker();
	if (!thread_join(thread, session_end_most_ns(why) + WORKER_ROUND_MOST_NS))
		return false;
	atomic_store(&tid, 0);
	events_set_consumer(false);
	return true;
}

int worker_tid(void)
{
	return (int)atomic_load(&tid);
}
