/*
 * recorder.c: the recorder's thread. It begins the session, reads the ring until the session's last record, and
 * hands the records to callbacks and buffers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "abi.h"
#include "core/session_flags.h"
#include "embed.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "settings.h"

#define RECORD_LINES_MOST ((16 + RTL_STRING_MAX + RTL_LINE - 1) / RTL_LINE)
#define GIVE_BACK_BYTES (64 * 1024ull) /* read before the payload is shown that there is room */
#define PERIOD_LEAST_NS NS_PER_MS
#define PERIOD_MOST_NS (16 * NS_PER_MS)

enum phase { PHASE_NONE, PHASE_STARTING, PHASE_RUNNING, PHASE_ENDED };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct condition changed; /* phase, read_until */
static bool initialized;
static enum phase phase;
static pthread_t thread;
static int result; /* of the start */
static uint64_t read_until; /* position in the ring up to which all was delivered */
static uint32_t flushing;   /* threads that wait for it */
static struct settings settings;

static struct rtl_ring *_Atomic ring; /* with the lock, and on the recorder's thread */
static uint64_t ring_bytes, owner;
static uint32_t kinds;
static _Atomic bool abandoned;
static pthread_t stopper;
static bool has_stopper;

static _Atomic uint64_t sessions, lost, unknown, delivered[RTL_RECORD_KINDS];

static _Alignas(8) uint8_t whole[RECORD_LINES_MOST * RTL_LINE]; /* a record that goes over the ring's end */

static void add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static void beat(void)
{
	__atomic_fetch_add(&control->recorder.beat, 1, __ATOMIC_RELAXED);
}

/* ---- reading */

static const uint8_t *data(void)
{
	return (const uint8_t *)ring + RTL_PAGE;
}

static const struct rtl_header *record_at(uint64_t at)
{
	uint64_t offset = at & (ring_bytes - 1);
	const struct rtl_header *h = (const struct rtl_header *)(data() + offset);
	uint64_t bytes = (uint64_t)h->lines * RTL_LINE, first = ring_bytes - offset;

	if (bytes <= first)
		return h;
	if (bytes > sizeof whole)
		return NULL;
	memcpy(whole, data() + offset, first);
	memcpy(whole + first, data(), bytes - first);
	return (const struct rtl_header *)whole;
}

static void deliver(const rtl_record_t *r)
{
	if (!(RTL_BIT(r->kind) & (kinds | KINDS_OF_SESSIONS)))
		return; /* dispatches are always recorded */
	add(&delivered[r->kind], 1);
	callbacks_call(r);
	buffers_put(r, beat);
}

/* True: it was the session's last. */
static bool take(const struct rtl_header *h)
{
	union any_record r;

	switch (decode(h, &r)) {
	case DECODED_NOTHING:
		return false;
	case DECODED_UNKNOWN:
		add(&unknown, 1);
		return false;
	case DECODED_RECORD:
		deliver(&r.record);
		return false;
	case DECODED_LAST:
		add(&lost, r.end.lost);
		deliver(&r.record);
		return true;
	}
	return false;
}

static void show_read(uint64_t at)
{
	__atomic_store_n(&ring->tail, at, __ATOMIC_RELEASE); /* pairs with the payload's acquire */
}

/* The application has written into the ring: what follows cannot be read. */
static bool is_damaged(const struct rtl_header *h, uint64_t bytes)
{
	return !h || !h->lines || (uint64_t)h->lines * RTL_LINE > bytes;
}

/* True: the session's last record was read. */
static bool read_all(uint64_t *at)
{
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), shown = *at; /* pairs with the payload's release */
	bool last = false;

	while (!last && *at != head && !abandoned) {
		const struct rtl_header *h = record_at(*at);

		if (is_damaged(h, head - *at)) {
			add(&unknown, 1);
			session_disarm(RTL_END_RECORDER_DEAD);
			return true;
		}
		last = take(h);
		*at += (uint64_t)h->lines * RTL_LINE;
		if (*at - shown >= GIVE_BACK_BYTES) {
			show_read(shown = *at);
			beat();
		}
	}
	if (*at != shown)
		show_read(*at);
	return last;
}

static void tell_read(uint64_t at)
{
	pthread_mutex_lock(&lock);
	read_until = at;
	if (flushing)
		pthread_cond_broadcast(&changed.cond);
	pthread_mutex_unlock(&lock);
}

/* `rtl-attach detach` asks for the end. Its wait for records would wait for this thread: another one makes it. */
static void *end_for_tool(void *unused)
{
	session_disarm(RTL_END_OTHER_TOOL);
	return unused;
}

static void look_for_stop_request(void)
{
	if (!has_stopper && __atomic_load_n(&control->recorder.stop_request, __ATOMIC_ACQUIRE))
		has_stopper = !embed_thread_start(&stopper, end_for_tool, NULL);
}

static void read_session(void)
{
	uint64_t at = 0, period = PERIOD_LEAST_NS;

	while (!abandoned) {
		uint32_t wake = __atomic_load_n(&ring->wake, __ATOMIC_ACQUIRE);
		bool ended = __atomic_load_n(&ring->ended, __ATOMIC_ACQUIRE); /* before the last look */
		uint64_t before = at;
		bool last = read_all(&at);

		beat();
		tell_read(at);
		if (last || (ended && at == before))
			return;
		look_for_stop_request();
		period = at != before ? PERIOD_LEAST_NS : 2 * period < PERIOD_MOST_NS ? 2 * period : PERIOD_MOST_NS;
		if (!ended)
			futex_wait_shared(&ring->wake, wake, period);
	}
}

/* ---- the session's beginning */

static int busy(void)
{
	return embed_fail(-EBUSY, "rtl-attach, or another copy of this library, records this process");
}

static int map_ring(void)
{
	uint64_t bytes = control->ring_size;
	void *p = mmap(NULL, RTL_PAGE + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, control->ring_fd, 0);

	if (p == MAP_FAILED)
		return embed_fail(-errno, "cannot map the session's buffer: %s", strerror(errno));
	madvise(p, RTL_PAGE + bytes, MADV_DONTFORK);
	ring_bytes = bytes;
	ring = p;
	return 0;
}

/* With all locks. */
static int begin_session(void)
{
	if (control_state() == RTL_STATE_ACTIVE) /* its recorder is gone */
		session_disarm(RTL_END_RECORDER_DEAD);
	int r = rtl_attach(settings.env, settings.env_len);

	if (r)
		return embed_fail(r, "%s", control->error_text[0] ? control->error_text : strerror(-r));
	/* The tool may have loaded a payload of its own meanwhile. */
	if ((r = map_ring()) || (r = lock_others() ? busy() : 0))
		session_disarm(RTL_END_DETACH);
	return r;
}

static void end_ring(void)
{
	pthread_mutex_lock(&lock);
	struct rtl_ring *r = ring;
	ring = NULL;
	pthread_mutex_unlock(&lock);
	if (r)
		munmap(r, RTL_PAGE + ring_bytes);
}

static int begin(void)
{
	int r = control_create();

	if (r)
		return embed_fail(r, "no control block or control thread: %s", strerror(-r));
	note_process();
	if (lock_recorder(control, &owner))
		return busy();
	if (!lock_others())
		r = decode_begin() ? embed_fail(-ENOMEM, "no memory for the library's tables") : begin_session();
	else
		r = busy();
	if (!r)
		return 0;
	end_ring();
	unlock_others();
	unlock_recorder(control, owner);
	return r;
}

/* Only threads with the lifecycle's lock leave PHASE_NONE, or come back to it. */
static void set_phase(enum phase p)
{
	pthread_mutex_lock(&lock);
	phase = p;
	if (p == PHASE_STARTING)
		read_until = 0;
	pthread_cond_broadcast(&changed.cond);
	pthread_mutex_unlock(&lock);
}

static void *run(void *unused)
{
	prctl(PR_SET_NAME, "rtl-recorder");
	result = begin();
	if (!result) {
		add(&sessions, 1);
		set_phase(PHASE_RUNNING);
		read_session();
		if (has_stopper)
			embed_thread_join(stopper);
		has_stopper = false;
		end_ring();
		unlock_others();
		unlock_recorder(control, owner);
	}
	set_phase(PHASE_ENDED);
	return unused;
}

/* ---- for api.c */

static void await_phase(enum phase wanted)
{
	pthread_mutex_lock(&lock);
	while (phase < wanted)
		condition_wait(&changed, &lock, UINT64_MAX);
	pthread_mutex_unlock(&lock);
}

static enum phase phase_now(void)
{
	pthread_mutex_lock(&lock);
	enum phase p = phase;
	pthread_mutex_unlock(&lock);
	return p;
}

bool recorder_is_idle(void)
{
	enum phase p = phase_now();

	return p == PHASE_NONE || p == PHASE_ENDED;
}

static void join(void)
{
	if (phase_now() == PHASE_NONE)
		return;
	await_phase(PHASE_ENDED);
	embed_thread_join(thread);
	set_phase(PHASE_NONE);
}

static uint32_t kinds_of(const rtl_options_t *o)
{
	return o->kinds ? o->kinds : (callbacks_kinds() | buffers_kinds()) & KINDS_OF_ITEMS;
}

int recorder_start(const rtl_options_t *o)
{
	if (!initialized)
		condition_init(&changed);
	initialized = true;
	join(); /* the last session has ended by itself */
	kinds = kinds_of(o);
	if (settings_make(o, kinds, &settings))
		return embed_fail(-EINVAL, "the options are not valid: rtl.h has the limits");
	atomic_store(&abandoned, false);
	buffers_set_ending(false);
	set_phase(PHASE_STARTING);
	int r = embed_thread_start(&thread, run, NULL);
	if (r) {
		set_phase(PHASE_NONE);
		return embed_fail(r, "no thread: %s", strerror(-r));
	}
	await_phase(PHASE_RUNNING);
	r = result;
	if (r)
		join();
	return r;
}

int recorder_stop(void)
{
	if (phase_now() == PHASE_NONE)
		return 0;
	buffers_set_ending(true);
	int r = recorder_is_idle() ? 0 : session_disarm(RTL_END_DETACH);
	if (r && r != -EALREADY) { /* it has ended by itself */
		buffers_set_ending(false);
		return embed_fail(r, "%s", control->error_text);
	}
	join();
	return 0;
}

void recorder_abandon(void)
{
	atomic_store(&abandoned, true);
	join();
}

/* Where the payload's worker has come to. */
static int ring_head(uint64_t *head)
{
	pthread_mutex_lock(&lock);
	bool running = phase == PHASE_RUNNING && ring;
	if (running) {
		*head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
		__atomic_fetch_add(&ring->wake, 1, __ATOMIC_RELEASE);
		futex_wake_shared(&ring->wake);
	}
	pthread_mutex_unlock(&lock);
	return running ? 0 : -ESRCH;
}

static int await_read(uint64_t head, uint64_t until_ns)
{
	bool in_time = true;

	pthread_mutex_lock(&lock);
	flushing++;
	while (in_time && phase == PHASE_RUNNING && read_until < head)
		in_time = condition_wait(&changed, &lock, until_ns);
	flushing--;
	bool done = phase != PHASE_RUNNING || read_until >= head;
	pthread_mutex_unlock(&lock);
	return done ? 0 : -ETIMEDOUT;
}

int recorder_flush(uint64_t until_ns)
{
	uint64_t now = now_monotonic(), head;

	if (recorder_is_idle())
		return 0;
	/* False also where the session ends: then there is nothing to wait for. */
	if (!worker_round(now < until_ns ? until_ns - now : 0) && now_monotonic() >= until_ns)
		return -ETIMEDOUT;
	return ring_head(&head) ? 0 : await_read(head, until_ns);
}

void recorder_exit(uint64_t until_ns)
{
	if (!initialized)
		return;
	buffers_set_ending(true);
	if (control)
		session_end_now(RTL_END_EXIT);
	pthread_mutex_lock(&lock);
	while (phase != PHASE_NONE && phase != PHASE_ENDED && condition_wait(&changed, &lock, until_ns))
		;
	pthread_mutex_unlock(&lock);
}

void recorder_stats(rtl_stats_t *out)
{
	out->sessions = atomic_load(&sessions);
	out->active = !recorder_is_idle();
	out->lost = atomic_load(&lost);
	out->unknown = atomic_load(&unknown);
	out->unavailable = atomic_load(&session_flags.unavailable);
	for (uint32_t kind = 0; kind < RTL_RECORD_KINDS; kind++)
		out->delivered[kind] = atomic_load(&delivered[kind]);
}
